"""The pages over a real server: what a router left there, hostile content, and a broker that goes
and comes back.
"""

import asyncio
import html
from collections.abc import AsyncIterator

import orjson
import pytest

from router import Client
from router.config import Settings
from router.config.connect import connect_by
from router.decide import page as decisions
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import apply
from router.operate.topology.declared_topology import declare_topology
from router.operate.violations.events import violation_bytes, violation_subject
from router.policies.store import PolicyStore
from router.shell import scrape
from tests.support.broker import Broker
from tests.support.console import (
    HOSTILE,
    PAGES,
    Console,
    a_console,
    console_settings,
    store_dead_letter,
)
from tests.support.service import POLICIES, a_router
from tests.support.waiting import until

POLICY = {"version": "1.0", "providers": [{"name": "first", "weight": 1}]}


@pytest.fixture
async def console(settings: Settings, jetstream: JetStream) -> AsyncIterator[Console]:
    async with a_console(settings) as running:
        await until(lambda: is_connected(running))
        yield running


async def is_connected(console: Console) -> bool:
    return console.server.link.hears_since is not None


async def test_every_page_is_whole_while_there_is_nothing_to_show(console: Console) -> None:
    for path in PAGES:
        page = await console.read(path)
        assert page.count("</main>") == page.count("<h1>") == 1, path
        assert 'aria-current="page"' in page
        assert "router " in page, path  # what to do, or the command that shows the same
    assert "No dead letters. What fails for good is stored here" in await console.read(
        "/dead-letters"
    )
    assert "router usage ingest" in await console.read("/usage")


