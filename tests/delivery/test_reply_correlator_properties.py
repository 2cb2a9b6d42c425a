"""One instance, one stream that drops duplicates: whatever clients send, no inbox is answered
twice, and none is left out.

One kind may be left out: other bytes under an id that was used twice before them, dropped by the
stream because of the second use and heard after the first one's answer is forgotten. Its sender
broke the rule that ids are for.

The model: a request is heard at once or a little later; the stream stores it unless it stored the
same id within its window (which the server lets end a little late); a stored copy is decided a
little later.
"""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from router.delivery.replies.identical import IdenticalRequests
from router.delivery.replies.reply_correlator import (
    CorrelatorRules,
    ReplyCorrelator,
    RequestIdentity,
)

WINDOW = 0.1
RULES = CorrelatorRules(dedupe_window=WINDOW)


@dataclass(frozen=True)
class Sent:
    """A request: when, what, and how long it takes to be heard and to be decided (seconds)."""

    at: float
    msg_id: str | None
    data: bytes
    heard_after: float
    decided_after: float
    dedupe_slack: float


def milliseconds(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(lambda ms: ms / 1000)


def requests(ids: st.SearchStrategy[str | None], *bodies: bytes) -> st.SearchStrategy[list[Sent]]:
    one = st.builds(
        Sent,
        at=milliseconds(0, 1500),
        msg_id=ids,
        data=st.sampled_from(bodies),
        heard_after=milliseconds(0, 40),
        decided_after=milliseconds(0, 80),
        dedupe_slack=milliseconds(0, 20),
    )
    return st.lists(one, min_size=1, max_size=8)


def answers_to(sent: list[Sent]) -> Counter[str]:
    """How many answers each inbox got; the n-th request's inbox is named n."""
    told: Counter[str] = Counter()
    rendezvous = ReplyCorrelator(
        lambda inbox, _: told.update([inbox]), lambda *_: b"conflict", rules=RULES
    )
    events = [(at / 20, 2, -1) for at in range(60)]  # ticks
    events += [(request.at + request.heard_after, 0, number) for number, request in enumerate(sent)]
    events += [(sent[number].at + sent[number].decided_after, 1, number) for number in stored(sent)]
    for now, kind, number in sorted(events):
        if kind == 2:
            rendezvous.tick(now)
            continue
        question = RequestIdentity(sent[number].msg_id, "t", sent[number].data)
        if kind == 0:
            rendezvous.add_request(question, str(number), now)
        else:
            rendezvous.reply(question, b"yes", lambda: None, may_wait=True, now=now)
    return told


def stored(sent: list[Sent]) -> list[int]:
    newest: dict[str, float] = {}
    kept = []
    for number in sorted(range(len(sent)), key=lambda number: sent[number].at):
        request = sent[number]
        if (
            request.msg_id is None
            or request.at - newest.get(request.msg_id, -1.0) > WINDOW + request.dedupe_slack
        ):
            kept.append(number)
            if request.msg_id is not None:
                newest[request.msg_id] = request.at
    return kept


def once_each(sent: list[Sent]) -> Counter[str]:
    return Counter(str(number) for number in range(len(sent)))


@settings(max_examples=150, deadline=None)
@given(requests(st.sampled_from(["a", "b"]), b"x"))
def test_with_ids_every_inbox_is_answered_exactly_once(sent: list[Sent]) -> None:
    assert answers_to(sent) == once_each(sent)


@settings(max_examples=150, deadline=None)
@given(requests(st.just("a"), b"x", b"y"))
def test_with_other_bytes_under_one_id_none_is_answered_twice_and_whatever_is_stored_is_answered(
    sent: list[Sent],
) -> None:
    answers = answers_to(sent)
    assert set(answers.values()) <= {1}
    assert {str(number) for number in stored(sent)} <= set(answers)


@settings(max_examples=120, deadline=None)
@given(requests(st.none(), b"x", b"y"))
def test_without_ids_every_inbox_is_answered_exactly_once(sent: list[Sent]) -> None:
    assert answers_to(sent) == once_each(sent)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.tuples(milliseconds(0, 40), milliseconds(0, 80), st.integers(0, 1)),
        min_size=1,
        max_size=8,
    )
)
def test_without_ids_no_inbox_of_two_instances_is_left_out(
    sent: list[tuple[float, float, int]],
) -> None:
    """Both hear every request, one of them decides it: sooner, perhaps, than it hears who asked."""
    told: Counter[str] = Counter()
    both = [
        ReplyCorrelator(lambda inbox, _: told.update([inbox]), lambda _: b"", rules=RULES)
        for _ in range(2)
    ]
    question = RequestIdentity(None, "t", b"x")
    events = [(at / 20, 2, -1) for at in range(60)]
    for number, (heard_after, decided_after, _) in enumerate(sent):
        events += [(number / 10 + heard_after, 0, number), (number / 10 + decided_after, 1, number)]
    for now, kind, number in sorted(events):
        for instance, rendezvous in enumerate(both):
            if kind == 2:
                rendezvous.tick(now)
            elif kind == 0:
                rendezvous.add_request(question, str(number), now)
            elif instance == sent[number][2]:
                rendezvous.reply(question, b"yes", lambda: None, may_wait=True, now=now)
    assert set(told) == {str(number) for number in range(len(sent))}


