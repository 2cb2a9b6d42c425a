"""The frame of every command: its options for settings and output, its session, and its exit
status.

    @command()                                      adds --nats-url, --config, --json
    async def history(session: CommandSession, tenant: Tenant, name: Name) -> int | None:
        jetstream = await session.open_jetstream()  closed by the frame
        ...
        session.emit(changes, HISTORY, empty="…")  a table, or with --json lines of JSON
        return None if changes else exit_codes.NO   None is 0

A command is a function, or a coroutine function, of a `CommandSession` and its own options. `load`
reads its settings: the parameters of `load` become options of the command, and so does --json
unless `has_json` is false. A parameter that both name is one option, and both get it. An error that
the package knows becomes one line on standard error and an exit status.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable
from functools import partial, wraps
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Concatenate

import typer

from router.core.errors import NoRouter
from router.shell import exit_codes
from router.shell.options import AsJson
from router.shell.session import CommandSession, load_settings, skip_settings

if TYPE_CHECKING:
    from router.config import Settings

__all__ = ["CommandSession", "command", "skip_settings"]

Status = int | None
Work = Callable[Concatenate[CommandSession, ...], Status | Coroutine[Any, Any, Status]]
Load = Callable[..., "Settings"]

JSON_PARAMETER = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
MOST = 2**53
COPIED = ("__module__", "__name__", "__qualname__", "__doc__")


def command(
    load: Load = load_settings, *, has_json: bool = True
) -> Callable[[Work], Callable[..., None]]:
    """Return the decorator of a command; `skip_settings` is the loader of one that needs none."""
    settings = {
        parameter.name: parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in _read_parameters(load)
    }
    shared = {**settings, **({JSON_PARAMETER.name: JSON_PARAMETER} if has_json else {})}

    def decorate(work: Work) -> Callable[..., None]:
        own = {parameter.name: parameter for parameter in _read_parameters(work)[1:]}

        @wraps(work, assigned=COPIED)
        def run(**given: Any) -> None:
            _check_numbers(given.values())
            session = CommandSession(
                partial(load, **{name: given[name] for name in settings}),
                as_json=given.get(JSON_PARAMETER.name, False),
            )
            with exit_codes.report_errors():
                result = work(session, **{name: given[name] for name in own})
                status = (
                    exit_codes.run(_finish(session, result))
                    if isinstance(result, Coroutine)
                    else result
                )
            if status:
                raise typer.Exit(status)

        run.__signature__ = Signature(  # type: ignore[attr-defined]
            [*own.values(), *(parameter for name, parameter in shared.items() if name not in own)]
        )
        run.__annotations__ = {}  # typer reads the signature
        return run

    return decorate


def _check_numbers(values: Iterable[object]) -> None:
    """Raises BadParameter for infinity, and for a number that JSON does not hold exactly: no option
    means one.
    """
    for value in values:
        for number in value if isinstance(value, list) else (value,):
            if isinstance(number, (int, float)) and not -MOST <= number <= MOST:
                raise typer.BadParameter(f"{number} is not a number from -2^53 to 2^53")


def _read_parameters(function: Callable[..., object]) -> list[Parameter]:
    """Return the parameters with their annotations as values; `Settings` is named by loaders only,
    and would be slow to import.
    """
    return [
        *inspect.signature(function, eval_str=True, locals={"Settings": object}).parameters.values()
    ]


async def _finish(session: CommandSession, work: Coroutine[Any, Any, Status]) -> int:
    try:
        return await work or (
            exit_codes.NOT_AUDITED if session.has_unstored_audit else exit_codes.OK
        )
    except NoRouter as exc:
        if (missing := await session.find_missing_jetstream()) is not None:
            raise exc from missing  # without JetStream no router can run
        raise
    finally:
        await session.close()
