"""Who may see a console and write in it: logins, sessions, forms of other sites, and users limited
to one tenant.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from router.config import Settings
from router.console import ConsoleServer
from router.core.errors import Misconfigured
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.policies.store import PolicyStore
from router.shell.access.login import read_next
from router.shell.access.sessions import IDLE_S, MAX_OF_USER, WHOLE_S, LoginSessions
from router.shell.access.users import (
    ALL,
    ONE,
    ConsoleUser,
    LoginAttempts,
    TooManyLogins,
    parse_users,
)
from tests.support.cli import call_command
from tests.support.console import PAGES, Console, a_console, console_settings, store_dead_letter
from tests.support.console_login import ADMIN_KEY, CHEAP, PASSWORD, Browser, write_users, writing
from tests.support.waiting import until

NOWHERE = "nats://127.0.0.1:1"
POLICY = {"version": "1.0", "providers": [{"name": "first", "weight": 1}]}


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of users that there are not, too."""
    monkeypatch.setattr("router.shell.access.users._HASHER", CHEAP)


@pytest.fixture
async def console() -> AsyncIterator[Console]:
    """Without a broker: no login needs one."""
    async with a_console(writing(NOWHERE, nats__connect_timeout_ms=50)) as running:
        yield running


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return write_users(tmp_path / "users", ann=None, limited="acme")


async def test_without_writes_and_users_there_is_no_login() -> None:
    async with a_console(console_settings(NOWHERE, nats__connect_timeout_ms=50)) as console:
        assert (await console.get("/login")).status_code == 404
        assert "Log in" not in await console.read("/doctor")
        assert (await Browser(console).send("/login", {})).status_code == 405


async def test_the_admin_key_logs_in_and_a_wrong_one_does_not(console: Console) -> None:
    browser = Browser(console)
    assert "Read only" in await browser.read("/doctor")
    wrong = await browser.log_in(password="something else")
    assert (wrong.status_code, "No user has this name" in wrong.text, ADMIN_KEY in wrong.text) == (
        401,
        True,
        False,
    )
    right = await browser.log_in(then="/policies?tenant=acme")
    assert (right.status_code, right.headers["location"]) == (303, "/policies?tenant=acme")
    assert "May write" in await browser.read("/doctor")
    assert "Read only" in await console.read("/doctor")  # of another browser
    assert (await browser.submit("/doctor", "/logout", {})).status_code == 303
    assert "Read only" in await browser.read("/doctor")


async def test_a_session_s_cookie_is_hidden_from_scripts_and_other_sites(console: Console) -> None:
    browser = Browser(console)
    cookies = (await browser.log_in()).headers.get_list("set-cookie")
    cookie = next(one for one in cookies if one.startswith("router_console="))
    assert {"httponly", "samesite=strict", "path=/"} <= {
        part.strip().lower() for part in cookie.split(";")
    }
    assert "secure" not in cookie.lower()  # http://127.0.0.1
    behind = Browser(console)  # a proxy with TLS before it
    csrf = await behind.find_csrf("/login")
    sent = await behind.send(
        "/login", {"csrf": csrf, "password": ADMIN_KEY}, origin=console.url.replace("http", "https")
    )
    assert any(
        one.startswith("router_console=") and "; Secure" in one
        for one in sent.headers.get_list("set-cookie")
    )


async def test_a_session_that_was_set_before_the_login_is_not_the_one_after_it(
    console: Console,
) -> None:
    attacker, victim = Browser(console), Browser(console)
    await attacker.log_in()
    planted = attacker.client.cookies["router_console"]
    victim.client.cookies.set("router_console", planted, domain="127.0.0.1", path="/")
    assert (await victim.log_in()).status_code == 303
    fresh = [one.value for one in victim.client.cookies.jar if one.name == "router_console"]
    assert planted not in fresh[-1:]
    assert "Read only" in await attacker.read("/doctor")  # the planted one is over
    for made_up in ("x", "x.y", planted[:-2] + "zz", planted.partition(".")[0], "é"):
        held = await console.client.get(
            console.url + "/doctor", headers={"cookie": f"router_console={made_up}".encode()}
        )
        assert "Read only" in held.text, made_up


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site", "origin": "http://evil.example"},
    ],
)
async def test_a_form_of_another_site_is_refused_before_it_is_read(
    console: Console, headers: dict[str, str]
) -> None:
    browser = Browser(console)
    await browser.log_in()
    csrf = await browser.find_csrf("/doctor")
    refused = await browser.send("/logout", {"csrf": csrf}, **headers)
    assert (refused.status_code, "this console only" in refused.text) == (403, True)
    assert "May write" in await browser.read("/doctor")


