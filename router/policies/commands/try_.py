"""`router policy lint` and `try`: no policy of a router changes.

lint     check documents before a router reads them; no server is asked
try      what a candidate would decide, and what it would change; what `PolicyTrial` found is
         printed first
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from msgspec import structs, to_builtins

from router.contracts.decision import Decision, RouteRequest
from router.core.message import NO_HEADERS, Message
from router.core.outcome import Fault
from router.decide.model import read
from router.decide.model.recorder import encode_answer
from router.decide.views import TRACE_STEPS, describe_answer
from router.operate.admin.broadcast import request_from_all
from router.operate.admin.service import ADMIN
from router.policies.commands.list_show import refuse
from router.policies.model import (
    SHARED,
    ParsedPolicy,
    Policy,
    PolicyError,
    TraceStep,
    evaluate,
    load_policy,
)
from router.policies.model import lint as findings_of
from router.policies.store import check_policy
from router.policies.trial import (
    SIDES,
    PolicyTrial,
    combine_answers,
    describe_choice,
    list_sentences,
)
from router.shell import exit_codes
from router.shell.broadcast import report_failure
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.output import print_table, print_view, printable
from router.shell.view import View, ViewColumn

# -- `router policy try`.

TRY_SERVICE = "try_policy"
MAX_CASES = 1000

JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--request",
        metavar="FILE",
        help="Decide this one request here, without a router.",
        exists=True,
        dir_okay=False,
    ),
]


@command()
async def try_(
    session: CommandSession,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The candidate.", exists=True, dir_okay=False)
    ],
    *,
    tenant: Annotated[
        str | None,
        typer.Option(help="The tenant of the policy. Default: the name of FILE's directory."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="The policy's id. Default: the name of FILE.")
    ] = None,
    against: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Compare with the last N recorded decisions of a running router.",
            min=1,
            max=MAX_CASES,
        ),
    ] = None,
    request: JsonFile = None,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="How long to wait for the instances.", min=0.001
        ),
    ] = 5.0,
) -> int:
    """Try a policy before it is written. Nothing is stored.

    --against N: the candidate decides again what every instance recorded last (the setting
    `recorder.tenants`). The random draw is the same, so an identical candidate changes nothing.
    Only the choice is compared: no extensions, no rate limits. A strategy looks at what was learned
    of the providers when each was recorded. Shares, expected latency and cost stand beside today's.

    Exit status: 0 nothing would change, 1 a decision would, or the candidate cannot be used, or
    there is nothing to compare it with, 2 wrong use, 3 no answer. With --request: 0 decided, 1
    refused.

    Example:  router policy try ./policies/acme/default.json --against 500
    """
    if (against is None) == (request is None):
        raise typer.BadParameter("give --against N or --request FILE")
    candidate = _read_candidate(
        file, tenant or file.resolve().parent.name, policy or file.stem, session.as_json
    )
    if request is not None:
        return _decide(session, candidate.policy, _read_request(request))
    return await _compare(session, candidate, against or 1, timeout_s, is_guessed=tenant is None)


def _read_candidate(file: Path, tenant: str, policy: str, as_json: bool) -> ParsedPolicy:
    """Check the candidate as `put` does: an error ends the command, a warning is only printed."""
    try:
        parsed = check_policy(file.read_bytes(), tenant, policy)
    except PolicyError as exc:
        raise typer.Exit(refuse(exc, str(file), as_json)) from None
    for finding in (*parsed.warnings, *findings_of(parsed.policy)):
        exit_codes.complain(f"{file}: {finding.severity}: {finding.path}: {finding.message}")
    return parsed


async def _compare(
    session: CommandSession,
    candidate: ParsedPolicy,
    against: int,
    timeout_s: float,
    *,
    is_guessed: bool,
) -> int:
    """`is_guessed`: the tenant is the directory's name, not an option."""
    owner, name = candidate.policy.tenant_id, candidate.policy.policy_id
    asked = {
        "tenant_id": owner,
        "policy_id": name,
        "policy": candidate.document,
        "against": against,
    }
    connection = (await session.open_jetstream()).connection
    answers = await request_from_all(
        connection, session.settings.admin.api_key, ADMIN + TRY_SERVICE, asked, timeout_s
    )
    if not answers.successful:
        return report_failure(answers)
    trial = combine_answers(answers.successful, against, answers.missing)
    if trial.total == 0:
        is_recorded = any(answer["is_recorded"] for answer in answers.successful)
        return exit_codes.refuse(
            _describe_empty(owner, name, is_recorded=is_recorded, is_guessed=is_guessed)
        )
    session.emit_one(list_trial_fields(trial), lambda: print_trial(trial))
    return exit_codes.NO if trial.changed else exit_codes.OK


def _describe_empty(owner: str, name: str, *, is_recorded: bool, is_guessed: bool = False) -> str:
    hint = (
        f"; the tenant is {owner} because FILE's directory is called so: --tenant says another"
        if is_guessed
        else ""
    )
    if is_recorded:
        return f"no decision by {owner}/{name} is recorded yet{hint}"
    if owner == SHARED:
        return (
            "no decisions are recorded: name tenants in the setting recorder.tenants of the "
            f"router{hint}"
        )
    return (
        f"no decisions of {owner} are recorded: name it in the setting recorder.tenants of the "
        f"router{hint}"
    )