async def test_dead_letters_are_grouped_and_each_group_leads_to_its_own(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    for number in range(3):
        await store_dead_letter(
            jetstream, settings, b'{"n":%d}' % number, seen={"tenant_id": "acme"}
        )
    await store_dead_letter(jetstream, settings, b'{"n":9}', reason="maxdeliver_exhausted")
    groups = await console.export("/dead-letters?sort=-count")
    assert [(group["reason"], group["code"], group["count"]) for group in groups] == [
        ("validation_failed", "SCHEMA_VALIDATION_FAILED", 3),
        ("maxdeliver_exhausted", "SCHEMA_VALIDATION_FAILED", 1),
    ]
    page = await console.read("/dead-letters?tenant=acme")
    assert "router dlq replay --dry-run --tenant acme" in page
    address = html.unescape(page.split('<td class="text short"><a href="')[1].split('"')[0])
    assert [row["sequence"] for row in await console.export(f"/dead-letters{address}")] == [3, 2, 1]
    csv = await console.get(f"/dead-letters{address}&format=csv")
    assert csv.text.splitlines()[0] == "sequence,stored,subject,reason,code,field,tenant,bytes"
    assert "attachment" in csv.headers["content-disposition"]


async def test_one_dead_letter_is_shown_with_its_way_and_no_secret(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    payload = orjson.dumps({"text": HOSTILE, "password": "s3cret", "deep": {"api_key": "k3y"}})
    seen = {"tenant_id": "acme", "request_id": "r-1"}
    await store_dead_letter(
        jetstream,
        settings,
        payload,
        seen=seen,
        headers={"authorization": "b3arer", "x-odd": HOSTILE},
    )
    page = await console.read("/dead-letters/1")
    assert not any(
        secret in page for secret in ("s3cret", "k3y", "b3arer", "<script>alert", "\x1b", "\u202e")
    )
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "attempts 2, deliveries 3" in page
    assert "router dlq replay 1" in page
    assert "/decisions?tenant=acme&amp;request_id=r-1" in page
    missing = await console.get("/dead-letters/77")
    assert (missing.status_code, "There is no dead letter 77" in missing.text) == (404, True)


async def test_what_is_no_json_is_described_and_a_mebibyte_is_cut(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    await store_dead_letter(jetstream, settings, b"password=s3cret \xff")
    deep = '{"a":"' + "x" * 90_000 + '"}'
    large = orjson.dumps(
        {
            "reason": "processing_error",
            "original_subject": "s" * 900_000,
            "message": {"payload": deep},
        }
    )
    await jetstream.publish(f"{settings.decide.subject}.dlq", large, {})
    first, second = await console.read("/dead-letters/1"), await console.read("/dead-letters/2")
    assert "s3cret" not in first
    assert "nothing in it can be masked" in first
    assert len(second) < 120_000
    assert len(await console.read("/dead-letters")) < 20_000


async def test_hostile_names_are_text_everywhere(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    body = {
        "reason": HOSTILE,
        "original_subject": HOSTILE,
        "tenant_id": HOSTILE,
        "last_error": {"code": HOSTILE, "message": HOSTILE},
    }
    await jetstream.publish(f"{settings.decide.subject}.dlq", orjson.dumps(body), {})
    console.server.link._on_alert(
        "",
        "",
        orjson.dumps({"severity": HOSTILE, "message": HOSTILE, "component": [HOSTILE]}),
        None,
    )
    for path in (
        "/",
        "/dead-letters",
        "/dead-letters?show=each",
        "/dead-letters/1",
        f"/dead-letters?tenant={'%3Cscript%3E'}&q=%3Cscript%3E",
    ):
        page = await console.read(path)
        assert "<script>alert" not in page, path
        assert "<script>&" not in page, path
        assert "\x1b" not in page, path
        assert "\u202e" not in page, path
    assert "'$(reboot)'" in html.unescape(await console.read("/dead-letters?tenant=$(reboot)"))


async def test_violations_lead_to_their_message_and_show_no_secret(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    from tests.cli.test_contract_violations import an_event

    stored = await jetstream.publish(
        settings.assignment.subjects[0], b'{"password":"s3cret","text":"<b>"}', {"api_key": "k3y"}
    )
    event = an_event(stream=stored["stream"], sequence=stored["seq"], message_id="m-1")
    await jetstream.publish(violation_subject("decide"), violation_bytes(event), {})
    rows = await console.export("/contract?since=1h")
    assert [(row["tenant"], row["rule"], row["violations"], row["example"]) for row in rows] == [
        ("acme", "trace_id.malformed", 1, 1)
    ]
    page = await console.read("/contract/1")
    assert "router explain trace_id.malformed" in page
    assert "***" in page
    assert not any(secret in page for secret in ("s3cret", "k3y", "<b>"))
    assert (await console.get("/contract/9")).status_code == 404


async def test_policies_have_their_history_and_what_changed(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    store = PolicyStore(DocumentBucket(jetstream, settings.buckets.policies.name))
    await store.put("acme", "fast", orjson.dumps(POLICY), replaces=None, author=HOSTILE[:25])
    later = {**POLICY, "providers": [{"name": "first", "weight": 2}]}
    await store.put("acme", "fast", orjson.dumps(later), replaces=1, author="me")
    assert [
        (row["policy"], row["tenant"], row["version"]) for row in await console.export("/policies")
    ] == [("fast", "acme", 2)]
    assert [row["version"] for row in await console.export("/policies/acme/fast")] == [2, 1]
    changed = await console.read("/policies/acme/fast?version=2&against=1")
    assert "providers[first].weight" in changed
    assert "router policy diff acme fast 1 2" in changed
    assert (await console.get("/policies/acme/none")).status_code == 404


async def test_a_request_is_explained_as_far_as_it_is_known(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    await store_dead_letter(
        jetstream,
        settings,
        b'{"tenant_id":"acme","request_id":"r-9"}',
        seen={"tenant_id": "acme", "request_id": "r-9"},
    )
    page = await console.read("/decisions?tenant=acme&request_id=r-9")
    assert "no router answered" in page
    assert "router decisions explain r-9 --tenant acme" in page
    assert [
        row["what"] for row in await console.export("/decisions?tenant=acme&request_id=r-9")
    ] == ["dead letter"]
    assert await console.export("/decisions?tenant=beta&request_id=r-9") == []


async def test_the_doctor_says_what_to_do_the_worst_first(console: Console) -> None:
    rows = await console.export("/doctor")
    order = [("fail", "warn", "ok").index(row["verdict"]) for row in rows]
    assert len(rows) > 5
    assert order == sorted(order)


async def test_while_the_broker_is_away_a_page_says_what_it_knew_and_when(
    settings: Settings, jetstream: JetStream
) -> None:
    with Broker() as own:
        there = settings.model_copy(
            update={"nats": settings.nats.model_copy(update={"url": (own.url,)})}
        )
        connection = await connect_by(there.nats)
        await apply(JetStream(connection), declare_topology(there))
        await store_dead_letter(JetStream(connection), there, b'{"n":1}')
        await connection.close()
        async with a_console(there) as console:
            await until(lambda: is_connected(console))
            assert len(await console.export("/dead-letters")) == 1
            own.kill()
            await until(lambda: says(console, "/dead-letters", "This is what was known at"))
            assert len(await console.export("/dead-letters")) == 1
            for path in PAGES:
                assert (await console.get(path)).status_code == 200, path
            assert "Nothing is known yet" in await console.read("/policies")
            own.start()
            await until(lambda: says(console, "/policies", "in force"))
            assert "This is what was known" not in await console.read("/dead-letters")


async def says(console: Console, path: str, text: str) -> bool:
    return text in await console.read(path)


async def test_live_pages_are_bounded_and_each_sample_reaches_them(
    settings: Settings, jetstream: JetStream
) -> None:
    bounded = settings.model_copy(
        update={"console": settings.console.model_copy(update={"clients": 1})}
    )
    async with (
        a_console(bounded) as console,
        console.client.stream("GET", console.url + "/live") as live,
    ):
        assert live.headers["content-type"].startswith("text/event-stream")
        await until(lambda: asyncio.sleep(0, console.server.feed.count == 1))
        assert (await console.get("/live")).status_code == 503
        assert 'data-live="no"' in await console.read("/")
        await console.server.sampler.take_sample()
        lines = live.aiter_lines()
        heard = [await anext(lines) for _ in range(3)]
        assert heard[0] == "event: now"
        assert 'id="series"' in heard[1]


async def test_a_real_router_s_decisions_are_counted_and_explained(
    settings: Settings, jetstream: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "WITHIN_S", 60.0)
    # a router that is there may be slow; it is waited for no longer than it takes
    monkeypatch.setattr(decisions, "WITHIN_S", 60.0)
    router = console_settings(
        settings.nats.url[0],
        recorder__tenants="acme",
        metrics__tenant_label_allowlist="acme",
        policies__dir=POLICIES,
    )
    async with (
        a_router(router) as running,
        Client(router.nats, subject=router.decide.subject) as client,
    ):
        there = router.model_copy(
            update={"console": router.console.model_copy(update={"metrics": (running.ready.http,)})}
        )
        async with a_console(there) as console:
            await until(lambda: is_connected(console))
            await until(lambda: has_sample(console))
            for number in range(3):
                await client.decide(
                    tenant_id="acme",
                    message_type="chat",
                    payload="hello",
                    request_id=f"r-{number}",
                    timeout=60.0,
                )
            refused = await client.decide(
                tenant_id="acme",
                message_type="chat",
                payload="hello",
                policy_id="nowhere",
                timeout=60.0,
            )
            await console.server.sampler.take_sample()
            now, page = (
                await console.read("/"),
                await console.read("/decisions?tenant=acme&request_id=r-1"),
            )
            answers = {
                one["worst"]: one for one in await console.export("/now/answers") if "worst" in one
            }
            sorted_page = await console.read("/now/answers?sort=-errors")
            assert [await console.export(path) for path in ("/now/work", "/now/alerts")] == [[], []]
    assert answers["policy_not_found"]["errors"] == 1.0
    assert 'aria-sort="descending"' in sorted_page
    assert 'href="/now/answers?sort=-errors"' in now
    assert refused.error is not None
    assert "policy_not_found" in now
    assert "25.0%" in now
    assert "pulls" in now
    assert "was not read" not in now
    assert "the same" in page
    assert "Considered, in this order" in page
    assert "hello" not in page


async def has_sample(console: Console) -> bool:
    await console.read("/")  # nothing is asked while no page is opened
    return console.server.sampler.read_state().sample is not None
