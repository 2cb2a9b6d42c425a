"""Every code that users meet, explained: what it means, what usually causes it, what to do.

    answers.toml         in answers to requests, calls and operators' services
    decisions.toml       in decisions: why this provider
    workers.toml         in workers' results and dead letters
    dead_letters.toml    in dead letters
    failures.toml        on standard error, in logs
    gateway.toml         in answers of the HTTP gateway
    operators.toml       the mailbox's policies, the doctor's verdicts, exit statuses
    header_rules.RULES   violations of the header contract: `trace_id.malformed`

The files are data for `router explain`; a test compares them with the codes in the source, in both
directions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import resources

import msgspec
from msgspec import Struct

from router.contracts.header_rules import RULES, HeaderRule

FILES = ("answers", "decisions", "workers", "dead_letters", "failures", "gateway", "operators")

# Where a code is met, in the order in which they are listed.
CODE_KINDS: Mapping[str, str] = {
    "answer": "In an answer: error.code, or its details.cause",
    "decision": "In a decision: reason",
    "admin": "In an answer of an operators' service",
    "http": "In an answer of the HTTP gateway: error.code",
    "worker": "In a worker's result or dead letter: error_code",
    "reason": "In a dead letter: reason",
    "validation": "In a dead letter: validation_error.code",
    "fault": "In a dead letter: last_error.code",
    "error": "On standard error, in logs, in a Python exception",
    "violation": "A violation of the header contract: header and rule",
    "policy": "A policy of the mailbox, or its error code",
    "verdict": "A verdict of `router doctor`",
    "exit": "An exit status of `router`",
}


class Code(Struct, frozen=True, forbid_unknown_fields=True):
    """One code. `kinds`: where it occurs; `usual`: causes, the likeliest first; `do`: what helps;
    `page`: the rule behind it.
    """

    code: str
    kinds: tuple[str, ...]
    means: str
    usual: tuple[str, ...]
    do: tuple[str, ...]
    page: str  # `docs/reference/contracts.md#replies`: `pages` reads its sentence


@cache
def read_codes() -> Mapping[str, Code]:
    """Read all codes, by name, in the order of the files."""
    return {
        code.code: code
        for code in (*(code for name in FILES for code in _read(name)), *map(_explain_rule, RULES))
    }


def find(name: str) -> Code | None:
    """Find a code, whatever its case: a dead letter's error_code is the upper case of its reason."""
    return read_codes().get(name) or next(
        (code for code in read_codes().values() if code.code.lower() == name.lower()), None
    )


def find_similar(name: str) -> list[str]:
    """Return codes with a similar name, the most similar first."""
    by_lower = {code.lower(): code for code in read_codes()}
    return [
        by_lower[lowered] for lowered in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    ]


def _explain_rule(rule: HeaderRule) -> Code:
    """What `router explain` says of a line of the header contract."""
    seen = (
        f"`router contract violations --since 1h --rule {rule.name} --by tenant,subject` names "
        "the senders"
    )
    means = f"A message breaks the header contract. {_name_subject(rule)} must be {rule.says}."
    return Code(
        rule.code,
        ("violation",),
        means,
        (f"{rule.usual}.",),
        (seen, rule.do),
        "docs/reference/contracts.md#violations",
    )


def _name_subject(rule: HeaderRule) -> str:
    return f"`{rule.header}`" if not rule.is_always else "Its " + rule.header


def _read(name: str) -> Iterable[Code]:
    table = tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))
    return msgspec.convert(table["code"], list[Code])
