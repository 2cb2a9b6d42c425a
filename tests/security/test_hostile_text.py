"""Text that a tenant, a worker or an operator chose, where it meets masking, log lines and errors:
no length of it stops a process.
"""

import json
from collections.abc import AsyncIterator

import orjson
import pytest
from nats.aio.client import Client

from router import ExecAssignment, StepResult
from router.contracts.stored_record import record_bytes
from router.contracts.version_record import make_record
from router.core.masking import MASK, MAX_TEXT, hide_logins, shorten, truncate
from router.extensions.model import EntryError, parse_entry
from router.policies.model import PolicyError, load_policy
from router.process.observability import logger
from tests.support.observability import capture_log
from tests.support.policy_buckets import a_policy_of, store_of
from tests.support.requests import a_body as a_request_body
from tests.support.sdk import WorkerStreams, a_body, a_step, run_workers, some_worker_streams
from tests.support.service import a_router, settings_for
from tests.support.stories import ask, read_page
from tests.support.waiting import until

SLASHES = "/" * 120_000 + " @"


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[WorkerStreams]:
    async with some_worker_streams(nats_url, prefix) as place:
        yield place


async def test_a_worker_whose_handler_quotes_a_payload_of_slashes_takes_the_next_assignment(
    place: WorkerStreams,
) -> None:
    async def handle(assignment: ExecAssignment) -> StepResult:
        # its ValueError quotes the whole text
        return a_step(output=float(assignment.payload["text"]))

    with capture_log("warning") as lines:
        async with run_workers(place.worker(handle)):
            await place.push(a_body("a-1", job={"type": "chat", "payload": {"text": SLASHES}}))
            await place.push(a_body("a-2", job={"type": "chat", "payload": {"text": "2.5"}}))
            results = {result["assignment_id"]: result for result in await place.results(2)}
    assert (results["a-1"]["status"], results["a-2"]["status"], results["a-2"]["payload"]) == (
        "error",
        "success",
        2.5,
    )
    assert len(results["a-1"]["error_message"]) <= MAX_TEXT
    assert max(map(len, lines.stream.getvalue().splitlines())) < 4 * MAX_TEXT


async def test_a_policy_record_whose_key_is_slashes_stops_no_router(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix)
    hostile = make_record(
        {"providers": [{"name": "p", "weight": 1}], SLASHES: 1}, version=1, author="x"
    )
    with capture_log("info") as lines:
        async with a_router(settings) as router, store_of(settings) as store:
            await nc.publish(
                f"$KV.{settings.buckets.policies.name}.acme.hostile", record_bytes(hostile)
            )
            await store.put("acme", "after", a_policy_of("q"), replaces=0, author="x")
            body = json.dumps({**a_request_body(), "policy_id": "after"}).encode()

            async def is_in_force() -> bool:
                return bool((await ask(nc, settings, body))["ok"])

            await until(is_in_force)
            assert len((await read_page(router.ready.http, "/readyz"))[1]) < 4 * MAX_TEXT
    assert max(map(len, lines.stream.getvalue().splitlines())) < 4 * MAX_TEXT


def test_a_hidden_login_costs_one_pass_however_the_text_is_made() -> None:
    assert hide_logins(SLASHES) == SLASHES
    assert hide_logins("//" * 60_000 + "@h") == f"//{MASK}@h"
    assert hide_logins("//a@" * 60_000) == f"//{MASK}@"
    assert (
        hide_logins("a nats://u:p/@q@h:1, //x@y @ //z") == f"a nats://{MASK}@h:1, //{MASK}@y @ //z"
    )


def test_a_text_that_is_cut_shows_no_half_of_a_login() -> None:
    for before in range(MAX_TEXT // 2 - 40, MAX_TEXT // 2 + 1):
        text = " " * before + "nats://svc:hunter2hunter2hunter2@h" + " " * MAX_TEXT
        cut, tail = (
            shorten(text),
            shorten(text[::-1].replace("2retnuh", "hunter2").replace("h@", "@h", 1)),
        )
        assert len(cut) <= MAX_TEXT
        assert "hunter2" not in hide_logins(cut) + hide_logins(tail).replace("@hunter2", "")


def test_a_short_text_is_not_cut() -> None:
    assert shorten("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert truncate({"a": ["x", 1, None]}) == {"a": ["x", 1, None]}


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_log_line_is_bounded_whatever_is_put_into_it(style: str) -> None:
    with capture_log(style=style) as lines:
        try:
            raise ValueError(SLASHES)
        except ValueError:
            logger("x").exception(
                "a.b",
                one=SLASHES,
                many=["y" * 1000] * 10_000,
                wide={str(n): n for n in range(100_000)},
            )
    written = lines.stream.getvalue()
    assert len(written) < 100_000
    assert "ValueError" in written
    if style == "json":
        assert orjson.loads(written)["event"] == "a.b"


def test_a_document_tells_twenty_problems_and_how_many_more_there_are() -> None:
    wrong = {"k" * 220 + str(n): 1 for n in range(1000)}
    with pytest.raises(PolicyError) as policy:
        load_policy(orjson.dumps({"providers": [{"name": "p", "weight": 1}], **wrong}), "acme", "p")
    with pytest.raises(EntryError) as entry:
        parse_entry({"id": "x", "type": "pre", "subject": "beamline.ext.pre.x.v1", **wrong})
    for refused in (policy.value, entry.value):
        assert len(refused.errors) == 21
        assert refused.errors[-1] == ("…", "980 more problems")
        assert len(str(refused)) < 20 * 600
