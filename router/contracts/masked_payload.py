"""A message's payload for people: JSON with the values of masked names hidden; what cannot be
masked is described, not shown.

Every number is there with its digits (`exact_json.load_written`), so it is written by `dump_json`.
"""

from __future__ import annotations

from typing import Any

from router.contracts.codec import check_limits
from router.contracts.exact_json import load_written
from router.contracts.malformed import Malformed
from router.core.ids import sha256_hex
from router.core.masking import mask_secrets


def describe_payload(data: bytes) -> dict[str, Any]:
    """`{"payload": …}` of a JSON object or list, masked; `{"payload_sha256": …}` of all other
    bytes.
    """
    try:
        check_limits(data, len(data))
        payload = load_written(data)
    except (Malformed, ValueError):
        payload = None
    return (
        {"payload": mask_secrets(payload)}
        if isinstance(payload, dict | list)
        else {"payload_sha256": sha256_hex(data)}
    )
