"""What an inbox counts: each message once, by what became of it
(`router_inbox_handled_total{code}`).
"""

from typing import cast

from msgspec.structs import replace

from router.core.outcome import PROCESSING_ERROR, Dead, Done, Fault, Hold, Retry
from router.mailbox.inbox.adapter import InboxStatusWriter
from router.mailbox.inbox.observer import CODES, InboxObserver
from tests.support.inbox import a_message

FAULT = Fault("handler_transient", "503")


class Unwritten:
    """A status writer whose marks no test reads."""

    def write(self, mark: object) -> None: ...


def a_watch() -> InboxObserver:
    return InboxObserver("sea__from_vibespro", cast(InboxStatusWriter, Unwritten()))


def counted(watch: InboxObserver) -> dict[str, int]:
    return {code: count for code, count in watch.codes.items() if count}


def test_every_code_is_told_from_the_start() -> None:
    """A rate needs a zero to begin from: the first dead letter must show."""
    assert a_watch().codes == dict.fromkeys(CODES, 0)


def test_each_end_has_its_code() -> None:
    watch = a_watch()
    watch.on_settled(a_message(), Done(), True)
    watch.on_settled(a_message(), Hold(FAULT), False)
    watch.on_settled(a_message(), Dead(FAULT, PROCESSING_ERROR), True)
    watch.on_settled(a_message(), Retry(FAULT), True)
    watch.on_recovered("stranded")
    ends = ("processed", "transient", "processing_error", "maxdeliver_exhausted", "stranded")
    assert counted(watch) == dict.fromkeys(ends, 1)


def test_a_duplicate_is_not_counted_as_processed_and_the_next_message_is() -> None:
    watch, again = a_watch(), a_message()
    watch.on_duplicate(again)
    watch.on_settled(again, Done(), True)
    watch.on_settled(replace(again, sequence=8), Done(), True)
    assert counted(watch) == {"duplicate": 1, "processed": 1}
    assert watch._known == set()


def test_a_stream_made_anew_is_not_taken_for_the_old_one() -> None:
    watch, old = a_watch(), a_message()
    watch.on_duplicate(old)
    watch.on_settled(replace(old, stored_ns=old.stored_ns + 1), Done(), True)
    assert counted(watch) == {"processed": 1}


def test_a_duplicate_that_ends_in_the_dead_letters_is_forgotten() -> None:
    watch, again = a_watch(), a_message()
    watch.on_duplicate(again)
    watch.on_settled(again, Dead(FAULT, PROCESSING_ERROR), True)
    assert watch._known == set()
