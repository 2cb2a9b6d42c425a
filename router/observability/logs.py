"""Logs: one JSON object a line on standard error (or text for people), secrets and logins masked, never an exception of its own.

A line is bounded: long texts are cut, of long lists the first items stay, and a line still too long keeps texts and numbers alone.

    log = logs.logger(__name__)
    log.info(events.LETTER_STORED, subject=…, reason=…)

The level is checked before anything is bound. A program that imports us and never called `configure` gets our lines by
`logging` (`library`), whatever it does with structlog. Lines of other libraries (uvicorn, asyncio) take the same form.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TextIO, cast

import orjson
import structlog
from structlog.typing import ExcInfo, FilteringBoundLogger, Processor

from router.masking import bounded, masked, shortened, without_logins
from router.observability.library import MAX_LINE, MAX_TRACEBACK, LibraryLogger

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


_SHORT = 1024  # characters of each text, where the line would be longer


def logger(name: str) -> FilteringBoundLogger:
    """A logger that says which module speaks; may be made before `configure`."""
    return cast(FilteringBoundLogger, structlog.wrap_logger(None, wrapper_class=cast(type[FilteringBoundLogger], _bound), module=name))


def configure(level: str = "info", style: str = "json", stream: TextIO | None = None, **facts: object) -> None:
    """Called once, before the first line. `level`: one of LEVELS; `style`: json | console; `stream`: standard error.

    `facts` stand in every line of ours: which process of several speaks.
    """
    out = stream or sys.stderr
    renderers: list[Processor] = [*([_json_exception, _render_json] if style == "json" else [_console(out), _cut_line]), _hide_logins]
    structlog.configure(
        processors=[_stating(facts), *_facts(), _bound_and_mask, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=True,
    )
    _adopt_foreign_lines(LEVELS[level], renderers, out)


def _bound(logger: object, **parts: Any) -> FilteringBoundLogger:
    """By what `configure` set; where nobody called it, we are a library, and structlog is the program's own."""
    found = structlog.get_config()
    if _bound_and_mask not in found["processors"]:
        return cast(FilteringBoundLogger, LibraryLogger(parts["context"]["module"]))
    kind: Callable[..., FilteringBoundLogger] = found["wrapper_class"]
    return kind(logger, **parts)


def _console(out: TextIO) -> Processor:
    # Where Rich is installed the default tells every local variable of a traceback: payloads and secrets are among them.
    return structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=_write_traceback)


def _write_traceback(out: TextIO, exc_info: ExcInfo) -> None:
    """An exception may quote all that it was given."""
    whole = io.StringIO()
    structlog.dev.plain_traceback(whole, exc_info)
    out.write(shortened(whole.getvalue(), MAX_TRACEBACK))


def _facts() -> list[Processor]:
    return [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)]


def _adopt_foreign_lines(level: int, renderers: list[Processor], out: TextIO) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_facts()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _bound_and_mask, *renderers],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)


def _stating(facts: Mapping[str, object]) -> Processor:
    def state(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event.update(facts)
        return event

    return state


def _bound_and_mask(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], masked(bounded(event)))


def _hide_logins(_logger: object, _method: str, line: Any) -> str:
    """The last: a library's exception may quote the address that it was given."""
    return without_logins(line)


def _cut_line(_logger: object, _method: str, line: Any) -> str:
    return shortened(line, MAX_LINE)


def _json_exception(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    formatted = structlog.processors.format_exc_info(logger, method, event)
    if "exception" in formatted:
        formatted["exception"] = shortened(formatted["exception"], MAX_TRACEBACK)
    return formatted


def _render_json(_logger: object, _method: str, event: Mapping[str, Any]) -> str:
    line = _as_json(event)
    if len(line) <= MAX_LINE:
        return line
    short = {key: shortened(value, _SHORT) if isinstance(value, str) else value for key, value in event.items()}
    return _as_json({key: value for key, value in short.items() if isinstance(value, str | int | float | None)})


def _as_json(event: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # Text that is not UTF-8 (a header, a reply subject) and integers above 64 bits: escaped by the slower one.
        return json.dumps(event, default=str, skipkeys=True)
