"""Writing an extension: one function, one decorator, one call.

    from router.extension import pre, serve

    @pre("normalize_text")
    def normalize(request):
        return request.payload.strip().lower(), {"normalized": "true"}

    if __name__ == "__main__":
        serve(normalize, url="nats://localhost:4222", register=True)

`router/samples/extensions/README.md` is the whole manual. This file only says what is public; the code is in `router.sdk.extension`.
"""

from __future__ import annotations

from router.sdk.extension import (
    Extension,
    ExtensionServer,
    Invocation,
    Output,
    Refused,
    Rejection,
    Request,
    Response,
    post,
    pre,
    provider,
    reject,
    serve,
    validator,
)

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
