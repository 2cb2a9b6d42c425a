"""Dead letters mended in the console: replayed, edited, discarded, each once and with its audit
event; and what is refused.
"""

import asyncio
import html
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from router.config import Settings
from router.delivery.consume.stream_reader import open_reader
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.extensions.store import ExtensionStore
from router.operate.audit import AuditReader
from router.operate.audit.audit_event import AuditEvent
from router.operate.dead_letters import ReplayReport
from router.shell.mend.runs import KEPT, MAX_WAITING, MendRun, MendRuns, TooManyRuns
from tests.support.any_json import SAMPLES, iterate_json, read_exactly, write_object
from tests.support.console import HOSTILE, Console, a_console, store_dead_letter
from tests.support.console_login import ADMIN_KEY, CHEAP, PASSWORD, Browser, write_users, writing
from tests.support.waiting import until

NOTE = {"note": "as agreed", "confirm": "yes"}


async def open_console(console: Console, user: str = "", password: str = ADMIN_KEY) -> Browser:
    await until(lambda: asyncio.sleep(0, console.server.link.hears_since is not None))
    browser = Browser(console)
    assert (await browser.log_in(user, password)).status_code == 303
    return browser


@pytest.fixture
async def console(settings: Settings, jetstream: JetStream) -> AsyncIterator[Console]:
    async with a_console(writing(settings.nats.url[0])) as running:
        yield running


async def follow(browser: Browser, answer: object) -> MendRun:
    """The run that a form began, when it is over."""
    location = answer.headers["location"]  # type: ignore[attr-defined]
    assert location.startswith("/dead-letters/runs/"), location
    run = browser.console.server.runs.find(location.rpartition("/")[2])
    assert run is not None
    await until(lambda: asyncio.sleep(0, run.is_over))
    assert run.state in await browser.read(location)
    return run


async def read_payloads(jetstream: JetStream, stream: str) -> list[bytes]:
    async with open_reader(jetstream, stream) as reader:
        return [one.data for one in await reader.read(reader.total)] if reader.total else []


async def list_audit(jetstream: JetStream, settings: Settings) -> list[AuditEvent]:
    return [one.event async for one in AuditReader(jetstream, settings.streams.audit.name).read()]


async def count_letters(jetstream: JetStream, settings: Settings) -> int:
    info = await jetstream.stream(settings.streams.dlq.name)
    assert info is not None
    return int(info["state"]["messages"])


