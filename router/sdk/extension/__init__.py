"""The author's side of extensions: a function becomes a NATS service that the router can call (docs/extensions.md#calls).

    bytes ── asked ──> Request ── the author's function ──> a value ── answered ──> bytes
      │                                                                  │
      └── refused: an answer with Nats-Service-Error-Code, 4xx or 5xx ───┘

author      the decorators, and what they make of a function
asked       what a function is given; what is wrong with bytes that are no request
said        what a function may return or raise
answered    that as bytes, or what is wrong with it
provided    the same two steps for providers, and their streams
work        one request through all of this: what it becomes, whatever happens
trace       a span for it, where OpenTelemetry is set up
contract    what the router expects of any extension, as requests and verdicts
desk        where requests arrive and wait: how many at once, each with its deadline
replies     what is said: an answer, a refusal, a stream
endpoint    a subject in a queue group, counted, described by nats.micro
server      all endpoints on one connection: begun, drained, ended
register    the entry in the registry, written by the router when it is missing

Knows nothing of policies, retries and breakers: they are the router's.
"""

from __future__ import annotations

from router.sdk.extension.author import Extension, post, pre, provider, validator
from router.sdk.extension.provider_io import Invocation, Output
from router.sdk.extension.request import Request
from router.sdk.extension.results import Refused, Rejection, Response, reject
from router.sdk.extension.server import ExtensionServer, serve

__all__ = [
    "Extension",
    "ExtensionServer",
    "Invocation",
    "Output",
    "Refused",
    "Rejection",
    "Request",
    "Response",
    "post",
    "pre",
    "provider",
    "reject",
    "serve",
    "validator",
]
