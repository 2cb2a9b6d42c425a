"""Failures of the place where a warehouse lies. It imports nothing heavy: the command line knows
them.
"""

from __future__ import annotations

from router.core.errors import RouterError, Transient


class WarehouseUnavailable(Transient):
    """The bucket does not answer, or refuses the key."""

    code = "warehouse_unavailable"


class WarehouseFailed(RouterError):
    """A file of the warehouse could not be read or written, though its place answers: a full disk,
    a permission, a damaged file.
    """

    code = "warehouse_failed"
