"""What a command says if the instances of a router refuse a request, or do not answer it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.core.errors import NoRouter
from router.operate.admin.broadcast import InstanceAnswers
from router.shell import exit_codes


def report_failure(answers: InstanceAnswers) -> int:
    """Print on standard error why no answer can be used; return the exit status. Raises NoRouter if
    no instance answered.
    """
    if not answers.answers:
        raise NoRouter("no router answered: is one running here, with admin.enabled?")
    for text in dict.fromkeys(map(describe_error, answers.errors)):
        exit_codes.complain(text)
    if answers.missing:
        exit_codes.complain(
            f"{answers.missing} of {answers.instances} instances did not answer in time: "
            "--timeout gives them longer"
        )
    return exit_codes.NO


def describe_error(error: Mapping[str, Any]) -> str:
    """Write a service's error as one line, with a hint if the operator can solve it."""
    hint = (
        ": give it as the setting admin.api_key (ROUTER_ADMIN__API_KEY)"
        if error.get("code") == "unauthorized"
        else ""
    )
    return f"{error.get('code')}: {error.get('message')}{hint}"
