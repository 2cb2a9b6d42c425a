"""Logs: one JSON object a line on standard error (or text for people), with secrets and logins
masked.

Logging never raises and never waits: lines that cannot be written are counted, and told when there
is room again (`log_sink`).

A line is bounded: long texts are cut, long lists keep their first items, and a line that is still
too long keeps only texts and numbers.

    log = logs.logger(__name__)
    log.info(events.LETTER_STORED, subject=…, reason=…)

The level is checked before a line is built. In a program that imports the router and never calls
`configure`, the lines go to `logging` (`LibraryLogger`), however it uses structlog. Lines of other
libraries (uvicorn, asyncio) get the same form.
"""

from __future__ import annotations

import atexit
import io
import json
import logging
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO, cast

import orjson
import structlog
from structlog.typing import ExcInfo, FilteringBoundLogger, Processor

from router.core.masking import hide_logins, mask_secrets, printable, shorten, truncate
from router.process.observability import events
from router.process.observability.log_sink import LogSink

# -- Lines as `configure` sets them up.

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


_SHORT_TEXT = 1024  # characters of each text in a line that would be too long


def logger(name: str) -> FilteringBoundLogger:
    """A logger that adds the module's name. It can be created before `configure` is called."""
    return cast(
        FilteringBoundLogger,
        structlog.wrap_logger(
            None, wrapper_class=cast(type[FilteringBoundLogger], _bind), module=name
        ),
    )


def configure(
    level: str = "info", style: str = "json", stream: TextIO | None = None, **facts: object
) -> None:
    """Called once, before the first line. `level`: one of LEVELS; `style`: json | console; `stream`: standard error.

    `facts` are added to every line of the router: which process it is, for instance.
    """
    out = _open_sink(stream or sys.stderr, style)
    renderers: list[Processor] = [
        *([_json_exception, _render_json] if style == "json" else [_console(out), _cut_line]),
        _hide_logins,
    ]
    structlog.configure(
        processors=[_add_facts(facts), *_facts(), _truncate_and_mask, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, out)),
        cache_logger_on_first_use=True,
    )
    _format_other_loggers(LEVELS[level], renderers, out)


def _bind(logger: object, **parts: Any) -> FilteringBoundLogger:
    """A logger as `configure` set it up. Without that the router is a library, and the program may
    use structlog itself.
    """
    config = structlog.get_config()
    if _truncate_and_mask not in config["processors"]:
        return cast(FilteringBoundLogger, LibraryLogger(parts["context"]["module"]))
    kind: Callable[..., FilteringBoundLogger] = config["wrapper_class"]
    return kind(logger, **parts)


def count_lost_lines() -> int:
    """Lines that could not be written since the log was configured last."""
    return _sinks[-1].lost_total if _sinks else 0


def _open_sink(out: TextIO, style: str) -> LogSink:
    while _sinks:  # a test, or a child process, configures the log again
        atexit.unregister(_sinks.pop().close)
    sink = LogSink(out, _DESCRIBE_LOST[style])
    _sinks.append(sink)
    atexit.register(sink.close)
    return sink


def _describe_lost(lost: int) -> str:
    fact = {
        "event": events.LOG_LINES_LOST,
        "level": "warning",
        "lines": lost,
        "timestamp": _format_time(),
    }
    return orjson.dumps(fact).decode() + "\n"


def _describe_lost_in_words(lost: int) -> str:
    return f"{_format_time()} [warning  ] {events.LOG_LINES_LOST} lines={lost}\n"


def _format_time() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


_DESCRIBE_LOST: Mapping[str, Callable[[int], str]] = {
    "json": _describe_lost,
    "console": _describe_lost_in_words,
}
_sinks: list[LogSink] = []  # the one in use


def _console(out: LogSink) -> Processor:
    # With Rich installed the default prints the local variables of a traceback: payloads and
    # secrets among them.
    return structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=_write_traceback)


def _write_traceback(out: TextIO, exc_info: ExcInfo) -> None:
    """Shortened, because an exception may quote a text payload."""
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    out.write(shorten(text.getvalue(), MAX_TRACEBACK))


