"""Serve extensions: one connection, a service for each, which registers itself where it may; all of
them drained at the end.

    start      subscribe to the subjects, then answer $SRV, then (if configured) register
    drain      unsubscribe, so that requests go to other instances; finish what is here; answer the
               rest with 503
    end        flush everything, and close the connection

It waits for an unavailable broker, and subscribes again when it is back. How an extension looks as
a service of nats.micro stands first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

import nats.errors
import orjson
from nats.micro import add_service
from nats.micro.service import Service

from router.core import ids
from router.core.clock import steady
from router.core.errors import Misconfigured, RouterError, Unanswered
from router.delivery.wire.calls.request_server import (
    INBOXES,
    MicroEndpoint,
    OnRequest,
    stop_service,
)
from router.delivery.wire.calls.stream import ReplyStreams
from router.delivery.wire.connection import Connection
from router.extensions.model.entry import PROVIDER, VALIDATOR
from router.operate.catalogue import build_shapes
from router.process.observability import LogRateLimit, events, logs
from router.sdk.connect import DEFAULT_URL, build_held_connection
from router.sdk.extension.author import Extension
from router.sdk.extension.dispatcher import DispatcherRules, RequestDispatcher
from router.sdk.signals import run, run_until_signal
from router.shell.host import ProcessHost

if TYPE_CHECKING:
    from router.config import NatsConfig


# -- Self-registration: ask the router to write an entry for each extension that has none.
#
# An existing entry stays as it is: operators own it. The request goes to
# `beamline.router.v1.admin.put_extension` with `replaces: 0`, so that the router itself decides
# which of two was first. A router that does not answer is asked again: soon at first, then every
# minute, at once after a reconnect. The extensions serve requests all the while.


log = logs.logger(__name__)

PUT = "beamline.router.v1.admin.put_extension"
REGISTRATION_AUTHOR = "self-registration"
CONFLICT = "conflict"
KEPT = "the entry that was there is kept: `router extension register` changes it"
TIMEOUT_S = 2.0
WAITS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # the last repeats
RECONNECT_CHECK_S = 0.25  # how soon a reconnect is noticed


class Registration:
    """The entries of one server's extensions."""

    def __init__(
        self,
        extensions: Sequence[Extension],
        instances: Mapping[str, int],
        api_key: str | None = None,
    ) -> None:
        self._entries = [entry_of(extension, instances) for extension in extensions]
        self._headers = {"api_key": api_key} if api_key is not None else None
        self._once = LogRateLimit(every_s=60.0)

    async def run(self, connection: Connection) -> None:
        """Run for ever: register each entry, and all of them again after a reconnect."""
        while True:
            lives = connection.reconnect_count
            await self._register_all(connection)
            await _pause(connection, inf, lives)

    async def _register_all(self, connection: Connection) -> None:
        left, tries, lives = list(self._entries), 0, connection.reconnect_count
        while left:
            left = [entry for entry in left if not await self._try_register(connection, entry)]
            if left:
                await _pause(connection, WAITS_S[min(tries, len(WAITS_S) - 1)], lives)
                tries, lives = tries + 1, connection.reconnect_count

    async def _try_register(self, connection: Connection, entry: Mapping[str, object]) -> bool:
        """Return True if nothing is left to do for this entry; a refusal is logged, and stays one
        until an operator acts.
        """
        try:
            is_new = await put_missing(connection, entry, self._headers)
        except Unanswered as exc:
            self._tell(entry, f"{exc}; it is served, and asked again")
            return False
        except RouterError as exc:
            self._tell(entry, str(exc))
            return True
        hint = {} if is_new else {"hint": KEPT}
        log.info(events.EXTENSION_REGISTERED, extension=entry["id"], is_new=is_new, **hint)
        return True

    def _tell(self, entry: Mapping[str, object], why: str) -> None:
        if self._once.allow(entry["id"]):
            log.warning(events.EXTENSION_UNREGISTERED, extension=entry["id"], why=why)


