"""Templates, and how values look. Every text from outside is escaped, legible and cut: no character
of it steers a page or a reader.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from router import __version__
from router.core.legible import shorten
from router.core.masking import printable
from router.shell.page_data import PageSpec

MAX_CELL = 240  # characters
MAX_FACT = 2_000
NOTHING = "–"
_CODE = re.compile(r"`([^`]+)`")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("router.shell"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    made.trim_blocks = made.lstrip_blocks = True
    made.filters |= {
        "cell": format_cell,
        "fact": format_fact,
        "clock": format_clock,
        "moment": format_moment,
        "verdict": choose_class,
        "prose": mark_code,
    }
    made.filters |= {
        "rate": format_rate,
        "percent": format_percent,
        "ms": format_ms,
        "json": _format_json,
        "prose": mark_code,
        "printable": printable,
    }
    return made


def compile_templates() -> None:
    """Compile all of them, before any is rendered in a thread.

    Python 3.11 cannot build syntax trees in two threads at once: "AST constructor recursion depth
    mismatch" (https://github.com/python/cpython/issues/106905).
    """
    environment = _environment()
    for name in environment.list_templates():
        environment.get_template(name)


def render(template: str, specs: tuple[PageSpec, ...], **values: object) -> str:
    """The page as HTML. `access`: who asks; `notice`: what is said to them, and whether something
    went wrong.
    """
    values = {"access": None, "notice": ("", False), **values}
    text: str = (
        _environment().get_template(template).render(specs=specs, version=__version__, **values)
    )
    return text


def format_cell(value: object, kind: str = "text") -> str:
    """A cell of a table."""
    return _format(value, kind, MAX_CELL)


def format_fact(value: object, kind: str = "text") -> str:
    """A value that has a line of its own."""
    return _format(value, kind, MAX_FACT)


def format_moment(at: float | None) -> str:
    """`2026-11-23 13:05:11 UTC`"""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC" if at is not None else NOTHING


def format_clock(at: float | None) -> str:
    """`13:05:11`"""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}" if at is not None else NOTHING


def format_rate(value: float | None) -> str:
    """Events a second."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def format_percent(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.2%}" if 0 < value < 0.1 else f"{value:.1%}"


def format_ms(value: float | None) -> str:
    """Three figures that count."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def mark_code(text: str) -> Markup:
    """What stands in backticks as code; all else, and what is in them, is escaped."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - the text is escaped


GOOD = frozenset(
    {
        "ok",
        "on",
        "closed",
        "healthy",
        "accepted",
        "the same",
        "info",
        "done",
        "idle",
        "busy",
        "as declared",
        "active",
    }
)
BAD = frozenset(
    {
        "fail",
        "open",
        "unhealthy",
        "rejected",
        "error",
        "not the same",
        "critical",
        "silent",
        "missing",
        "failed",
    }
)
UNSURE = frozenset(
    {
        "warn",
        "half_open",
        "degraded",
        "unacknowledged",
        "warning",
        "off",
        "draining",
        "stopped",
        "drifted",
        "widened",
        "unbatched",
        "replaced",
        "expired",
    }
)


def choose_class(value: object) -> str:
    """The class of a verdict's colour; its word says it, too."""
    for name, words in (("good", GOOD), ("bad", BAD), ("unsure", UNSURE)):
        if value in words:
            return name
    return ""


def _format(value: object, kind: str, most: int) -> str:
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case int() | float() if kind == "percent":
            return format_percent(value)
        case int():
            return f"{value:,}" if kind == "number" else str(value)
        case float():
            return f"{value:,.9f}".rstrip("0").rstrip(".") if value < 100 else f"{value:,.0f}"
        case str() if kind == "time" and len(value) >= 19 and value[10:11] in ("T", " "):
            return shorten(f"{value[:10]} {value[11:19]}", most)
        case _:
            return shorten(str(value), most)


def _format_json(value: object) -> str:
    """For an attribute: the template escapes it."""
    return orjson.dumps(value).decode()
