"""`router contract headers`: the header contract as a table. No server is asked."""

from __future__ import annotations

from msgspec import Struct

from router.shell.command_frame import CommandSession, command, skip_settings


class HeaderLine(Struct, frozen=True):
    """One rule."""

    header: str
    rule: str
    says: str
    subjects: tuple[str, ...]


@command(skip_settings)
def headers(session: CommandSession) -> None:
    """Print the rules of the header contract: a message that carries a contract header must keep all of them. No server is asked.

    Example:  router contract headers
    """
    from router.contracts.header_rules import describe

    session.emit(
        [HeaderLine(*rule) for rule in describe()],
        ("header", "violation", "the header is", "subjects"),
        lambda line: (line.header, line.rule, line.says, "\n".join(line.subjects)),
        empty="there is no rule",
    )