# -- several instances that hear one another -------------------------------------------------------


class Fleet:
    """Instances that hear every request in one order, and one another; a stored copy is decided by
    one of them.
    """

    def __init__(self, count: int) -> None:
        self.told: Counter[str] = Counter()
        self.instances = [self._instance(at) for at in range(count)]
        self.tick(0.0)

    def _instance(self, at: int) -> ReplyCorrelator:
        def tell(lines: list[str]) -> None:
            for place, other in enumerate(getattr(self, "instances", ())):
                if place != at:
                    other.identical.meet_other(str(at), self.now)
                    for line in lines:
                        other.forget(line)

        identical = IdenticalRequests(tell)
        identical.shift = 100 - at  # each began to listen at another time
        return ReplyCorrelator(
            lambda inbox, _: self.told.update([inbox]),
            lambda _: b"",
            rules=RULES,
            identical=identical,
        )

    def tick(self, now: float) -> None:
        self.now = now
        for instance in self.instances:
            instance.tick(now)

    def ask(self, number: int, now: float, hears: int) -> None:
        one = self.instances[hears]
        one.add_request(QUESTION, str(number), now, number + 1 + hears)

    def answer(self, number: int, now: float, decides: int) -> None:
        self.now = now
        self.instances[decides].reply(
            QUESTION, b"yes", lambda: None, may_wait=True, now=now, sequence=101 + number
        )


QUESTION = RequestIdentity(None, "t", b"x")
COPIES = st.lists(st.tuples(milliseconds(0, 80), st.integers(0, 3)), min_size=1, max_size=12)


@settings(max_examples=120, deadline=None)
@given(COPIES, milliseconds(0, 30))
def test_identical_requests_of_a_fleet_are_answered_once_each(
    sent: list[tuple[float, int]], apart: float
) -> None:
    """Heard by all in one order, decided by any of four in any order."""
    fleet = Fleet(4)
    events = [(0.05 + at / 20, 2, -1) for at in range(40)]
    for number, (decided_after, _) in enumerate(sent):
        events += [
            (0.06 + number * apart, 0, number),
            (0.06 + number * apart + decided_after, 1, number),
        ]
    for now, kind, number in sorted(events):
        if kind == 2:
            fleet.tick(now)
        elif kind == 0:
            for hears in range(4):
                fleet.ask(number, now, hears)
        else:
            fleet.answer(number, now, sent[number][1])
    assert set(fleet.told) == {str(number) for number in range(len(sent))}
    assert max(fleet.told.values()) <= 2
    # the first one is like no other as long as it is the only one
    assert fleet.told.total() <= len(sent) + 1


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.tuples(
            milliseconds(0, 40),
            st.lists(milliseconds(0, 40), min_size=3, max_size=3),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_none_of_a_fleet_is_left_out_whatever_order_its_instances_hear(
    sent: list[tuple[float, list[float], int]],
) -> None:
    fleet = Fleet(3)
    heard = [0] * 3
    events = [(0.05 + at / 20, 2, -1, 0) for at in range(60)]
    for number, (decided_after, heard_after, _) in enumerate(sent):
        events += [
            (0.06 + number / 100 + after, 0, number, hears)
            for hears, after in enumerate(heard_after)
        ]
        events += [(0.06 + number / 100 + decided_after, 1, number, 0)]
    for now, kind, number, hears in sorted(events):
        if kind == 2:
            fleet.tick(now)
        elif kind == 0:
            fleet.instances[hears].add_request(QUESTION, str(number), now, heard[hears] + 1 + hears)
            heard[hears] += 1
        else:
            fleet.answer(number, now, sent[number][2])
    assert set(fleet.told) == {str(number) for number in range(len(sent))}
