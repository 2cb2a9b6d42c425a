"""When an inbox leaves its service alone: after failures in a row, or for a share of failed calls;
settings say both.
"""

import json

import pytest

from router.mailbox.inbox.event import InboxEvent, read_event
from router.mailbox.inbox_process import service_of
from router.sdk.samples.service import SampleService
from tests.support.inbox import a_message, a_service, an_id
from tests.support.service import settings_for

IN_A_ROW = 1_000  # so many that only the share can open it
SHARE_OFF = {"inbox__handler__minimum_calls": 1_000_000}


@pytest.mark.parametrize(
    ("rules", "calls", "is_left_alone"),
    [
        ({}, 10, True),  # half of ten calls, at the defaults
        (SHARE_OFF, 40, False),
        ({"inbox__handler__error_rate_threshold": 0.6}, 40, False),
        ({"inbox__handler__minimum_calls": 4}, 4, True),
    ],
)
async def test_the_share_of_failed_calls_that_leaves_a_service_alone_is_a_setting(
    rules: dict[str, object], calls: int, is_left_alone: bool
) -> None:
    """Each second call fails, so failures in a row never open it."""
    async with a_service(SampleService().app) as url:
        handler = service_of(
            settings_for(
                "nats://unused", inbox__handler__url=url, inbox__handler__failures=IN_A_ROW, **rules
            )
        )
        for number in range(calls):
            assert handler.unavailable is None
            await handler.answer(an_event(number, 503 if number % 2 else 200))
        assert (handler.unavailable is not None) is is_left_alone
        await handler.close()


def an_event(number: int, answer: int) -> InboxEvent:
    event = read_event(
        a_message(json.dumps({"answer": answer}).encode(), headers={"Nats-Msg-Id": an_id(number)})
    )
    assert isinstance(event, InboxEvent)
    return event
