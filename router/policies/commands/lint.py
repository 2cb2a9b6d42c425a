"""`router policy lint`: check documents before a router reads them. No server is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings

Remark = tuple[str, str, str, str]  # file, severity, path inside the document, message
COLUMNS = ("file", "", "where", "what")
FIELDS = ("file", "severity", "path", "message")


@command(skip_settings)
def lint(
    session: CommandSession,
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="A policy, or a directory of <tenant>/<policy>.json.", exists=True)],
) -> int:
    """Check policies: errors keep a policy from being used, warnings look wrong. Exit status: 1 when there is an error.

    Example:  router policy lint ./policies
    """
    documents = list(_list_documents(path))
    if not documents:  # a wrong path far more often than a wish to check nothing
        raise typer.BadParameter(f"{path}: there is no policy in it", param_hint="FILE|DIR")
    remarks = [remark for file, name in documents for remark in _check_document(file, name)]
    session.emit(remarks, COLUMNS, tuple, lambda remark: dict(zip(FIELDS, remark, strict=True)), empty="nothing to say against it")
    return exit_codes.NO if any(severity == "error" for _, severity, _, _ in remarks) else exit_codes.OK


def _list_documents(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files, and the name of each in the output."""
    if path.is_file():
        yield path, str(path)
        return
    for file in sorted(path.rglob("*")):
        if file.is_file():
            yield file, str(file.relative_to(path))


def _check_document(file: Path, name: str) -> Iterator[Remark]:
    from router.policies.model import PolicyError, load_policy
    from router.policies.model import lint as findings_of

    if file.suffix != ".json":
        yield name, "error", "", "is not a document's name: <tenant>/<policy>.json"
        return
    try:
        parsed = load_policy(file.read_bytes(), file.resolve().parent.name, file.stem)
    except PolicyError as exc:
        yield from ((name, "error", where, what) for where, what in exc.errors)
        return
    except OSError as exc:
        yield name, "error", "", f"cannot be read: {exc.strerror}"
        return
    for finding in (*parsed.warnings, *findings_of(parsed.policy)):
        yield name, finding.severity, finding.path, finding.message
