"""Policies written in the console: over the version that was seen, checked, tried, rolled back; and
what is refused.
"""

import asyncio
import html

import orjson
import pytest

from router.config import Settings
from router.contracts.stored_record import record_bytes
from router.contracts.version_record import make_record
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.operate.audit import AuditReader
from router.policies.model.parse import MAX_POLICY_BYTES
from router.policies.store import PolicyStore
from tests.support.console import HOSTILE, Console, a_console, console_settings
from tests.support.console_login import ADMIN_KEY, CHEAP, PASSWORD, Browser, write_users
from tests.support.waiting import until

POLICY = {"version": "1.0", "providers": [{"name": "first", "weight": 1}]}
SECOND = orjson.dumps({**POLICY, "providers": [{"name": "second", "weight": 1}]}).decode()
EDITOR = "/policies/acme/fast/edit"


@pytest.fixture
async def store(settings: Settings, jetstream: JetStream) -> PolicyStore:
    store = PolicyStore(DocumentBucket(jetstream, settings.buckets.policies.name))
    await store.put("acme", "fast", orjson.dumps(POLICY), replaces=None, author="me")
    return store


async def log_in(console: Console, user: str = "", password: str = ADMIN_KEY) -> Browser:
    browser = Browser(console)
    assert (await browser.log_in(user, password)).status_code == 303
    return browser


async def test_a_policy_is_put_over_the_version_that_was_seen(
    console: Console, store: PolicyStore, settings: Settings, jetstream: JetStream
) -> None:
    browser = await log_in(console)
    assert 'name="replaces" value="1"' in await browser.read(EDITOR)
    form = {"document": SECOND, "replaces": "1", "note": "the first is slow"}
    assert (await browser.submit(EDITOR, "/policies/acme/fast/put", form)).headers[
        "location"
    ] == "/policies/acme/fast"
    assert "version 2 is in force" in (page := await browser.read("/policies/acme/fast"))
    assert "second" in page
    late = await browser.submit(
        EDITOR, "/policies/acme/fast/put", {**form, "document": SECOND.replace("second", "third")}
    )
    assert (late.status_code, "third" in late.text, "Nothing was written" in late.text) == (
        409,
        True,
        True,
    )
    # the version that was seen: sending it again is refused again
    assert 'name="replaces" value="1"' in late.text
    again = await browser.submit(
        "/policies/acme/fast?version=1",
        "/policies/acme/fast/rollback",
        {"to": "1", "replaces": "2"},
    )
    assert again.status_code == 303
    assert "as version 1 was" in await browser.read("/policies/acme/fast")
    assert (await store.get("acme", "fast")).record.document["providers"][0]["name"] == "first"
    stale = await browser.submit(
        EDITOR,
        "/policies/acme/fast/rollback",
        {"to": "2", "replaces": "2", "back": "/policies/acme/fast"},
    )
    assert stale.headers["location"] == "/policies/acme/fast"
    assert "Nothing was done" in await browser.read("/policies/acme/fast")
    events = [one.event async for one in AuditReader(jetstream, settings.streams.audit.name).read()]
    versions = [
        (
            one.command,
            (one.before or {})["version"],
            (one.after or {})["version"],
            one.note,
            one.via,
        )
        for one in events
    ]
    assert versions == [
        ("policy put", 1, 2, "the first is slow", "console"),
        ("policy rollback", 2, 3, "to version 1", "console"),
    ]


async def test_a_new_policy_is_put_where_there_is_none(
    console: Console, store: PolicyStore
) -> None:
    browser = await log_in(console)
    assert "a new one" in await browser.read("/policies/_shared/slow/edit")
    put = await browser.submit(
        "/policies/_shared/slow/edit",
        "/policies/_shared/slow/put",
        {"document": SECOND, "replaces": "0"},
    )
    assert put.status_code == 303
    assert (
        await browser.submit(
            EDITOR, "/policies/acme/fast/put", {"document": SECOND, "replaces": "0"}
        )
    ).status_code == 409


async def test_mistakes_are_named_while_it_is_typed_and_nothing_is_lost(
    console: Console, store: PolicyStore
) -> None:
    browser = await log_in(console)
    for document, told in (
        ('{"version": "1.0"}', "It cannot be put"),
        ("{", "It cannot be put"),
        ("[" * 100_000, "It cannot be put"),
        (
            orjson.dumps(
                {**POLICY, HOSTILE: 1, "providers": [{"name": HOSTILE, "weight": -1}]}
            ).decode(),
            "It cannot be put",
        ),
        (SECOND, "It can be put"),
    ):
        for path in ("lint", "try", "put"):
            if document == SECOND and path != "lint":
                continue
            answer = await browser.submit(
                EDITOR, f"/policies/acme/fast/{path}", {"document": document, "replaces": "1"}
            )
            assert answer.status_code == (400 if path == "put" else 200), (
                path,
                document[:50],
                answer.text[:300],
            )
            assert document in html.unescape(answer.text), (path, document[:50])
            assert "<script>alert" not in answer.text
            if path == "lint":
                assert told in answer.text, document[:50]
    tried = await browser.submit(
        EDITOR, "/policies/acme/fast/try", {"document": SECOND, "replaces": "1"}
    )
    assert "no router answered" in tried.text
    assert (await store.get("acme", "fast")).record.version == 1


