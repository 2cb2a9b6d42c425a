"""The ids that a tenant can compute: docs/reference/contracts.md#assignments says that they follow
from the request's. Pure.
"""

from __future__ import annotations

import uuid

_NAMESPACE = uuid.UUID("6f0e1b0a-3d5c-5c8e-9a53-0d9a7a5b7c11")


def assignment_id_of(tenant: str, request_id: str) -> str:
    """As any tenant may do who has read the code."""
    return str(uuid.uuid5(_NAMESPACE, "\x00".join(("assignment", tenant, request_id))))
