"""Least privilege, tried: every action by every role, allowed or refused by a real server."""

import asyncio
import re
import runpy

import pytest

from router.config import Settings
from router.operate.topology.declared_topology import declare_topology
from tests.support.client_actions import CLIENT_ACTIONS, ClientAction
from tests.support.deployed import DEPLOY, ROLES, Deployed
from tests.support.permissions import Verdicts, list_expected, measure, render_page


@pytest.fixture(scope="module")
def verdicts(deployed: Deployed) -> Verdicts:
    """Measured once: three hundred tries take a second and a half."""
    return asyncio.run(measure(deployed))


@pytest.mark.parametrize("action", CLIENT_ACTIONS, ids=lambda action: action.says.replace(" ", "-"))
def test_a_role_may_do_its_work_and_is_refused_the_rest(
    action: ClientAction, verdicts: Verdicts
) -> None:
    assert {role: verdicts[action.says, role] for role in ROLES} == {
        role: list_expected()[action.says, role] for role in ROLES
    }


def test_every_role_may_do_something_and_is_refused_something() -> None:
    for role in ROLES:
        assert {verdict for (_, who), verdict in list_expected().items() if who == role} == {
            "allowed",
            "refused",
        }


def test_the_page_is_what_was_measured(verdicts: Verdicts) -> None:
    page = DEPLOY.parent / "docs" / "reference" / "permissions.md"
    assert page.read_text() == render_page(verdicts), "run `python -m tests.support.permissions`"


def test_the_router_may_reach_every_stream_and_durable_that_it_declares(deployed: Deployed) -> None:
    """A new stream of the router's comes with its permission."""
    text = (DEPLOY / "nats" / "accounts.conf").read_text()
    router = text[text.index("$ROUTER_KEY") : text.index("$WORKER_KEY")]
    topology = declare_topology(deployed.settings("router", acks__enabled=True))
    wanted = {f"STREAM.INFO.{stream.name}" for stream in topology.streams}
    wanted |= {f"CONSUMER.MSG.NEXT.{one.stream}.{one.durable}" for one in topology.consumers}
    assert wanted <= set(re.findall(r'"\$JS\.API\.([^"]+)"', router))


def test_what_follows_from_the_subscriptions_is_written_as_they_are_declared() -> None:
    text = (DEPLOY / "nats" / "accounts.conf").read_text()
    made = runpy.run_path(str(DEPLOY / "nats" / "permissions.py"))["write"](text, Settings())
    assert text == made, "run `python deploy/nats/permissions.py`"


def test_no_key_lies_in_the_repository() -> None:
    seed = re.compile(r"\bSU[A-Z2-7]{56}\b")
    assert [
        file.name
        for file in DEPLOY.rglob("*")
        if file.is_file() and seed.search(file.read_text(errors="replace"))
    ] == []
    assert list(DEPLOY.rglob("*.nk")) == []
