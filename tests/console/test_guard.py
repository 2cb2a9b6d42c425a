"""What the console refuses, and what every response of it says to a browser."""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx2
import pytest

from router.console.application import ConsoleGuard, build_application
from tests.support.console import Console, a_console, console_settings


@pytest.fixture
async def console() -> AsyncIterator[Console]:
    """Without a broker: nothing that is refused needs one."""
    settings = console_settings(
        "nats://127.0.0.1:1", console__hosts="router.internal", nats__connect_timeout_ms=50
    )
    async with a_console(settings) as running:
        yield running


async def test_only_own_names_are_answered(console: Console) -> None:
    for host in (
        "localhost",
        "127.0.0.1:9002",
        "[::1]:9002",
        "ROUTER.internal",
        f"router.internal:{console.port}",
    ):
        assert (await console.get("/", host=host)).status_code == 200, host
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil:80",
        "localhost:80@evil",
        "",
        "evil:localhost",
    ):
        refused = await console.get("/dead-letters?format=json", host=host)
        assert (refused.status_code, "console.hosts" in refused.text) == (421, True), host


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_there_is_nothing_to_write(console: Console, method: str) -> None:
    refused = await console.client.request(method, f"{console.url}/dead-letters/1")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


PATHS = [
    *(
        "/static/../console.py",
        "/static/%2e%2e/%2e%2e/cli/app.py",
        "/static/..%2f..%2fpyproject.toml",
        "/static//etc/passwd",
    ),
    *(
        "/static/%2fetc%2fpasswd",
        "/static/",
        "/static/vendor",
        "/static/vendor/..%5c..%5cguard.py",
        "/static/%00",
        "/../../etc/passwd",
    ),
    *(
        "/policies/..%2f..%2fetc/passwd",
        "/policies/%2e%2e/x",
        "/dead-letters/..%2f1",
        "/templates/layout.html",
        "/nowhere",
    ),
]


@pytest.mark.parametrize("path", PATHS)
async def test_no_path_leads_out_of_the_pages(console: Console, path: str) -> None:
    answer = await send_raw(console, path)
    assert answer.split(b" ")[1] in (b"400", b"404"), answer[:200]
    assert b"root:" not in answer
    assert b"import" not in answer.partition(b"\r\n\r\n")[2]


async def send_raw(console: Console, path: str) -> bytes:
    """As it stands: a client of HTTP would tidy it up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    "path", ["/", "/dead-letters", "/nowhere", "/static/console.css", "/usage?by=nonsense"]
)
async def test_no_response_may_be_framed_or_run_what_is_not_ours(
    console: Console, path: str
) -> None:
    headers = (await console.get(path)).headers
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert (
        headers["x-frame-options"],
        headers["x-content-type-options"],
        headers["referrer-policy"],
    ) == ("DENY", "nosniff", "same-origin")
    assert "access-control-allow-origin" not in headers


async def test_pages_have_no_script_or_style_of_their_own_and_load_nothing_from_elsewhere(
    console: Console,
) -> None:
    html = (await console.get("/")).text
    assert "<style" not in html
    assert " style=" not in html
    assert " onclick" not in html
    assert all("src=" in part.partition(">")[0] for part in html.split("<script")[1:])
    addresses = re.findall(r'(?:src|href|action|hx-get|sse-connect)="([^"]*)"', html)
    assert len(addresses) > 10
    assert [one for one in addresses if not re.match(r"/(?!/)|#|\?", one)] == []


async def test_a_long_address_is_refused_before_it_is_read(console: Console) -> None:
    assert (await console.get("/dead-letters?subject=" + "x" * 5_000)).status_code == 414
    assert (await console.get("/policies/" + "x" * 2_000 + "/y")).status_code == 414
    assert (await console.get("/dead-letters?subject=" + "x" * 600)).status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/dead-letters?since=yesterday",
        "/dead-letters?since=999999d",
        "/dead-letters?since=9999999d",
        "/contract?by=password",
        "/decisions?tenant=a%20b&request_id=r",
    ],
)
async def test_a_value_that_cannot_be_meant_is_named(console: Console, path: str) -> None:
    """Before the broker is asked, which is away here."""
    refused = await console.get(path)
    assert (refused.status_code, "cannot be meant" in refused.text) == (400, True)


async def test_two_host_headers_are_none_of_ours() -> None:
    heard: list[int] = []

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            heard.append(int(str(message["status"])))

    async def receive() -> dict[str, object]:
        return {"type": "http.request"}

    scope = {
        "type": "http",
        "method": "GET",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"host", b"localhost")] * 2,
    }
    await ConsoleGuard(httpx2.ASGITransport, ())(scope, receive, send)  # type: ignore[arg-type]
    assert heard == [421]


class FailingPages:
    """Every page fails."""

    def __getattr__(self, name: str) -> object:
        async def fail(*_: object) -> None:
            raise RuntimeError("a secret of the program")

        return fail


async def test_a_page_that_fails_says_so_with_the_headers_of_the_others() -> None:
    application = build_application(
        console_settings("nats://127.0.0.1:1"), FailingPages(), FailingPages()
    )  # type: ignore[arg-type]
    transport = httpx2.ASGITransport(application, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport) as client:
        failed = await client.get("http://localhost/")
    assert (failed.status_code, "This page failed" in failed.text, "secret" in failed.text) == (
        500,
        True,
        False,
    )
    assert failed.headers["x-frame-options"] == "DENY"
