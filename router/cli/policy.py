"""`router policy`: documents looked at before a router sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from router.cli import ends
from router.cli.options import AsJson
from router.cli.output import print_json, print_lines, print_table

policy = typer.Typer(no_args_is_help=True, help="Policies: checked and shown.", rich_markup_mode="rich")

Remark = tuple[str, str, str, str]  # file, severity, path inside the document, message
COLUMNS = ("file", "", "where", "what")


@policy.command()
def lint(
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="A policy, or a directory of <tenant>/<policy>.json.", exists=True)],
    as_json: AsJson = False,
) -> None:
    """Check policies: errors keep a policy from being used, warnings look wrong. Exit status: 1 when there is an error.

    Example:  router policy lint ./policies
    """
    remarks = [remark for file, name in _documents(path) for remark in _remarks(file, name)]
    if as_json:
        print_lines(dict(zip(("file", "severity", "path", "message"), remark, strict=True)) for remark in remarks)
    elif remarks:
        print_table(COLUMNS, remarks)
    else:
        print("nothing to say against it")
    raise typer.Exit(ends.NO if any(severity == "error" for _, severity, _, _ in remarks) else ends.OK)


@policy.command()
def show(
    tenant: Annotated[str, typer.Argument(help="The tenant that asks.")],
    name: Annotated[str, typer.Argument(metavar="POLICY", help="The policy's id.")],
    policies: Annotated[Path, typer.Option(metavar="DIR", help="Directory of policies.", exists=True, file_okay=False)],
    as_json: AsJson = False,
) -> None:
    """Show the policy that a tenant's request would meet: its own, or the shared one, in the newest form of a document.

    Exit status: 0 shown, 1 there is none or it cannot be used.

    Example:  router policy show acme default --policies ./policies
    """
    from router import ids
    from router.policy import SHARED, PolicyError, load_policy

    if not (ids.is_scoped(tenant) and ids.is_scoped(name)):
        raise typer.BadParameter("a tenant and a policy are ids: A-Z a-z 0-9 _ . : - without . or _ in front")
    for owner in (tenant, SHARED):
        file = policies / owner / f"{name}.json"
        if file.is_file():
            try:
                parsed = load_policy(file.read_bytes(), owner, name)
            except PolicyError as exc:
                ends.complain(f"{file}: {exc}")
                raise typer.Exit(ends.NO) from None
            print_json({"tenant": owner, "policy": name, "document": parsed.document} if as_json else parsed.document)
            return
    ends.complain(f"policy_not_found: neither {tenant}/{name}.json nor {SHARED}/{name}.json is in {policies}")
    raise typer.Exit(ends.NO)


def _documents(path: Path) -> Iterator[tuple[Path, str]]:
    """Files, and how each is called in the output."""
    if path.is_file():
        yield path, str(path)
        return
    for file in sorted(path.rglob("*")):
        if file.is_file():
            yield file, str(file.relative_to(path))


def _remarks(file: Path, name: str) -> Iterator[Remark]:
    from router.policy import PolicyError, load_policy
    from router.policy import lint as findings_of

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