async def test_one_chosen_and_all_of_a_group_are_replayed_once(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    browser = await open_console(console)
    for number in range(6):
        reason = "validation_failed" if number < 4 else "maxdeliver_exhausted"
        await store_dead_letter(jetstream, settings, b'{"n":%d}' % number, reason=reason)
    assert 'action="/dead-letters/1/replay"' in await browser.read("/dead-letters/1")
    assert '<form class="write"' not in await console.read("/dead-letters/1")
    assert (
        await follow(
            browser, await browser.submit("/dead-letters/1", "/dead-letters/1/replay", NOTE)
        )
    ).facts["sent"] == 1
    page = "/dead-letters?show=each&reason=validation_failed"
    assert 'name="sequence" value="2"' in await browser.read(page)
    chosen = await browser.submit(
        page,
        "/dead-letters/replay",
        {"sequence": ["2", "3"], "all": "yes", "reason": "maxdeliver_exhausted"},
    )
    assert (await follow(browser, chosen)).facts["sent"] == 2
    group = await browser.submit(
        "/dead-letters", "/dead-letters/replay", {"reason": "maxdeliver_exhausted", "all": "yes"}
    )
    assert (await follow(browser, group)).facts["sent"] == 2
    assert await count_letters(jetstream, settings) == 1  # the fourth
    assert sorted(await read_payloads(jetstream, settings.streams.decide.name)) == [
        b'{"n":%d}' % number for number in (0, 1, 2, 4, 5)
    ]
    events = await list_audit(jetstream, settings)
    assert [(one.command, one.outcome, one.via, one.by) for one in events] == [
        ("dlq replay", outcome, "console", "admin key")
        for _ in range(3)
        for outcome in ("begun", "done")
    ]
    assert (events[0].note, events[0].target, events[3].target) == (
        "as agreed",
        "T_DLQ 1",
        "T_DLQ 2 3",
    )
    assert events[5].after == {"sent": 2, "finished": 0, "kept": 0, "in_doubt": False}
    assert "dlq replay" in await browser.read("/dead-letters/runs")


async def test_nothing_is_chosen_nothing_is_done(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    browser = await open_console(console)
    await store_dead_letter(jetstream, settings)
    for path, fields in (
        ("/dead-letters/replay", {}),
        ("/dead-letters/replay", {"reason": "validation_failed"}),
        ("/dead-letters/replay", {"sequence": "x"}),
        ("/dead-letters/replay", {"all": "yes", "since": "yesterday"}),
        ("/dead-letters/discard", {"all": "yes"}),
        ("/dead-letters/discard", {"all": "yes", "confirm": "yes"}),
        ("/dead-letters/discard", {"all": "yes", "note": "why"}),
        ("/dead-letters/1/discard", {}),
    ):
        refused = await browser.submit("/dead-letters", path, fields)
        assert (refused.status_code, "Nothing was done" in refused.text) == (400, True), (
            path,
            fields,
        )
    for path in (
        "/dead-letters/..%2f1/replay",
        "/dead-letters/0/replay",
        "/dead-letters/runs/none/stop",
        "/dead-letters/x/discard",
    ):
        assert (await browser.submit("/dead-letters", path, NOTE)).status_code == 404, path
    assert await count_letters(jetstream, settings) == 1
    assert await list_audit(jetstream, settings) == []


async def test_a_form_of_another_site_or_session_replays_nothing(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    browser, other = await open_console(console), await open_console(console)
    await store_dead_letter(jetstream, settings)
    csrf = await browser.find_csrf("/dead-letters")
    assert (await browser.send("/dead-letters/1/replay", {"note": ""})).status_code == 403
    assert (await other.send("/dead-letters/1/replay", {"csrf": csrf})).status_code == 403
    assert (
        await browser.send("/dead-letters/1/replay", {"csrf": csrf}, origin="http://evil.example")
    ).status_code == 403
    assert (
        await Browser(console).send("/dead-letters/1/replay", {"csrf": csrf})
    ).status_code == 401
    assert (
        (await Browser(console).open("/dead-letters/1/edit"))
        .headers["location"]
        .startswith("/login?next=")
    )
    assert await count_letters(jetstream, settings) == 1


async def test_an_edited_copy_is_sent_in_place_of_the_original(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    browser = await open_console(console)
    await store_dead_letter(jetstream, settings, orjson.dumps({"text": HOSTILE, "n": 1}))
    await store_dead_letter(jetstream, settings, b"no json \xff")
    editor = await browser.read("/dead-letters/1/edit")
    assert "<script>alert" not in editor
    assert "</textarea>" in editor
    assert "no text" in await browser.read("/dead-letters/2/edit")
    assert "no such dead letter" in await browser.read("/dead-letters/77/edit")
    edited = {"payload": '{\r\n  "n": 2\r\n}', "is_json": "yes", "back": "/dead-letters/1/edit"}
    wrong = await browser.submit(
        "/dead-letters/1/edit", "/dead-letters/1/replay", {**edited, "payload": "{"}
    )
    assert wrong.headers["location"] == "/dead-letters/1/edit"
    assert "not JSON" in await browser.read("/dead-letters/1")
    await follow(
        browser, await browser.submit("/dead-letters/1/edit", "/dead-letters/1/replay", edited)
    )
    assert await read_payloads(jetstream, settings.streams.decide.name) == [b'{"n":2}']
    assert {one.command for one in await list_audit(jetstream, settings)} == {"dlq replay --edit"}


async def test_an_edited_copy_keeps_every_digit_that_was_not_edited(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    browser = await open_console(console)
    payloads = [*iterate_json(12, 1, write_object), b'{"all":[%b]}' % b",".join(SAMPLES.values())]
    failed = [b'{"tenant":"wrong","body":%b}' % payload for payload in payloads]
    for number, data in enumerate(failed, start=1):
        await store_dead_letter(jetstream, settings, data)
        page = await browser.read(f"/dead-letters/{number}/edit")
        text = html.unescape(
            page.partition("<textarea")[2].partition(">")[2].partition("</textarea>")[0]
        ).removeprefix("\n")
        edited = {"payload": text.replace("wrong", "right").replace("\n", "\r\n"), "is_json": "yes"}
        await follow(
            browser,
            await browser.submit(
                f"/dead-letters/{number}/edit", f"/dead-letters/{number}/replay", edited
            ),
        )
    sent = await read_payloads(jetstream, settings.streams.decide.name)
    assert [read_exactly(one) for one in sent] == [
        {"tenant": "right", "body": read_exactly(payload)} for payload in payloads
    ]
    assert sent[-1] == b'{"tenant":"right","body":{"all":[%b]}}' % b",".join(
        SAMPLES.values()
    ).replace(SAMPLES["spaces"], b'{"a":[1,2.50]}')


async def test_the_page_of_a_dead_letter_shows_every_digit(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    await store_dead_letter(
        jetstream, settings, b'{"n":18446744073709551616,"m":0.1234567890123456789012345}'
    )
    page = await console.read("/dead-letters/1")
    assert ("18446744073709551616" in page, "0.1234567890123456789012345" in page) == (True, True)


async def test_a_discard_needs_a_word_and_leaves_its_note(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    browser = await open_console(console)
    for number in range(3):
        await store_dead_letter(jetstream, settings, b'{"n":%d}' % number)
    one = await browser.submit(
        "/dead-letters/2", "/dead-letters/2/discard", {**NOTE, "note": HOSTILE}
    )
    assert (await follow(browser, one)).facts["discarded"] == 1
    rest = await browser.submit("/dead-letters", "/dead-letters/discard", {**NOTE, "all": "yes"})
    assert (await follow(browser, rest)).facts["discarded"] == 2
    events = await list_audit(jetstream, settings)
    assert [(one.outcome, one.target) for one in events[1::2]] == [
        ("done", "T_DLQ 2"),
        ("done", "T_DLQ all"),
    ]
    assert "\x1b" not in (events[0].note or "")


async def test_a_limited_user_mends_one_tenant_s_letters(
    settings: Settings, jetstream: JetStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.shell.access.users._HASHER", CHEAP)
    for tenant in ("acme", "beta", "acme"):
        await store_dead_letter(
            jetstream,
            settings,
            orjson.dumps({"of": tenant, "n": tenant}),
            seen={"tenant_id": tenant},
        )
    async with a_console(
        writing(
            settings.nats.url[0],
            console__users=write_users(tmp_path / "users", ann=None, limited="acme"),
        )
    ) as console:
        limited, ann = (
            await open_console(console, "limited", PASSWORD),
            await open_console(console, "ann", PASSWORD),
        )
        for path, fields in (
            ("/dead-letters/2/replay", {}),
            ("/dead-letters/2/discard", NOTE),
            ("/dead-letters/discard", {**NOTE, "sequence": "2"}),
        ):
            run = await follow(limited, await limited.submit("/dead-letters", path, fields))
            assert not run.facts.get("sent")
            assert not run.facts.get("discarded")
        for path in ("/dead-letters/2/edit", "/dead-letters/1/edit"):
            assert (await limited.open(path)).status_code == 404
        edited = await limited.submit(
            "/dead-letters", "/dead-letters/1/replay", {"payload": '{"tenant_id":"beta"}'}
        )
        assert edited.status_code == 404
        assert (
            await limited.submit("/dead-letters", "/extensions/pii_guard/disable", NOTE)
        ).status_code == 404
        of_ann = await ann.submit("/dead-letters", "/dead-letters/99/discard", NOTE)
        run = await follow(ann, of_ann)
        assert (await limited.open(f"/dead-letters/runs/{run.name}")).status_code == 404
        assert (await limited.open(f"/dead-letters/runs/{run.name}/live")).status_code == 404
        assert (
            await limited.submit("/dead-letters", f"/dead-letters/runs/{run.name}/stop", {})
        ).status_code == 404
        every = await limited.submit("/dead-letters", "/dead-letters/replay", {"all": "yes"})
        assert (await follow(limited, every)).facts["sent"] >= 1
    assert await count_letters(jetstream, settings) == 1
    assert all(
        b"acme" in data for data in await read_payloads(jetstream, settings.streams.decide.name)
    )


async def test_a_run_is_stopped_and_its_events_end_with_it(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    browser, gate = await open_console(console), asyncio.Event()

    async def work(run: MendRun) -> dict[str, object]:
        run.advance(1, 3)
        await gate.wait()
        return {"sent": 1}

    runs = console.server.runs
    run = runs.add("dlq replay", HOSTILE, "me", None, work)
    waiting = runs.add("dlq replay", "second", "me", None, work)
    await until(lambda: asyncio.sleep(0, run.looked == 1))
    page = await browser.read(f"/dead-letters/runs/{run.name}")
    assert ("1 of 3" in page, "<script>alert" in page, "sse-connect" in page) == (True, False, True)
    async with browser.client.stream("GET", f"/dead-letters/runs/{run.name}/live") as live:
        lines = live.aiter_lines()
        assert await anext(lines) == "event: run"
        for one in (run, waiting):
            assert (
                await browser.submit(
                    "/dead-letters/runs/" + one.name, f"/dead-letters/runs/{one.name}/stop", {}
                )
            ).status_code == 303
        gate.set()
        rest = [line async for line in lines]
    assert "event: over" in rest
    assert (run.state, waiting.state, waiting.facts) == ("stopped", "stopped", {})


async def test_runs_are_bounded() -> None:
    async def work(_: MendRun) -> dict[str, object]:
        raise RuntimeError("of ours")

    runs = MendRuns()
    added = [runs.add("dlq replay", str(number), "me", None, work) for number in range(MAX_WAITING)]
    with pytest.raises(TooManyRuns):
        runs.add("dlq replay", "one more", "me", None, work)
    task = asyncio.create_task(runs.run())
    await until(lambda: asyncio.sleep(0, all(one.is_over for one in added)))
    assert {one.state for one in added} == {"failed"}
    for number in range(3 * KEPT):
        last = runs.add("dlq replay", str(number), "me", None, work)
        await until(lambda last=last: asyncio.sleep(0, last.is_over))
    task.cancel()
    assert len(runs.list_newest_first()) <= KEPT + 1
    assert runs.find(last.name) is last


async def test_a_replay_that_is_in_doubt_is_not_done(
    console: Console, jetstream: JetStream, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker was away for a moment, and what was sent last may stand there or not: the next
    replay finds out.
    """

    async def doubt(*_: object, **__: object) -> ReplayReport:
        return ReplayReport(sent=2, is_in_doubt=True)

    monkeypatch.setattr("router.operate.dead_letters.mend.replay", doubt)
    browser = await open_console(console)
    await store_dead_letter(jetstream, settings)
    run = await follow(
        browser, await browser.submit("/dead-letters/1", "/dead-letters/1/replay", NOTE)
    )
    page = await browser.read(f"/dead-letters/runs/{run.name}")
    assert (">failed<" in page, "in doubt yes" in page, "is not known yet" in page) == (
        True,
        True,
        True,
    )


async def test_extensions_are_switched_and_each_switch_leaves_an_event(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    browser = await open_console(console)
    extensions = ExtensionStore(DocumentBucket(jetstream, settings.buckets.extensions.name))
    for name in ("pii_guard", "tag"):
        await extensions.put(
            {"id": name, "type": "validator", "subject": f"beamline.ext.validate.{name}.v1"},
            author="me",
        )
    assert (
        await browser.submit("/extensions", "/extensions/disable", {"note": "too slow"})
    ).status_code == 400
    for fields in ({"id": ["pii_guard", "tag"], "note": "too slow"}, {"id": "tag"}):
        await browser.submit("/extensions", "/extensions/disable", fields)
    assert "tag was off already" in await browser.read("/extensions")
    await browser.submit("/extensions", "/extensions/tag/enable", {"note": ""})
    assert "tag is on, version 3" in (page := await browser.read("/extensions"))
    assert page.count(">off<") == 1
    await browser.submit("/extensions", "/extensions/none/enable", {"back": "/extensions"})
    assert "Nothing was done" in await browser.read("/extensions")
    events = await list_audit(jetstream, settings)
    assert [
        (one.command, one.target, one.note, (one.after or {})["enabled"]) for one in events
    ] == [
        ("extension disable", "pii_guard", "too slow", False),
        ("extension disable", "tag", "too slow", False),
        ("extension enable", "tag", None, True),
    ]
