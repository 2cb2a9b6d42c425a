"""Settings from an environment that is a dict and a file that is its text."""

from pathlib import Path

import pytest

from router.config import Loaded, load
from router.core.errors import Misconfigured


def load_settings(
    toml: str = "",
    *,
    tmp_path: Path | None = None,
    options: dict[str, object] | None = None,
    **environ: str,
) -> Loaded:
    return load(a_file(toml, tmp_path) if tmp_path else None, options or {}, environ)


def a_file(toml: str, directory: Path) -> Path:
    path = directory / "router.toml"
    path.write_text(toml)
    return path


def read_refusal(
    toml: str = "",
    *,
    tmp_path: Path | None = None,
    options: dict[str, object] | None = None,
    **environ: str,
) -> str:
    with pytest.raises(Misconfigured) as refused:
        load_settings(toml, tmp_path=tmp_path, options=options, **environ)
    return str(refused.value)
