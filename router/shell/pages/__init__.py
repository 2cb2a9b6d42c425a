"""The pages, in the order of the navigation. Each is a function that reads, by the functions of the
commands, and returns a `Page`.
"""

from router.decide.page import read_decisions
from router.extensions.page import read_extensions, read_providers
from router.gateway.keys.page import read_keys
from router.lake.page import read_usage
from router.operate.pages.dead_letters import read_dead_letter, read_dead_letters
from router.operate.pages.doctor import read_doctor, read_settings, read_topology
from router.policies.page import read_policies, read_policy
from router.serve.contract.page import (
    read_channels,
    read_contract,
    read_message,
    read_rules,
    read_violation_page,
)
from router.shell.page_data import PageSpec, Scope
from router.shell.pages.now import read_alerts, read_answers, read_backlog, read_work
from router.work.page import read_assignment, read_assignments, read_workers

PAGES = (
    PageSpec(
        "/dead-letters",
        read_dead_letters,
        "Dead letters",
        "l",
        ("show", "subject", "reason", "code", "tenant", "since"),
        scope=Scope.ASKED,
    ),
    PageSpec("/dead-letters/{sequence}", read_dead_letter, scope=Scope.SHOWN),
    PageSpec(
        "/contract",
        read_contract,
        "Contract",
        "c",
        ("tenant", "subject", "rule", "since", "by"),
        scope=Scope.ASKED,
    ),
    PageSpec("/contract/channels", read_channels, scope=Scope.ASKED),
    PageSpec("/contract/rules", read_rules, scope=Scope.ASKED),
    PageSpec("/contract/messages/{message}", read_message, scope=Scope.ASKED),
    PageSpec("/contract/{sequence}", read_violation_page, scope=Scope.SHOWN),
    PageSpec("/doctor", read_doctor, "Doctor", "d"),
    PageSpec("/doctor/topology", read_topology),
    PageSpec("/doctor/settings", read_settings),
    PageSpec(
        "/decisions",
        read_decisions,
        "Decisions",
        "e",
        ("tenant", "request_id", "message_id", "provider"),
        scope=Scope.ASKED,
    ),
    PageSpec("/policies", read_policies, "Policies", "p", ("tenant",), scope=Scope.ASKED),
    PageSpec(
        "/policies/{tenant}/{policy}", read_policy, asks=("version", "against"), scope=Scope.PATH
    ),
    PageSpec("/extensions", read_extensions, "Extensions", "x"),
    PageSpec("/extensions/providers", read_providers, asks=("tenant",)),
    PageSpec("/keys", read_keys, "Keys", "k", ("tenant",), scope=Scope.ASKED),
    PageSpec(
        "/assignments",
        read_assignments,
        "Assignments",
        "a",
        ("tenant", "status"),
        scope=Scope.ASKED,
    ),
    PageSpec("/assignments/{assignment}", read_assignment, scope=Scope.SHOWN),
    PageSpec("/workers", read_workers, "Workers", "w", ("tenant",), scope=Scope.ASKED),
    PageSpec("/now/answers", read_answers),
    PageSpec("/now/work", read_work),
    PageSpec("/now/backlog", read_backlog),
    PageSpec("/now/alerts", read_alerts),
    PageSpec(
        "/usage",
        read_usage,
        "Usage",
        "u",
        ("by", "from", "to", "tenant", "provider"),
        scope=Scope.ASKED,
    ),
)

__all__ = ["PAGES"]
