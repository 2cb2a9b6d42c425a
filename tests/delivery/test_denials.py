"""What a server denies is told once, remembered within a bound, and forgotten with the connection
that it was said to.
"""

import asyncio

import pytest

from router.core.errors import LoginRefused, PermissionDenied
from router.delivery.wire.denials import MAX_SUBJECTS, Denials, LoginRefusals
from tests.support.broker import Broker
from tests.support.delivery import connected

INBOX = "_INBOX.own"


def violation(subject: str, how: str = "Publish to") -> str:
    return f"-ERR 'Permissions Violation for {how} \"{subject}\"'\r\n"


def test_a_denial_is_told_once_and_the_oldest_is_forgotten_first() -> None:
    told: list[str] = []
    denials = Denials(lambda what, _: told.append(what))
    for number in (*range(MAX_SUBJECTS + 1), MAX_SUBJECTS):
        denials.on_error_line(violation(f"Some.Subject.{number}"), INBOX)
    assert len(told) == MAX_SUBJECTS + 1
    assert told[0] == "publish to Some.Subject.0"
    assert denials.find("Some.Subject.0") is None
    assert isinstance(denials.find(f"Some.Subject.{MAX_SUBJECTS}"), PermissionDenied)
    denials.forget()
    assert denials.find(f"Some.Subject.{MAX_SUBJECTS}") is None


def test_other_errors_are_no_denials() -> None:
    denials = Denials(lambda *_: pytest.fail("it was told"))
    denials.on_error_line("-ERR 'Stale Connection'\r\n", INBOX)
    denials.on_error_line(violation("x" * 2000), INBOX)  # no subject is as long
    assert denials.find("any") is None


async def test_a_denied_inbox_is_the_end_of_every_request_that_waits_and_that_comes() -> None:
    denials = Denials(lambda *_: None)
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
    with denials.watch("a", first):
        denials.on_error_line(violation(f"{INBOX}.*", "Subscription to"), INBOX)
    with denials.watch("b", second):
        assert isinstance(first.exception(), PermissionDenied)
        assert isinstance(second.exception(), PermissionDenied)


def test_a_login_that_is_refused_later_is_told_once_for_each_loss() -> None:
    told: list[str] = []
    refusals = LoginRefusals("nats://somewhere", 1, lambda what, _: told.append(what))
    refusals.on_connected()
    for _ in range(3):
        refusals.on_refusal()
    assert told == ["log in"]
    refusals.on_connected()
    refusals.on_refusal()
    assert told == ["log in", "log in"]


def test_before_the_first_connection_every_server_may_refuse_it_once() -> None:
    refusals = LoginRefusals("nats://a, nats://b", 2, lambda *_: None)
    refusals.on_refusal()
    with pytest.raises(LoginRefused, match="refuses this login"):
        refusals.on_refusal()


async def test_a_denied_request_leaves_nothing_behind() -> None:
    permissions = '{publish: [none], subscribe: [">"]}'
    user = f"{{user: a, password: p, permissions: {permissions}}}"
    with Broker(f"authorization {{ users [ {user} ] }}") as broker:
        async with connected(broker.url, user="a", password="p") as connection:
            with pytest.raises(PermissionDenied, match="publish to Denied"):
                await connection.request("Denied", b"", timeout=60)
            await connection.flush()
            assert connection._resp_map == {}
