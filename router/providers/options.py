"""What `router provider run` is told."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

OPENAI, ANTHROPIC, OLLAMA, ECHO = "openai", "anthropic", "ollama", "echo"
KINDS = (OPENAI, ANTHROPIC, OLLAMA, ECHO)


class UpstreamTimes(Struct, frozen=True, kw_only=True):
    """Seconds. `first_byte`: until the answer's body begins; `read`: between two of its bytes."""

    connect_s: float = 5.0
    first_byte_s: float = 60.0
    read_s: float = 30.0


class ProviderOptions(Struct, frozen=True, kw_only=True):
    """`kind`: one of KINDS. `base_url`: None is the vendor's own. `asks_usage`: of streams; a
    server that is strict may refuse to be asked.
    """

    name: str
    kind: str
    version: str = "v1"
    base_url: str | None = None
    key_file: Path | None = None
    models_file: Path | None = None
    times: UpstreamTimes = UpstreamTimes()
    concurrency: int = 128
    timeout_ms: int = 60_000
    allows_insecure_http: bool = False
    asks_usage: bool = True
    drain_s: float = 10.0
    is_registered: bool = True