async def test_a_form_without_an_origin_needs_the_browser_s_word_and_each_its_token(
    console: Console,
) -> None:
    browser = Browser(console)
    await browser.log_in()
    csrf = await browser.find_csrf("/doctor")
    bare = await browser.client.post("/logout", data={"csrf": csrf})
    assert bare.status_code == 403
    for wrong in ("", "x", csrf[:-1], csrf + "a", "é"):
        assert (await browser.send("/logout", {"csrf": wrong})).status_code == 403, wrong
    other = Browser(console)
    await other.log_in()
    assert (
        await browser.send("/logout", {"csrf": await other.find_csrf("/doctor")})
    ).status_code == 403
    assert (await Browser(console).send("/logout", {"csrf": csrf})).status_code == 401
    assert (
        await Browser(console).send("/login", {"csrf": csrf, "password": ADMIN_KEY})
    ).status_code == 403
    assert (
        await browser.client.post(
            "/logout", data={"csrf": csrf}, headers={"sec-fetch-site": "same-origin"}
        )
    ).status_code == 303


async def test_what_is_no_form_of_a_page_is_refused(console: Console) -> None:
    browser = Browser(console)
    for content, kind, status in (
        (b"{}", "application/json", 415),
        (b"csrf=%ff&%ff", "application/x-www-form-urlencoded", 400),
        (b"\xff", "application/x-www-form-urlencoded", 400),
        (b"&".join([b"a=b"] * 2_001), "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * 1_048_577, "application/x-www-form-urlencoded", 413),
    ):
        sent = await browser.client.post(
            "/login", content=content, headers={"origin": console.url, "content-type": kind}
        )
        assert sent.status_code == status, content[:20]
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert (
            await browser.client.request(method, "/login", headers={"origin": console.url})
        ).status_code == 405


async def test_guesses_are_slow_and_do_not_keep_out_who_was_in(
    monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    # no guess becomes free while a busy machine compares
    monkeypatch.setattr("router.shell.access.users.ONE_PER_S", 1e-6)
    browser = Browser(console)
    statuses = [
        (await browser.log_in(password=f"guess {number}")).status_code
        for number in range(int(ONE) + 2)
    ]
    assert statuses == [401] * int(ONE) + [429, 429]
    refused = await browser.log_in()
    # the right one is not compared
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)


async def test_all_addresses_together_have_a_limit_that_known_ones_do_not_meet() -> None:
    now = 0.0
    attempts = LoginAttempts(lambda: now)
    async with attempts.take_turn("known"):
        attempts.record("known", is_right=True)
    for number in range(int(ALL)):
        async with attempts.take_turn(f"address {number}"):
            attempts.record(f"address {number}", is_right=False)
    with pytest.raises(TooManyLogins):
        async with attempts.take_turn("another"):
            pass
    async with attempts.take_turn("known"):
        pass
    now += 1.0
    async with attempts.take_turn("another"):
        pass


async def test_of_many_logins_at_once_few_wait() -> None:
    attempts, go = LoginAttempts(), asyncio.Event()

    async def log_in(number: int) -> bool:
        try:
            async with attempts.take_turn(str(number)):
                await go.wait()
        except TooManyLogins:
            return False
        return True

    tasks = [asyncio.create_task(log_in(number)) for number in range(100)]
    await asyncio.sleep(0)
    go.set()
    assert sum(await asyncio.gather(*tasks)) == 8


async def test_a_console_with_users_shows_nothing_without_a_login(users: Path) -> None:
    settings = console_settings(NOWHERE, nats__connect_timeout_ms=50, console__users=users)
    async with a_console(settings) as console:
        for path in PAGES:
            asked = await console.get(path)
            assert (asked.status_code, asked.headers["location"].startswith("/login?next=")) == (
                303,
                True,
            ), path
            assert (await console.get(path + "?format=json")).status_code in (401, 303)
        assert (await console.get("/live")).status_code == 403
        assert (await console.get("/static/console.css")).status_code == 200
        browser = Browser(console)
        assert (await browser.log_in("ann", "wrong")).status_code == 401
        assert (await browser.log_in("eve", PASSWORD)).status_code == 401
        # writes are off: the admin key is no login
        assert (await browser.log_in("", ADMIN_KEY)).status_code == 401
        assert (await browser.log_in("ann", PASSWORD)).status_code == 303
        assert "Read only" in await browser.read("/doctor")
        write_users(users, limited="acme")  # ann is taken out
        assert (await browser.open("/doctor")).status_code == 303
        await asyncio.to_thread(users.unlink)
        assert (await browser.open("/login")).status_code == 200


@pytest.mark.parametrize("end", ["taken out", "logs out"])
async def test_a_page_that_is_live_ends_with_its_session(users: Path, end: str) -> None:
    """It went on for as long as the browser held it."""
    settings = console_settings(NOWHERE, nats__connect_timeout_ms=50, console__users=users)
    async with a_console(settings) as console:
        browser = Browser(console)
        await browser.log_in("ann", PASSWORD)
        async with browser.client.stream("GET", "/live") as live:
            lines = live.aiter_lines()
            assert [line async for line in _take_until(lines, "event: now")]
            if end == "taken out":
                write_users(users, limited="acme")
            else:
                await browser.submit("/doctor", "/logout", {})
            async with asyncio.timeout(60):
                async for _ in lines:
                    pass


async def _take_until(lines: AsyncIterator[str], last: str) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line == last:
            return


async def test_a_client_does_not_choose_the_address_that_its_guesses_are_counted_by(
    monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    monkeypatch.setattr("router.shell.access.users.ONE_PER_S", 1e-6)
    browser, statuses = Browser(console), []
    for number in range(int(ONE) + 1):
        guess = {
            "csrf": await browser.find_csrf("/login"),
            "user": "",
            "password": f"guess {number}",
            "next": "/doctor",
        }
        statuses.append(
            (
                await browser.send("/login", guess, **{"x-forwarded-for": f"203.0.113.{number}"})
            ).status_code
        )
    assert statuses == [401] * int(ONE) + [429]


async def test_a_limited_user_sees_one_tenant_s_data(
    users: Path, settings: Settings, jetstream: JetStream
) -> None:
    for tenant in ("acme", "beta"):
        await store_dead_letter(
            jetstream, settings, orjson.dumps({"of": tenant}), seen={"tenant_id": tenant}
        )
        store = PolicyStore(DocumentBucket(jetstream, settings.buckets.policies.name))
        await store.put(tenant, "fast", orjson.dumps(POLICY), replaces=None, author="me")
    async with a_console(writing(settings.nats.url[0], console__users=users)) as console:
        await until(lambda: asyncio.sleep(0, console.server.link.hears_since is not None))
        limited, ann = Browser(console), Browser(console)
        await limited.log_in("limited", PASSWORD)
        await ann.log_in("ann", PASSWORD)
        seen, all_of_them = [], []
        for query in ("", "&tenant=beta", "&tenant="):
            for browser, rows in ((limited, seen), (ann, all_of_them)):
                answer = await browser.open(f"/dead-letters?show=each&format=json{query}")
                rows.append([row["tenant"] for row in orjson.loads(answer.content)])
        assert seen == [["acme"], ["acme"], ["acme"]]
        assert all_of_them == [["beta", "acme"], ["beta"], ["beta", "acme"]]
        assert (await limited.open("/dead-letters/1")).status_code == 200
        foreign, absent = (
            await limited.open("/dead-letters/2"),
            await limited.open("/dead-letters/99"),
        )
        assert (foreign.status_code, foreign.text) == (404, absent.text)
        assert [
            row["tenant"]
            for row in orjson.loads(
                (await limited.open("/policies?tenant=beta&format=json")).content
            )
        ] == ["acme"]
        assert (await limited.open("/policies/acme/fast")).status_code == 200
        for path in (
            "/policies/beta/fast",
            "/policies/_shared/fast",
            "/doctor",
            "/doctor/settings",
            "/extensions",
        ):
            assert (await limited.open(path)).status_code == 404, path
            assert (await ann.open(path)).status_code in (200, 404), path
        assert (await limited.open("/live")).status_code == 403
        assert (await limited.open("/")).headers["location"] == "/dead-letters"
        for path in (
            "/decisions?tenant=beta&request_id=r-1",
            "/assignments?tenant=beta",
            "/contract?tenant=beta",
            "/workers?tenant=beta",
        ):
            page = await limited.open(path)
            assert (page.status_code, "tenant beta" in page.text) == (200, False), path


@pytest.mark.parametrize(
    "line",
    [
        "ann",
        "ann:plain",
        "ann:$argon2id$v=19",
        ":$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA",
        "a b:x",
    ],
)
def test_a_line_that_names_no_user_is_told_by_its_number_and_not_shown(line: str) -> None:
    with pytest.raises(Misconfigured, match="line 2 should be") as refused:
        parse_users(f"# first\n{line}\n".encode())
    assert "plain" not in str(refused.value)


def test_a_user_has_a_name_a_hash_and_perhaps_a_tenant() -> None:
    hashed = CHEAP.hash(PASSWORD)
    users = parse_users(f"ann:{hashed}\nbob@acme:{hashed}:acme:eu\n".encode())
    assert {name: one.tenant for name, one in users.items()} == {"ann": None, "bob@acme": "acme:eu"}
    for wrong in (f"ann:{hashed}:\n", f"ann:{hashed}:a b\n", f"ann:{hashed}\nann:{hashed}\n"):
        with pytest.raises(Misconfigured):
            parse_users(wrong.encode())


def test_writes_without_anyone_who_could_log_in_do_not_start(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="needs a login"):
        ConsoleServer(console_settings(NOWHERE, console__writes=True))
    with pytest.raises(Misconfigured, match="cannot be read"):
        ConsoleServer(console_settings(NOWHERE, console__users=tmp_path / "none"))


def test_sessions_end_and_are_bounded() -> None:
    now = 0.0
    sessions = LoginSessions(lambda: now)
    first, cookie = sessions.begin(ConsoleUser("ann"))
    _, other = sessions.begin(ConsoleUser("bob"))
    for _ in range(MAX_OF_USER):
        sessions.begin(ConsoleUser("ann"))
    assert sessions.find(cookie) is None  # the oldest of ann's
    assert sessions.find(other) is not None
    while now < WHOLE_S - IDLE_S:
        now += IDLE_S
        assert sessions.find(other) is not None
    now += IDLE_S + 1
    assert sessions.find(other) is None  # it was used all the time, and is too old
    _, idle = sessions.begin(first.user)
    now += IDLE_S + 1
    assert sessions.find(idle) is None


@pytest.mark.parametrize(
    "text",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "evil",
        "/a\r\nset-cookie: x",
        "/é",
        "",
    ],
)
def test_a_login_leads_to_this_console_only(text: str) -> None:
    assert read_next(text) == "/"


async def test_a_login_that_names_another_site_leads_to_the_first_page(console: Console) -> None:
    answer = await Browser(console).log_in(then="//evil.example/")
    assert answer.headers["location"] == "/"


def test_a_hash_is_made_of_a_password_that_is_read() -> None:
    ended = call_command("console", "--hash-password", given=b"a password\n")
    assert ended.status == 0, ended.err
    (user,) = parse_users(f"ann:{ended.out}".encode()).values()
    assert user.password_hash.startswith("$argon2id$")
