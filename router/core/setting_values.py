"""The kinds of values that settings are made of, and the frozen group that holds them.

A value is checked here for itself alone; what two settings must be to each other stands in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from router.core import ids
from router.core.masking import has_key

# subjects of the server and of clients: a message of the router there would be a command, or an
# answer
FOREIGN = ("$", "_INBOX", "_R_")


class Group(BaseModel):
    """Settings that belong together. Building one reads nothing: no file, no environment."""

    model_config = ConfigDict(frozen=True, extra="forbid")


G = TypeVar("G", bound=Group)


def add_fields(groups: Mapping[str, Group]) -> Callable[[type[G]], type[G]]:
    """A decorator of a group: it gets a field, with this default, for each name that it does not
    declare itself.
    """

    def extend(base: type[G]) -> type[G]:
        fields: dict[str, Any] = {
            name: (type(group), group)
            for name, group in groups.items()
            if name not in base.model_fields
        }
        return (
            create_model(
                base.__name__,
                __base__=base,
                __module__=base.__module__,
                __doc__=base.__doc__,
                **fields,
            )
            if fields
            else base
        )

    return extend


class Setting(NamedTuple):
    """One leaf of the tree: `name` is dotted (`decide.ack_wait_ms`)."""

    name: str
    value: object
    field: FieldInfo


def list_settings(group: BaseModel, prefix: str = "") -> Iterator[Setting]:
    """Every setting of a group and of the groups inside it, in the order of their declaration."""
    for name, field in type(group).model_fields.items():
        value = getattr(group, name)
        if isinstance(value, BaseModel):
            yield from list_settings(value, f"{prefix}{name}.")
        else:
            yield Setting(prefix + name, value, field)


def split_list(value: object) -> object:
    """Lists are comma-separated (docs/reference/contracts.md#settings); an empty text is an empty
    list.
    """
    if not isinstance(value, str):
        return value
    return tuple(part for part in (raw.strip() for raw in value.split(",")) if part)


def _empty_is_unset(value: object) -> object:
    return None if value == "" else value


def _file_name(value: object) -> object:
    if isinstance(value, str) and has_key(value):
        raise ValueError("should be the name of a file, not what is in it")
    return _empty_is_unset(value)


def _literal_subject(value: str) -> str:
    if not ids.is_literal_subject(value) or value.startswith(FOREIGN):
        raise ValueError(
            "should be one literal subject: no wildcard, no space, no empty token, not "
            "starting with $ or _INBOX"
        )
    return value


def _reply_prefix(value: str) -> str:
    # Only the prefixes keep a client's reply address away from the router's subjects
    # (docs/reference/contracts.md#reply-addresses).
    if not value.endswith(".") or value.startswith("$") or not ids.is_literal_subject(value[:-1]):
        raise ValueError(
            "should be whole literal tokens that end with a dot, never starting with $"
        )
    return value


Millis = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,255}$")]
Subject = Annotated[str, AfterValidator(_literal_subject)]
Text = Annotated[str | None, BeforeValidator(_empty_is_unset)]
File = Annotated[Path | None, BeforeValidator(_file_name)]
OptionalSubject = Annotated[Subject | None, BeforeValidator(_empty_is_unset)]
OptionalTenant = Annotated[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9:-][A-Za-z0-9_.:-]{0,127}$")] | None,
    BeforeValidator(_empty_is_unset),
]
OptionalToken = Annotated[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None, BeforeValidator(_empty_is_unset)
]
Tokens = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")], ...], BeforeValidator(split_list)
]
OptionalMillis = Annotated[Millis | None, BeforeValidator(_empty_is_unset)]
Environment = Annotated[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")] | None,
    BeforeValidator(_empty_is_unset),
]
Texts = Annotated[tuple[str, ...], BeforeValidator(split_list)]
Subjects = Annotated[tuple[Subject, ...], BeforeValidator(split_list), Field(min_length=1)]
Prefixes = Annotated[
    tuple[Annotated[str, AfterValidator(_reply_prefix)], ...], BeforeValidator(split_list)
]
Schedule = Annotated[tuple[Millis, ...], BeforeValidator(split_list), Field(min_length=1)]