def _read_request(file: Path) -> RouteRequest:
    asked = read(
        Message("try", file.read_bytes(), NO_HEADERS, "", "", 0, time.time_ns(), 1, "")
    ).asked
    if isinstance(asked, Fault):
        exit_codes.complain(f"{file}: {asked.message}")
        raise typer.Exit(exit_codes.USAGE)
    return asked


def _decide(session: CommandSession, policy: Policy, request: RouteRequest) -> int:
    """Decide as a router does that has no figures of the providers yet."""
    trace: list[TraceStep] = []
    answer = evaluate(policy, request, now=0.0, trace=trace)
    fields = encode_answer(answer)
    steps = to_builtins(trace)
    session.emit_one(
        {**fields, "trace": steps},
        lambda: print_view(steps, TRACE_STEPS),
    )
    if not session.as_json:
        print(printable(describe_answer(fields)))
    return exit_codes.OK if isinstance(answer, Decision) else exit_codes.NO


# -- `router policy lint`.


class Remark(NamedTuple):
    """`path`: the place inside the document."""

    file: str
    severity: str
    path: str
    message: str


REMARKS = View(
    ViewColumn("file"),
    ViewColumn("severity", ""),
    ViewColumn("path", "where"),
    ViewColumn("message", "what"),
    fields=Remark._asdict,
)


@command(skip_settings)
def lint(
    session: CommandSession,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR",
            help="A policy, or a directory of <tenant>/<policy>.json.",
            exists=True,
        ),
    ],
) -> int:
    """Check policies: errors keep a policy from being used, warnings look wrong. Exit status: 1
    when there is an error.

    Example:  router policy lint ./policies
    """
    documents = list(_list_documents(path))
    if not documents:  # a wrong path far more often than a wish to check nothing
        raise typer.BadParameter(f"{path}: there is no policy in it", param_hint="FILE|DIR")
    remarks = [remark for file, name in documents for remark in _check_document(file, name)]
    session.emit(remarks, REMARKS, empty="nothing to say against it")
    has_error = any(remark.severity == "error" for remark in remarks)
    return exit_codes.NO if has_error else exit_codes.OK


def _list_documents(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files, and the name of each in the output."""
    if path.is_file():
        yield path, str(path)
        return
    for file in sorted(path.rglob("*")):
        if file.is_file():
            yield file, str(file.relative_to(path))


def _check_document(file: Path, name: str) -> Iterator[Remark]:
    if file.suffix != ".json":
        yield Remark(name, "error", "", "is not a document's name: <tenant>/<policy>.json")
        return
    try:
        parsed = load_policy(file.read_bytes(), file.resolve().parent.name, file.stem)
    except PolicyError as exc:
        yield from (Remark(name, "error", where, what) for where, what in exc.errors)
        return
    except OSError as exc:
        yield Remark(name, "error", "", f"cannot be read: {exc.strerror}")
        return
    for finding in (*parsed.warnings, *findings_of(parsed.policy)):
        yield Remark(name, finding.severity, finding.path, finding.message)


# -- What a candidate would change, for people and for programs.

PAIRS = ("before", "after", "requests")
SHARES = ("provider", "share", "with the candidate")
UNCERTAINTIES = ("request", "why it cannot be compared")


def print_trial(trial: PolicyTrial) -> None:
    if trial.changed:
        print_view(trial.changed, CHANGES)
        print_table(
            PAIRS, ((before, after, count) for (before, after), count in trial.pairs.items())
        )
    print_table(
        SHARES,
        ((share.provider, f"{share.before:.1%}", f"{share.after:.1%}") for share in trial.shares),
    )
    if all(trial.expected.get(side) for side in SIDES):
        print(
            f"expected latency {_describe_means(trial, 'latency_ms', ' ms')}, expected "
            f"cost {_describe_means(trial, 'cost', '')}"
        )
    if trial.unclear:
        print_table(
            UNCERTAINTIES,
            ((unclear["request_id"], unclear["uncertainty"]) for unclear in trial.unclear),
        )
    print(f"{'. '.join(list_sentences(trial))}.")


def _describe_means(trial: PolicyTrial, name: str, unit: str) -> str:
    return " -> ".join(f"{trial.expected[side][name]:.4g}{unit}" for side in SIDES)


def list_trial_fields(trial: PolicyTrial) -> dict[str, object]:
    pairs = [
        {"before": before, "after": after, "requests": count}
        for (before, after), count in trial.pairs.items()
    ]
    shares = [structs.asdict(share) for share in trial.shares]
    return {
        **{name: getattr(trial, name) for name in trial.__struct_fields__},
        "shares": shares,
        "pairs": pairs,
    }


def _format_ms(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


CHANGES = View(
    ViewColumn("decided", of="at_ms", tell=_format_ms),
    ViewColumn("tenant", of="tenant_id"),
    ViewColumn("request", of="request_id"),
    ViewColumn("before", tell=describe_choice),
    ViewColumn("after", tell=describe_choice),
)
