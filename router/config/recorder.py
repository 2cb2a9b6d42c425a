"""Whose decisions are kept to be explained and tried again, and how many of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from router.config.group import Group, Texts


class RecorderConfig(Group):
    """Memory of one instance: at most tenants x entries x entry_max_bytes."""

    tenants: Texts = Field(default=(), description="tenants whose decisions are recorded, masked and without payload; empty = none")
    entries: Annotated[int, Field(ge=1, le=100_000)] = Field(default=1_000, description="newest decisions kept of each tenant")
    entry_max_bytes: Annotated[int, Field(ge=2_048, le=1024 * 1024)] = Field(
        default=16_384, description="a larger record is kept without its routing context, bytes"
    )