def _facts() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _format_other_loggers(level: int, renderers: list[Processor], out: LogSink) -> None:
    handler = logging.StreamHandler(cast(TextIO, out))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_facts()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _truncate_and_mask,
                *renderers,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)


def _add_facts(facts: Mapping[str, object]) -> Processor:
    def add(
        _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        event.update(facts)
        return event

    return add


def _truncate_and_mask(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], mask_secrets(truncate(event)))


def _hide_logins(_logger: object, _method: str, line: Any) -> str:
    """Runs last: an exception of a library may quote an address with a login."""
    return hide_logins(line)


def _cut_line(_logger: object, _method: str, line: Any) -> str:
    return shorten(line, MAX_LINE)


def _json_exception(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    formatted = structlog.processors.format_exc_info(logger, method, event)
    if "exception" in formatted:
        formatted["exception"] = shorten(formatted["exception"], MAX_TRACEBACK)
    return formatted


def _render_json(_logger: object, _method: str, event: Mapping[str, Any]) -> str:
    line = _as_json(event)
    if len(line) <= MAX_LINE:
        return line
    short = {
        key: shorten(value, _SHORT_TEXT) if isinstance(value, str) else value
        for key, value in event.items()
    }
    return _as_json(
        {key: value for key, value in short.items() if isinstance(value, str | int | float | None)}
    )


def _as_json(event: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # Text that is not UTF-8 (a header, a reply subject) and integers above 64 bits: the slower
        # encoder escapes them.
        return json.dumps(event, default=str, skipkeys=True)


# -- Lines in a program that never calls `configure`: they go to Python's `logging`.
#
# logging.getLogger("router")      the parent of all loggers here; the program configures it, else
# Python writes warnings to stderr
#
# A line is text: the event, then `name=value`. The traceback is formatted here as text, because
# a handler of the program could print the values of local variables, and with them payloads.

MAX_TRACEBACK = 8192  # characters
MAX_LINE = 65_536  # characters, the traceback included
_FRAMES_TO_CALLER = 3  # stack frames between `logging` and the line that logs


class LibraryLogger:
    """What `logs.logger` returns in such a program: the methods of structlog that the router calls."""

    def __init__(self, module: str) -> None:
        self._logger = logging.getLogger(module)

    def debug(self, event: str, **facts: object) -> None:
        self._write(logging.DEBUG, event, facts)

    def info(self, event: str, **facts: object) -> None:
        self._write(logging.INFO, event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self._write(logging.WARNING, event, facts)

    def error(self, event: str, **facts: object) -> None:
        self._write(logging.ERROR, event, facts)

    def exception(self, event: str, **facts: object) -> None:
        self._write(logging.ERROR, event, {"exc_info": True, **facts})

    def _write(self, level: int, event: str, facts: Mapping[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, render(event, facts), stacklevel=_FRAMES_TO_CALLER)


def render(event: str, facts: Mapping[str, object]) -> str:
    """The line, and below it the traceback of its `exc_info`; logins and masked keys are hidden."""
    visible = mask_secrets(
        truncate({name: value for name, value in facts.items() if name != "exc_info"})
    )
    assert isinstance(visible, dict)  # a mapping stays one  # noqa: S101
    words = [event, *(f"{name}={printable(str(value))}" for name, value in visible.items())]
    lines = [" ".join(words).replace("\n", "\\n"), *_traceback(facts.get("exc_info"))]
    return shorten(hide_logins("\n".join(lines)), MAX_LINE)


def _traceback(exc_info: object) -> list[str]:
    """The traceback without the values of variables."""
    match exc_info:
        case BaseException():
            lines = traceback.format_exception(exc_info)
        case tuple((_, BaseException() as exc, _)):
            lines = traceback.format_exception(exc)
        case None | False:
            return []
        case _:
            lines = [traceback.format_exc()]
    return [shorten("".join(lines).rstrip("\n"), MAX_TRACEBACK)]
