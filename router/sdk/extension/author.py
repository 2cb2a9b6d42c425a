"""The decorators. A decorated function can still be called like that function, so a test needs no
broker.

@validator("pii_guard", version="v2")
def pii_guard(request): ...

pii_guard(Request.from_payload("…"))     the author's function
pii_guard.subject                        beamline.ext.validate.pii_guard.v2
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from router.core import ids
from router.core.errors import Misconfigured
from router.core.user_functions import is_async_callable
from router.extensions.model.entry import (
    POST,
    PRE,
    PROVIDER,
    RESERVED_PROVIDER,
    VALIDATOR,
    subject_of,
)
from router.sdk.extension.request import NOTHING

Function = Callable[[Any], Any]


class Extension:
    """One function under one subject. `blocking`: a plain function that waits or computes long runs
    in a thread; any other plain function runs between two messages, and delays all of them.
    `timeout_ms`, `retry` and `metadata` go into its registry entry; None leaves the first two to
    the registry.
    """

    def __init__(
        self,
        function: Function,
        kind: str,
        extension_id: str,
        version: str,
        *,
        blocking: bool,
        timeout_ms: int | None,
        retry: int | None,
        metadata: Mapping[str, object] = NOTHING,
    ) -> None:
        functools.update_wrapper(self, function)
        _check(function, kind, extension_id, version, blocking)
        self.function = function
        self.kind = kind
        self.id = extension_id
        self.version = version
        self.blocking = blocking
        self.timeout_ms = timeout_ms
        self.retry = retry
        self.metadata = metadata
        self.streams = inspect.isasyncgenfunction(function)

    def __call__(self, request: Any) -> Any:
        return self.function(request)

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", self.id)

    @property
    def subject(self) -> str:
        return subject_of(self.kind, self.id, self.version)

    @property
    def is_plain(self) -> bool:
        """Whether it may run in the reader's own turn: it neither awaits nor blocks."""
        return not (self.blocking or self.streams or is_async_callable(self.function))


Decorator = Callable[[Function], Extension]


def pre(
    extension_id: str,
    *,
    version: str = "v1",
    blocking: bool = False,
    timeout_ms: int | None = None,
    retry: int | None = None,
) -> Decorator:
    """A pre-processor: may change the message and add to the context before a provider is chosen."""
    return _decorator(
        PRE, extension_id, version, blocking=blocking, timeout_ms=timeout_ms, retry=retry
    )


def validator(
    extension_id: str,
    *,
    version: str = "v1",
    blocking: bool = False,
    timeout_ms: int | None = None,
    retry: int | None = None,
) -> Decorator:
    """A validator: says whether a request may go on."""
    return _decorator(
        VALIDATOR, extension_id, version, blocking=blocking, timeout_ms=timeout_ms, retry=retry
    )


def post(
    extension_id: str,
    *,
    version: str = "v1",
    blocking: bool = False,
    timeout_ms: int | None = None,
    retry: int | None = None,
) -> Decorator:
    """A post-processor: sees the decision, and may add metadata to it."""
    return _decorator(
        POST, extension_id, version, blocking=blocking, timeout_ms=timeout_ms, retry=retry
    )


def provider(
    extension_id: str,
    *,
    version: str = "v1",
    blocking: bool = False,
    timeout_ms: int | None = None,
    retry: int | None = None,
) -> Decorator:
    """A custom provider: answers a prompt. An async generator streams."""
    return _decorator(
        PROVIDER, extension_id, version, blocking=blocking, timeout_ms=timeout_ms, retry=retry
    )


def _decorator(
    kind: str,
    extension_id: str,
    version: str,
    *,
    blocking: bool,
    timeout_ms: int | None,
    retry: int | None,
) -> Decorator:
    return lambda function: Extension(
        function, kind, extension_id, version, blocking=blocking, timeout_ms=timeout_ms, retry=retry
    )


def _check(function: object, kind: str, extension_id: str, version: str, blocking: bool) -> None:
    if not callable(function):
        raise Misconfigured(kind, f'is used as @{kind}("some_id")')
    if not (isinstance(extension_id, str) and ids.is_token(extension_id)):
        raise Misconfigured("id", f'should be 1..64 of A-Z a-z 0-9 _ -, as in @{kind}("some_id")')
    if not ids.is_token(version):
        raise Misconfigured("version", "should be 1..64 of A-Z a-z 0-9 _ -, for instance v1")
    if kind == PROVIDER and extension_id == RESERVED_PROVIDER:
        raise Misconfigured(
            "id", f"{RESERVED_PROVIDER} is taken: beamline.provider.v1.invoke is not an extension"
        )
    if inspect.isasyncgenfunction(function) and kind != PROVIDER:
        raise Misconfigured(kind, "only a provider may be an async generator")
    if blocking and (is_async_callable(function) or inspect.isasyncgenfunction(function)):
        raise Misconfigured("blocking", "is for plain functions; an async function awaits")