async def put_missing(
    connection: Connection, entry: Mapping[str, object], headers: Mapping[str, str] | None
) -> bool:
    """Return whether the entry was written now; False: one existed. Raises Unanswered; RouterError
    when the router refuses.
    """
    if not connection.is_connected:
        # a request would be kept until it is back, and so would each of the next ones
        raise Unanswered("the broker is away")
    body = orjson.dumps({**entry, "replaces": 0, "author": REGISTRATION_AUTHOR})
    try:
        answer = await connection.request(
            PUT, body, timeout=TIMEOUT_S, headers=dict(headers) if headers else None
        )
        response = orjson.loads(answer.data)
    except (nats.errors.Error, OSError) as exc:  # TimeoutError is an OSError
        raise Unanswered("no router answers to register it") from exc
    except orjson.JSONDecodeError as exc:
        raise Unanswered("what answers to register it is no router") from exc
    if not isinstance(response, dict):
        raise Unanswered("what answers to register it is no router")
    if response.get("ok") is True:
        return True
    error = value if isinstance(value := response.get("error"), dict) else {}
    if error.get("code") == CONFLICT:
        return False
    raise RouterError(f"the router refuses the entry: {error.get('code')}: {error.get('message')}")


def entry_of(extension: Extension, instances: Mapping[str, int]) -> dict[str, object]:
    """The registry entry that an extension asks for (docs/reference/extensions.md#registry)."""
    options = {"timeout_ms": extension.timeout_ms, "retry": extension.retry}
    shares = [{"id": instance, "weight": weight} for instance, weight in instances.items()]
    return {
        "id": extension.id,
        "type": extension.kind,
        "subject": extension.subject,
        **{name: value for name, value in options.items() if value is not None},
        **({"instances": shares} if shares else {}),
        **({"metadata": extension.metadata} if extension.metadata else {}),
    }


async def _pause(connection: Connection, seconds: float, lives: int) -> None:
    """Wait `seconds`, or until the connection came back."""
    until = steady() + seconds
    while True:
        if connection.reconnect_count != lives or steady() >= until:
            return
        await asyncio.sleep(RECONNECT_CHECK_S)


# -- Serve extensions: one connection, a service for each, all of them drained at the end.


# -- The server.

ALONE: Mapping[str, int] = {}


class ExtensionServer:
    """`run` until cancelled, or until SIGTERM or Ctrl-C.

    `concurrency`: requests of one extension at work at once, where its function awaits or blocks.

    `instances`: ids of this process in the registry, with their weights (1..100); each is a subject
    of its own below the extension's. `register`: have the router write an entry for each extension
    that has none; `api_key` is for that. `drain_s`: seconds that requests in flight may take at the
    end. `reply_prefixes`: answers go to inboxes under these alone.
    """

    def __init__(
        self,
        *extensions: Extension,
        nats: str | NatsConfig = DEFAULT_URL,
        register: bool = False,
        instances: Mapping[str, int] = ALONE,
        api_key: str | None = None,
        concurrency: int = 64,
        drain_s: float = 10.0,
        reply_prefixes: tuple[str, ...] = INBOXES,
    ) -> None:
        _check(extensions, instances, concurrency)
        self._extensions = extensions
        self._nats = nats
        self._registration = Registration(extensions, instances, api_key) if register else None
        self._instances = tuple(instances)
        self._rules = DispatcherRules(
            concurrency=concurrency, prefixes=reply_prefixes, drain_s=drain_s
        )

    async def run(self, on_ready: Callable[[str], None] = lambda _: None) -> None:
        """Serve. `on_ready` gets the broker's URL once, when every subject is subscribed.

        Raises BrokerUnavailable at the start, ConnectionStuck when only a new process comes
        through.
        """
        await run_until_signal(self.work(on_ready))

    async def work(self, on_ready: Callable[[str], None] = lambda _: None) -> None:
        """The same, until cancelled, for a program that handles signals itself."""
        held = build_held_connection(self._nats, "extensions", is_logged=False)
        async with ProcessHost().hold(held) as (connection,), ReplyStreams(connection) as outlets:
            await self._serve(connection, outlets, on_ready)

    async def _serve(
        self, connection: Connection, outlets: ReplyStreams, on_ready: Callable[[str], None]
    ) -> None:
        services: list[Service] = []
        dispatchers: list[RequestDispatcher] = []
        try:
            for extension in self._extensions:
                dispatchers.append(RequestDispatcher(extension, connection, outlets, self._rules))
                services.append(await create_service(connection, extension))
                for subject in (
                    extension.subject,
                    *(f"{extension.subject}.{instance}" for instance in self._instances),
                ):
                    await build_endpoint(
                        connection, extension, subject, dispatchers[-1].dispatch
                    ).join(services[-1])
            await connection.require_permission(
                *(extension.subject for extension in self._extensions)
            )
            on_ready(connection.address)
            if self._registration is not None:
                await self._registration.run(connection)
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(*(stop_service(service) for service in services))
            await asyncio.gather(*(dispatcher.drain() for dispatcher in dispatchers))


