"""Reads a form that a browser sends: its length, its fields and their number are bounded before
they are parsed.

A browser sends a byte of a document as up to three, so who may write sends a longer form than the
others: a document that is too large for what it is meant for is then shown again with the reason,
and what was typed is not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from starlette.requests import Request

MAX_FORM_BYTES = 1_048_576
MAX_DOCUMENT = 1_048_576  # characters
MAX_DOCUMENT_FORM_BYTES = 3 * MAX_DOCUMENT + 65_536
SMALL = 65_536  # bytes that are parsed at once; more are parsed in a thread
MAX_FIELDS = 2_000
MAX_SHORT = 1_024  # characters of a field, unless it is a document
MAX_DIGITS = 18
FORM_TYPE = "application/x-www-form-urlencoded"


class FormRefused(Exception):
    """The form is not acted upon. `status`: of the response; the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class SentForm:
    """Fields by name, as the browser sent them."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        self._fields = fields

    def has(self, name: str) -> bool:
        return name in self._fields

    def text(self, name: str, most: int = MAX_SHORT) -> str:
        """The field, or an empty text. Raises FormRefused if it is too long."""
        value = self._fields.get(name, ("",))[0]
        if len(value) > most:
            raise FormRefused(413, f"{name}: at most {most:,} characters")
        return value

    def document(self, name: str) -> str:
        """A text of many lines, which a browser ends with CR and LF."""
        return self.text(name, MAX_DOCUMENT).replace("\r\n", "\n")

    def number(self, name: str) -> int | None:
        """None: the field is not there, or empty."""
        numbers = self.numbers(name)
        return numbers[0] if numbers else None

    def texts(self, name: str) -> Sequence[str]:
        """Every value of the field. Raises FormRefused if one is too long."""
        values = [value for value in self._fields.get(name, ()) if value]
        if any(len(value) > MAX_SHORT for value in values):
            raise FormRefused(413, f"{name}: at most {MAX_SHORT:,} characters")
        return values

    def numbers(self, name: str) -> Sequence[int]:
        """Every value of the field. Raises FormRefused."""
        values = [value for value in self._fields.get(name, ()) if value]
        if not all(
            value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS for value in values
        ):
            raise FormRefused(400, f"{name} should be a number")
        return [int(value) for value in values]


async def read_form(request: Request, most: int = MAX_FORM_BYTES) -> SentForm:
    """A form of at most `most` bytes. Raises FormRefused."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise FormRefused(415, f"A form is sent as {FORM_TYPE}.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise FormRefused(
                413,
                (
                    f"A form has at most {most:,} bytes. What was typed is still on the page "
                    "before this one."
                ),
            )
    return _parse(body) if len(body) <= SMALL else await asyncio.to_thread(_parse, body)


def _parse(body: bytearray) -> SentForm:
    """Raises FormRefused."""
    try:
        text = body.decode("ascii")
        return SentForm(
            parse_qs(
                text,
                keep_blank_values=True,
                strict_parsing=bool(body),
                max_num_fields=MAX_FIELDS,
                errors="strict",
            )
        )
    except ValueError as exc:  # of UnicodeDecodeError too
        raise FormRefused(400, "The form cannot be read.") from exc
