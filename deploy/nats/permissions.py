"""The permissions that follow from the router's subscriptions: `python deploy/nats/permissions.py`
writes them into accounts.conf.

It writes what stands between `# subscriptions of …` and `# end of subscriptions`; a test compares
the file with the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from router.config import SUBSCRIPTIONS, Settings, SubscriptionSpec
from router.contracts.dead_letter import dead_letter_subject
from router.delivery.settings import ConsumerConfig

ACCOUNTS = Path(__file__).parent / "accounts.conf"
BLOCK = re.compile(
    r"^( *)# subscriptions of (.+?) \(.*\n(?:.*\n)*?(?= *# end of subscriptions)", re.MULTILINE
)

Specs = Sequence[SubscriptionSpec[ConsumerConfig]]


def write(accounts: str, settings: Settings, specs: Specs = SUBSCRIPTIONS) -> str:
    """The text of accounts.conf with its blocks made anew."""

    def write_block(found: re.Match[str]) -> str:
        indent, whose = found.groups()
        lines = "".join(
            f"{indent}{', '.join(map(_quote, line))}\n"
            for line in list_permissions(whose, settings, specs)
        )
        return found[0].partition("\n")[0] + "\n" + lines

    return BLOCK.sub(write_block, accounts)


def list_permissions(whose: str, settings: Settings, specs: Specs) -> Iterator[tuple[str, ...]]:
    """Line by line. `whose`: the router | a role that sends messages | operators | operators, denied."""
    for spec in specs:
        section, stream, attempts = (
            spec.read_section(settings),
            spec.read_stream(settings).name,
            settings.buckets.attempts.name,
        )
        durable = f"{stream}.{section.durable}"
        if whose == "the router":
            yield (
                f"$JS.API.STREAM.INFO.{stream}",
                f"$JS.API.CONSUMER.INFO.{durable}",
                f"$JS.API.CONSUMER.MSG.NEXT.{durable}",
            )
            yield (
                f"$JS.ACK.{durable}.>",
                f"$KV.{attempts}.{stream}.>",
                dead_letter_subject(section.subject, settings.dlq.subject_pattern),
            )
        elif whose == "operators, denied":
            yield f"$JS.API.CONSUMER.MSG.NEXT.{durable}", f"$JS.API.CONSUMER.DELETE.{durable}"
        elif whose == "operators":
            yield section.taken_subject, f"$JS.API.CONSUMER.MSG.NEXT.{stream}.*"
        elif whose == f"the {spec.sender}":
            yield (section.taken_subject,)


def _quote(subject: str) -> str:
    return f'"{subject}"'


if __name__ == "__main__":
    ACCOUNTS.write_text(write(ACCOUNTS.read_text(), Settings()))
