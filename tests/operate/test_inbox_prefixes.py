"""The prefix of a requester's inbox names its role, and holds nothing that addresses an answer."""

import pytest

from router.operate.violations.recorder import InboxPrefixes

NUID = "x7GkQ2dRbWv9LmNpT4sYzA"
ROLES = InboxPrefixes(("_INBOX.", "_INBOX_gateway.", "_R_."))


@pytest.mark.parametrize(
    ("inbox", "prefix"),
    [
        (f"_INBOX.{NUID}.1", "_INBOX"),
        ("_INBOX.hunter2.secret", "_INBOX"),
        (f"_INBOX.hunter2.{NUID}", "_INBOX"),
        (f"_INBOX_gateway.one.{NUID}.1", "_INBOX_gateway.one"),
        (f"_INBOX_gateway.two.{NUID}", "_INBOX_gateway.two"),
        ("_INBOX_gateway.hunter2", "_INBOX_gateway"),
        ("_INBOX_gateway.one.short", "_INBOX_gateway"),
        ("$JS.API.STREAM.PURGE.X", None),
        ("", None),
        (None, None),
    ],
)
def test_it_is_the_configured_one_and_the_name_of_a_role(
    inbox: str | None, prefix: str | None
) -> None:
    assert ROLES.find(inbox) == prefix
