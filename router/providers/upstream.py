"""One HTTP call to the API behind a provider: its bounds, its times, and its errors as failures.

    400, 413, 422, …      RequestRefused     any provider would refuse it
    429                   RateLimited        with the time of Retry-After
    all else, 5xx, no connection, no byte in time, no JSON, a cut      ProviderFailed

What the API says of an error goes on within a bound. Of a 401 or 403 it does not, since that text
may quote the key. Redirects are not followed and cookies not kept, so nothing of one tenant's call
reaches the next one's. A proxy of the usual environment variables is used for https:// alone: to a
plain http:// address it would read the key.

A caller that is gone cancels the call, and its connection is closed at once.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from typing import Any

import httpx2
import orjson
from msgspec import Struct

from router.contracts.codec import MAX_DEPTH, is_deeper
from router.core.errors import Misconfigured, RouterError
from router.core.ids import is_opaque
from router.core.masking import printable
from router.providers.event_lines import MAX_BYTES
from router.providers.key_file import KeyFile
from router.providers.options import UpstreamTimes
from router.sdk.failures import ProviderFailed, make_failure

BASE_URL = "--base-url"
MAX_ERROR_BYTES = 64 * 1024
MAX_ERROR_LETTERS = 300  # of what the API says
MAX_WORD_LETTERS = 64  # of its code
END_S = 0.25  # for the end of a stream behind its last event: then the connection serves again
IDLE_S = 30.0  # of a connection
FORBIDDEN = (401, 403)

Headers = Mapping[str, str]


class UpstreamAnswer(Struct, frozen=True):
    fields: dict[str, Any]
    request_id: str | None


class OpenAnswer(Struct, frozen=True):
    """A stream: its bytes as they come."""

    chunks: AsyncGenerator[bytes, None]
    request_id: str | None


class Upstream:
    """`make_headers` gets the key for each call, since it may change. `open` holds the connections.

    Raises Misconfigured for an illegal address, and for one to which no key may go.
    """

    def __init__(
        self,
        base_url: str,
        key: KeyFile | None,
        make_headers: Callable[[str | None], Headers],
        times: UpstreamTimes,
        *,
        concurrency: int,
        allows_insecure_http: bool = False,
    ) -> None:
        self._url = parse_url(base_url)
        self._is_https = self._url.startswith("https://")
        if key is not None and not allows_insecure_http:
            require_private(self._url)
        self._key = key
        self._make_headers = make_headers
        self._times = times
        self._concurrency = concurrency
        self._clients: ClientStack | None = None
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        # their lines name each address, and headers of answers
        for name in ("httpx2", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._tls = httpx2.create_ssl_context(trust_env=self._is_https)
        self._clients = ClientStack(self._make_client, self._concurrency, self._times.connect_s)
        try:
            yield
        finally:
            await self._clients.close()
            self._clients = None

    def has_key_in(self, text: str) -> bool:
        return self._key is not None and self._key.get() in text

    async def ask(self, path: str, body: Mapping[str, object] | None = None) -> UpstreamAnswer:
        """The JSON object that answers it; without a body it is a GET. Raises as the table says."""
        async with self._call(path, body, "application/json") as answer:
            data = await _read_all(answer.chunks, MAX_BYTES)
        return UpstreamAnswer(read_object(data), answer.request_id)

    @asynccontextmanager
    async def stream(self, path: str, body: Mapping[str, object]) -> AsyncIterator[OpenAnswer]:
        """A stream of events or lines. Raises as the table says, also while it is read."""
        async with self._call(path, body, "text/event-stream, application/x-ndjson") as answer:
            yield answer
            with suppress(TimeoutError, httpx2.HTTPError):
                async with asyncio.timeout(END_S):
                    async for _ in answer.chunks:
                        break

    @asynccontextmanager
    async def _call(
        self, path: str, body: Mapping[str, object] | None, accept: str
    ) -> AsyncIterator[OpenAnswer]:
        if self._clients is None:
            raise ProviderFailed("the provider is not open")
        with _translate_errors():
            async with self._clients.lend() as client:
                until = asyncio.get_running_loop().time() + self._times.first_byte_s
                async with asyncio.timeout_at(until):
                    response = await self._send(client, path, body, accept)
                try:
                    async with aclosing(self._read_chunks(response, until)) as chunks:
                        await _require_success(response, chunks)
                        yield OpenAnswer(chunks, _find_request_id(response.headers))
                finally:
                    await response.aclose()

    async def _send(
        self,
        client: httpx2.AsyncClient,
        path: str,
        body: Mapping[str, object] | None,
        accept: str,
    ) -> httpx2.Response:
        # no compression: what is bounded is what comes
        own = self._make_headers(self._key.get() if self._key is not None else None)
        headers = {"accept": accept, "accept-encoding": "identity", **own}
        request = client.build_request(
            "GET" if body is None else "POST",
            f"{self._url}{path}",
            headers=headers if body is None else {"content-type": "application/json", **headers},
            content=None if body is None else orjson.dumps(body),
        )
        return await client.send(request, stream=True)

    async def _read_chunks(
        self, response: httpx2.Response, until: float
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of the body; the first one until then, each next one within `read_s`."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ProviderFailed("the API answers in an encoding that it was not asked for")
        clock = asyncio.get_running_loop().time
        async with aclosing(response.aiter_raw()) as raw:
            while True:
                async with asyncio.timeout_at(until):
                    chunk = await anext(raw, None)
                if chunk is None:
                    return
                yield chunk
                until = clock() + self._times.read_s

    def _make_client(self) -> httpx2.AsyncClient:
        connect_s = self._times.connect_s
        return httpx2.AsyncClient(
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            limits=httpx2.Limits(
                max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_S
            ),
            # the time of bytes is `_read_chunks`' business
            timeout=httpx2.Timeout(None, connect=connect_s, pool=connect_s),
            trust_env=self._is_https,
            verify=self._tls if self._tls is not None else True,
        )


# -- Connections to the API, the one that was used last first.
#
# A pool of httpx2 looks at each of its connections before and after each call, with a look at the
# socket of each idle one. With 64 of them that was two fifths of what a call costs. So each
# connection here is a client with a pool of one, and a call takes the client on top of the others.
#
# a call ──> the last client that came back, else a new one ──> back on top
#                 the lowest, once it has rested for IDLE_S ──> closed


class RestingClient(Struct, frozen=True):
    client: httpx2.AsyncClient
    since: float


class ClientStack:
    """`most`: clients that are out at once; one more waits for `wait_s`."""

    def __init__(
        self, make_client: Callable[[], httpx2.AsyncClient], most: int, wait_s: float
    ) -> None:
        self._make_client = make_client
        self._places = asyncio.Semaphore(most)
        self._wait_s = wait_s
        self._resting: deque[RestingClient] = deque()
        self._is_closed = False

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of one connection. Raises httpx2.PoolTimeout."""
        await self._take_place()
        try:
            client = self._resting.pop().client if self._resting else self._make_client()
            try:
                yield client
            finally:
                await self._take_back(client)
        finally:
            self._places.release()

    async def close(self) -> None:
        """Close the clients that are not lent, and each of the others when it comes back."""
        self._is_closed = True
        while self._resting:
            await self._resting.pop().client.aclose()

    async def _take_place(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(self._wait_s):
                await self._places.acquire()
        except TimeoutError:
            raise httpx2.PoolTimeout("every connection is in use") from None

    async def _take_back(self, client: httpx2.AsyncClient) -> None:
        now = asyncio.get_running_loop().time()
        if self._is_closed:
            await client.aclose()
            return
        self._resting.append(RestingClient(client, now))
        if self._resting[0].since + IDLE_S < now:
            await self._resting.popleft().client.aclose()


# -- Addresses.


def parse_url(text: str) -> str:
    """The base URL without a slash at its end. Raises Misconfigured, which does not show it: a
    login may stand in it.
    """
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as exc:
        raise Misconfigured(BASE_URL, "should be an http:// or https:// URL") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise Misconfigured(BASE_URL, "should be an http:// or https:// URL")
    if url.userinfo or url.query or url.fragment:
        raise Misconfigured(
            BASE_URL, "should have no login, query or fragment: a key stands in --key-file"
        )
    return str(url).rstrip("/")


def require_private(text: str) -> None:
    """Raises Misconfigured where a key would cross a network without TLS."""
    url = httpx2.URL(parse_url(text))
    if url.scheme == "http" and not _is_this_host(url.host):
        raise Misconfigured(
            BASE_URL,
            "a key would cross the network as plain text: use https://, or say --insecure-http",
        )


def _is_this_host(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# -- What came back.


def read_object(data: bytes | str) -> dict[str, Any]:
    """Raises ProviderFailed: it is no JSON object, or one that nests too deep."""
    raw = data.encode() if isinstance(data, str) else data
    try:
        fields = orjson.loads(raw) if not is_deeper(raw, MAX_DEPTH) else None
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise ProviderFailed("the API's answer is no JSON object")
    return fields


async def _read_all(chunks: AsyncIterator[bytes], most: int) -> bytes:
    """Raises ProviderFailed above the bound."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise ProviderFailed(f"the API's answer is larger than {most} bytes")
        parts.append(chunk)
    return b"".join(parts)


async def _require_success(response: httpx2.Response, chunks: AsyncIterator[bytes]) -> None:
    """Raises the failure that its status means."""
    status = response.status_code
    if 200 <= status <= 299:
        return
    said: object = None
    if status not in FORBIDDEN and status >= 400:
        with suppress(RouterError, TimeoutError, httpx2.HTTPError):
            said = _read_json(await _read_all(chunks, MAX_ERROR_BYTES))
    raise make_api_failure(status, said, response.headers.get("retry-after"))


def _read_json(data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def make_api_failure(status: int, said: object, retry_after: str | None = None) -> RouterError:
    """The failure for a status and the JSON of an error; also of an error inside a stream."""
    code, text = _read_error(said)
    if status in FORBIDDEN:
        text = "the API refuses this provider's key"
    words = " ".join(word for word in (f"the API answered {status}", code) if word)
    message = f"{words}: {text}" if text else words
    # a model that is not there is what was asked for; any other 404 is this provider's address
    is_models = status == 404 and code in ("model_not_found", "not_found_error")
    return make_failure(400 if is_models else status, message, retry_after=retry_after)


def _read_error(said: object) -> tuple[str, str]:
    """The code and the text of an error, in the shapes of the APIs that are spoken."""
    error = said.get("error", said) if isinstance(said, dict) else None
    if isinstance(error, str):
        return "", _cut(error, MAX_ERROR_LETTERS)
    if not isinstance(error, dict):
        return "", ""
    word = next(
        (word for name in ("code", "type") if isinstance(word := error.get(name), str) and word), ""
    )
    text = error.get("message")
    return (
        _cut(word, MAX_WORD_LETTERS),
        _cut(text, MAX_ERROR_LETTERS) if isinstance(text, str) else "",
    )


def _cut(text: str, most: int) -> str:
    return printable(text[:most])


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Of the library's errors nothing goes on but their kind: their text may hold an address."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError):
        raise ProviderFailed("there is no connection to the API") from None
    except TimeoutError:
        raise ProviderFailed("the API was silent for too long") from None
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as exc:
        raise ProviderFailed(f"the API's answer broke off ({type(exc).__name__})") from None
    except ValueError:  # also what is no UTF-8, and a line above the bound
        raise ProviderFailed("the API's answer is no stream of events") from None


def _find_request_id(headers: httpx2.Headers) -> str | None:
    told = headers.get("x-request-id") or headers.get("request-id") or ""
    return told if is_opaque(told) else None
