"""Writing an extension: a function becomes a NATS service that the router can call
(docs/reference/extensions.md#calls).

    from router.sdk.extension import pre, serve

    @pre("normalize_text")
    def normalize(request):
        return request.payload.strip().lower(), {"normalized": "true"}

    if __name__ == "__main__":
        serve(normalize, url="nats://localhost:4222", register=True)

`docs/how-to/write-an-extension.md` is the whole manual. What a request goes through:

    bytes ── request ──> Request ── the author's function ──> a value ── response ──> bytes
      │                                                                   │
      └── refused: an answer with Nats-Service-Error-Code, 4xx or 5xx ────┘

author            the decorators, and what they make of a function
request           what a function gets, and may return or raise; what is wrong with bytes that
                  are no request
response          that as bytes, or what is wrong with it
provider_io       the same two steps for providers, and their streams
function_runner   one request through all of this, in a span where OpenTelemetry is set up
contract          what the router expects of any extension, as requests and checks
dispatcher        receives requests and queues them: how many at once, each with its deadline
replies           an answer, a refusal, a stream
server            endpoints, counted and described by nats.micro, on one connection: started,
                  drained, ended; the entry in the registry, written by the router when it is
                  missing

Does not know policies, retries and breakers: they are the router's.
"""

from __future__ import annotations

from router.sdk.extension.author import Extension, post, pre, provider, validator
from router.sdk.extension.provider_io import Invocation, Output, Usage
from router.sdk.extension.request import Refused, Rejection, Request, Response, reject
from router.sdk.extension.server import ExtensionServer, serve
from router.sdk.failures import ProviderFailed, RateLimited, RequestRefused, make_failure

__all__ = [
    "Extension",
    "ExtensionServer",
    "Invocation",
    "Output",
    "ProviderFailed",
    "RateLimited",
    "Refused",
    "Rejection",
    "Request",
    "RequestRefused",
    "Response",
    "Usage",
    "make_failure",
    "post",
    "pre",
    "provider",
    "reject",
    "serve",
    "validator",
]
