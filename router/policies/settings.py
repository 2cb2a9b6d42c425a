"""Where policies come from, and whether instances share their rate limits."""

from __future__ import annotations

from pydantic import Field

from router.core.setting_values import Count, File, Group


class PoliciesConfig(Group):
    dir: File = Field(
        default=None,
        description="directory that seeds the bucket of policies: <tenant>/<policy>.json and _shared/",
    )
    sessions_entries: Count = Field(
        default=100_000, description="sticky sessions remembered by one instance"
    )


class RateLimitsConfig(Group):
    """Whether instances share the rate limits of policies
    (docs/reference/policies.md#shared-rate-limit).
    """

    shared: bool = Field(
        default=True,
        description=(
            "a policy's rate limit holds over all instances; false: for each by itself, and no "
            "bucket is asked"
        ),
    )