async def test_a_mebibyte_is_refused_with_the_bound_and_shown_as_text_and_more_is_refused(
    console: Console, store: PolicyStore
) -> None:
    browser = await log_in(console)
    hostile = (HOSTILE * 40_000)[:1_048_576]
    answer = await browser.submit(
        EDITOR, "/policies/acme/fast/put", {"document": hostile, "replaces": "1"}
    )
    assert answer.status_code == 400
    assert f"is larger than {MAX_POLICY_BYTES} bytes: it has {len(hostile.encode())}" in answer.text
    assert "<script>alert" not in answer.text
    assert answer.text.count("&lt;script&gt;alert(1)") >= len(hostile) // len(HOSTILE)
    assert f"At most {MAX_POLICY_BYTES:,} bytes" in answer.text
    for size in (1_048_577, 3_300_000):
        more = await browser.submit(
            EDITOR, "/policies/acme/fast/put", {"document": "x" * size, "replaces": "1"}
        )
        assert (more.status_code, "at most" in more.text) == (413, True)
    assert (await store.get("acme", "fast")).record.version == 1


async def test_what_another_tool_wrote_is_text_however_large(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    """The pages of policies answer, and the editor has what can be read."""
    browser = await log_in(console)
    bucket = DocumentBucket(jetstream, settings.buckets.policies.name)
    large = record_bytes(make_record({HOSTILE: HOSTILE * 20_000}, version=1, author=HOSTILE))
    assert len(large) > 2 * MAX_POLICY_BYTES
    for name, data in (
        ("large", large),
        ("strange", large.replace(b"alert(1)", rb"\ud800")),
        ("none", b"<script>"),
    ):
        await bucket.put(f"acme.{name}", data, revision=None)
        for path in ("/policies", f"/policies/acme/{name}", f"/policies/acme/{name}/edit"):
            answer = await browser.open(path)
            assert answer.status_code in (200, 404, 503), (path, answer.status_code)
            assert "<script>alert" not in answer.text, path
            assert "This page failed" not in answer.text, path


@pytest.mark.parametrize(
    "path",
    [
        "/policies/a%20b/x",
        "/policies/acme/..%2fx",
        "/policies/%3Cscript%3E/x",
        "/policies/_other/x",
    ],
)
async def test_a_name_that_is_no_id_is_nothing(console: Console, path: str) -> None:
    browser = await log_in(console)
    csrf = await browser.find_csrf("/policies")
    assert (await browser.open(path + "/edit")).status_code == 404
    for what in ("put", "lint", "try", "rollback"):
        answer = await browser.send(
            f"{path}/{what}", {"csrf": csrf, "document": SECOND, "replaces": "0", "to": "1"}
        )
        assert (answer.status_code, "<script>/" in answer.text) == (404, False), what


async def test_a_limited_user_writes_policies_of_one_tenant(
    settings: Settings,
    store: PolicyStore,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("router.shell.access.users._HASHER", CHEAP)
    users = write_users(tmp_path_factory.mktemp("console") / "users", limited="acme")
    given = {"console__writes": True, "console__users": users}
    async with a_console(console_settings(settings.nats.url[0], **given)) as console:
        await until(lambda: asyncio.sleep(0, console.server.link.hears_since is not None))
        limited = await log_in(console, "limited", PASSWORD)
        for tenant in ("beta", "_shared"):
            assert (await limited.open(f"/policies/{tenant}/fast/edit")).status_code == 404
            for what in ("put", "lint", "try", "rollback"):
                answer = await limited.submit(
                    EDITOR,
                    f"/policies/{tenant}/fast/{what}",
                    {"document": SECOND, "replaces": "0", "to": "1"},
                )
                assert answer.status_code == 404, (tenant, what)
        assert (
            await limited.submit(
                EDITOR, "/policies/acme/fast/put", {"document": SECOND, "replaces": "1"}
            )
        ).status_code == 303
    assert [one.tenant_id for one in await store.list()] == ["acme"]


async def test_without_a_login_there_is_no_editor_and_no_form(
    console: Console, store: PolicyStore
) -> None:
    assert (await Browser(console).open(EDITOR)).headers["location"].startswith("/login")
    assert "Roll back" not in await console.read("/policies/acme/fast")
    browser = await log_in(console)
    for what in ("put", "lint", "try", "rollback"):
        assert (
            await browser.send(
                f"/policies/acme/fast/{what}", {"document": SECOND, "replaces": "1", "to": "1"}
            )
        ).status_code == 403
