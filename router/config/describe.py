"""Every setting as a row for people, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from router.config.settings import Settings
from router.core.masking import MASK, has_key, hide_keys, hide_login, hide_query
from router.core.setting_values import list_settings


class Row(NamedTuple):
    """`source`: default | file | the variable's name | command line; values as one would write them in the environment."""

    name: str
    value: str
    default: str
    source: str
    description: str


def describe(settings: Settings, sources: Mapping[str, str]) -> list[Row]:
    """All settings in the order of the tree, secrets masked: `describe(*load(...))`."""
    defaults = {s.name: format_value(s.field, s.value) for s in list_settings(type(settings)())}
    return [
        Row(
            s.name,
            format_value(s.field, s.value),
            defaults[s.name],
            sources.get(s.name, "default"),
            s.field.description or "",
        )
        for s in list_settings(settings)
    ]


def format_value(field: FieldInfo, value: object) -> str:
    """A value as text, without secrets: logins and queries inside a URL, and a key pasted instead
    of a file name, are hidden.
    """
    if value is None:
        return ""
    if is_secret(field):
        return MASK
    if isinstance(value, bool):
        return str(value).lower()
    if has_key(str(value)):
        return hide_keys(str(value))
    parts = (
        value
        if isinstance(value, tuple | list)
        else (value,)
        if isinstance(value, Path)
        else str(value).split(",")
    )
    return ",".join(hide_query(hide_login(str(part))) for part in parts)


def is_secret(field: FieldInfo) -> bool:
    return SecretStr in get_args(field.annotation)
