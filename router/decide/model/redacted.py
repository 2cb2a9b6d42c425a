"""What is kept of one decision: a `RecordedDecision` as bytes, with nothing in it that is a secret.

No payload, and no reference to one: an address may carry a signature. What stands under a masked key is hidden
(`router.core.masking`). A case that is too large, or holds what cannot be written, is kept without its context, and says so:
whatever a request holds, its decision stands.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from router.contracts.request import NOTHING, RouteRequest
from router.core.masking import mask_secrets
from router.policies.model import RecordedDecision

_ENCODER = msgspec.json.Encoder(enc_hook=dict)  # a read-only mapping as a dict

read_case = msgspec.json.Decoder(RecordedDecision).decode


def case_bytes(case: RecordedDecision, most: int) -> bytes:
    """Redacted; at most so many bytes where leaving the context out is enough."""
    redacted = replace(case, request=_redact(case.request))
    try:
        data = _ENCODER.encode(redacted)
    except (TypeError, ValueError, RecursionError):
        data = b""
    if 0 < len(data) <= most:
        return data
    return _ENCODER.encode(replace(redacted, request=_drop_context(redacted.request), is_cut=True))


def _redact(request: RouteRequest) -> RouteRequest:
    return replace(
        request,
        payload=None,
        payload_ref=None,
        context=_mask(request.context),
        constraints=_mask(request.constraints),
        metadata=_mask(request.metadata),
    )


def _mask(fields: Mapping[str, object]) -> Mapping[str, object]:
    hidden = mask_secrets(fields) if fields else NOTHING
    return hidden if isinstance(hidden, Mapping) else NOTHING


def _drop_context(request: RouteRequest) -> RouteRequest:
    return replace(request, context=NOTHING, constraints=NOTHING, metadata=NOTHING)
