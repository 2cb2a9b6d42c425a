"""One result of a check: what was found, how bad it is, and what to do."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"  # it works, with a risk
    FAIL = "fail"  # it does not work, or messages are being lost


class Finding(Struct, frozen=True):
    """`remedy` is empty when all is well."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check, Verdict.OK, found)


def warn(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.WARN, found, remedy)


def fail(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.FAIL, found, remedy)