def serve(
    *extensions: Extension,
    url: str | NatsConfig = DEFAULT_URL,
    register: bool = False,
    instances: Mapping[str, int] = ALONE,
    api_key: str | None = None,
    concurrency: int = 64,
    drain_s: float = 10.0,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve these extensions as `router.run` does: until SIGINT or SIGTERM, then drain. The options
    are those of `ExtensionServer`.
    """
    server = ExtensionServer(
        *extensions,
        nats=url,
        register=register,
        instances=instances,
        api_key=api_key,
        concurrency=concurrency,
        drain_s=drain_s,
    )
    run(server.run(on_ready))


def _check(extensions: Sequence[Extension], instances: Mapping[str, int], concurrency: int) -> None:
    if not extensions or not all(isinstance(extension, Extension) for extension in extensions):
        raise Misconfigured(
            "extensions",
            "should be functions with @pre, @validator, @post or @provider on them, at least one",
        )
    subjects = [extension.subject for extension in extensions]
    for subject in subjects:
        if subjects.count(subject) > 1:
            raise Misconfigured("extensions", f"two of them answer on {subject}")
    for instance, weight in instances.items():
        if not ids.is_token(instance) or not 1 <= weight <= 100:
            raise Misconfigured(
                "instances",
                "should be ids of 1..64 of A-Z a-z 0-9 _ -, each with a weight of 1..100",
            )
    if concurrency < 1:
        raise Misconfigured("concurrency", "should be 1 or more")


# -- An extension as a service of nats.micro: its name, its subjects, the shapes of its requests
# and responses.

_NUMBERED = re.compile(r"v?(\d{1,9})")
_ASKS = (
    "{trace_id, tenant_id, payload{message_id, message_type, payload, metadata}, metadata, config}"
)
_SHAPES: Mapping[str, tuple[str, str]] = {
    PROVIDER: (
        "{trace_id, tenant_id, provider_id, prompt, parameters, context}",
        "{provider_id, output, usage{prompt_tokens, completion_tokens}, metadata}",
    ),
    VALIDATOR: (_ASKS, "{status: ok | reject, reason?, details?}"),
}
_SCHEMAS: Mapping[str, tuple[str, str]] = {
    PROVIDER: ("provider-call", "provider-answer"),
    VALIDATOR: ("extension-request", "extension-verdict"),
}


async def create_service(connection: Connection, extension: Extension) -> Service:
    """The extension as a nats.micro service, found by `$SRV.PING`, `$SRV.INFO`, `$SRV.STATS`."""
    return await add_service(
        connection,
        name=extension.id,
        version=_semantic(extension.version),
        description=_first_line(extension.function.__doc__),
        metadata={"type": extension.kind, "id": extension.id, "version": extension.version},
        queue_group=extension.id,
    )


def build_endpoint(
    connection: Connection, extension: Extension, subject: str, on_request: OnRequest
) -> MicroEndpoint:
    """One subject of the service."""
    asks, gives = _SHAPES.get(extension.kind, (_ASKS, "{payload, metadata}"))
    metadata = {"request": asks, "response": gives, **_build_schemas(extension.kind)}
    return MicroEndpoint(
        connection,
        on_request,
        name=extension.id,
        subject=subject,
        queue_group=extension.id,
        metadata=metadata,
    )


def _build_schemas(kind: str) -> dict[str, str]:
    """The JSON Schema of request and response as text, without examples: `$SRV.INFO` carries text
    only.
    """
    shapes = build_shapes()
    names = _SCHEMAS.get(kind, ("extension-request", "extension-message"))
    schemas = dict(
        zip(
            ("request_schema", "response_schema"),
            (shapes[name].build_schema() for name in names),
            strict=True,
        )
    )
    return {
        name: orjson.dumps({**schema, "examples": []}).decode() for name, schema in schemas.items()
    }


def _semantic(version: str) -> str:
    """nats.micro needs three numbers; the metadata holds the real version."""
    numbered = _NUMBERED.fullmatch(version)
    return f"{int(numbered[1])}.0.0" if numbered is not None else "0.0.0"


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
