"""The defaults that docs/reference/contracts.md#other-defaults lists as others than the specifications', and those that are theirs."""

import re
from pathlib import Path

from router.config import Settings
from router.config.subscriptions import SUBSCRIPTIONS
from router.delivery.topology import ConsumerSpec
from router.mailbox.inbox.rules import InboxRules
from router.mailbox.streams import events_stream
from router.routing.extensions.entry import TIMEOUT_MS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "contracts.md"
THEIRS_MS = 5000
HOUR = 3600.0


def test_what_is_listed_differs_and_is_what_the_page_says() -> None:
    section = PAGE.read_text().partition('<a id="other-defaults"></a>')[2].partition("<a id=")[0]
    here = [row.split("|")[3].strip() for row in re.findall(r"^\| .*$", section, re.MULTILINE)[1:]]
    assert here == [str(TIMEOUT_MS), str(ConsumerSpec(stream="S", durable="d").max_deliver), str(events_stream("sea").replicas), "1 h"]
    assert events_stream("sea").duplicate_window == HOUR
    assert TIMEOUT_MS < THEIRS_MS


def test_the_attempts_and_waits_are_the_specifications() -> None:
    settings = Settings()
    counts = [spec.read_section(settings).max_attempts for spec in SUBSCRIPTIONS]
    assert sorted(counts) == [3, 3, 10]
    assert {spec.read_section(settings).backoff_ms for spec in SUBSCRIPTIONS} == {(1000, 2000, 4000)}
    assert (InboxRules().max_deliver, InboxRules().max_ack_pending) == (20, 50)
