"""What the server gets for each answer of a handler, as another subscriber sees it on the wire
(T4).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from router.sdk.samples.service import SampleService
from tests.support.broker import Broker
from tests.support.inbox import (
    RecordedAcks,
    a_service,
    an_id,
    an_inbox,
    nowhere,
    publish,
    read_dead_letters,
    record_acks,
    row_of,
    says,
)
from tests.support.patient_client import connect_patiently
from tests.support.postgres import Postgres
from tests.support.result_pages import write_page
from tests.support.waiting import until

ACK_WAIT_S = 6.0  # signals go out at a quarter of it; longer than a busy machine stands still
HELD_SIGNALS = 5  # then it was held for longer than an ack wait
TIMEOUT_S = 60.0
SHORT_TIMEOUT_S = 2.0
ACK = "+ACK"
NOTHING = "nothing"
NOTE = (
    f"Acknowledgements are waited for {ACK_WAIT_S:g} s, the handler for {TIMEOUT_S:g} s "
    f"({SHORT_TIMEOUT_S:g} s where it does not answer in "
    "time), at most two deliveries: a failure of the last one is a dead letter. A breaker, "
    "which would leave such a handler alone, is not "
    "in the way here. What its service does not serve (3xx, other 4xx, no connection) is "
    "waited for: seen here for more than an ack wait."
)


class Case(NamedTuple):
    """`asks`: what the sample service is to do."""

    name: str
    asks: Mapping[str, object] = {}


class Seen(NamedTuple):
    """One line of the table. Signals in progress stand apart from what was said of a delivery."""

    answer: str
    first: str
    second: str
    in_progress: str
    letter: str
    row: str


GOOD = [Case(str(status), {"answer": status}) for status in (200, 202, 409)]
SLOW = Case("200, later than the ack wait", {"seconds": ACK_WAIT_S + 1})
POISON = Case("422", {"answer": 422})
BAD = [Case(str(status), {"answer": status}) for status in (500, 503)]
UNSERVED = [Case(str(status), {"answer": status}) for status in (301, 400, 401, 404, 429)]
TIMEOUT = Case("no answer in time", {"seconds": 60})
REFUSED = Case("connection refused")
WAITED = {case.name for case in [*UNSERVED, REFUSED]}


@pytest.mark.timeout(600)
@pytest.mark.slow  # ack waits, of one inbox after the other
async def test_each_answer_is_told_to_the_server_as_the_policies_say(
    broker: Broker, postgres: Postgres
) -> None:
    """SD-11, SD-12, SD-13, SD-33, SD-34: of a failure not one acknowledgement, until the last
    delivery has its dead letter.
    """
    seen = await _all_seen(broker, postgres)
    print(_table(seen))
    good, (slow, poison), waited, bad = (
        seen[:3],
        seen[3:5],
        [one for one in seen if one.answer in WAITED],
        seen[5:],
    )
    bad = [one for one in bad if one not in waited]
    assert {(one.first, one.second, one.letter) for one in [*good, slow]} == {(ACK, "", "none")}
    assert (poison.first, poison.second, poison.letter) == (ACK, "", "processing_error")
    assert {(one.first, one.second, one.letter) for one in bad} == {
        (NOTHING, ACK, "maxdeliver_exhausted")
    }
    assert {(one.first, one.second, one.letter) for one in waited} == {(NOTHING, "", "none")}
    assert min(int(one.in_progress) for one in [slow, *waited]) >= 1
    assert (len(bad), len(waited)) == (len(BAD) + 2, len(WAITED))


@pytest.mark.matrix
@pytest.mark.timeout(600)
@pytest.mark.slow  # as above
async def test_the_table_is_kept(broker: Broker, postgres: Postgres) -> None:
    write_page(
        "inbox_handler",
        "What the server is told, by the handler's answer",
        _table(await _all_seen(broker, postgres)),
        NOTE,
    )


async def _all_seen(broker: Broker, postgres: Postgres) -> list[Seen]:
    async with a_service(SampleService().app) as service, says(b"\x00\x01\x02") as nonsense:
        seen = await _seen(broker, postgres, service, [*GOOD, SLOW, POISON, *BAD])
        seen += await _seen(broker, postgres, service, [TIMEOUT], SHORT_TIMEOUT_S)
        seen += await _seen(broker, postgres, service, UNSERVED)
        seen += await _seen(broker, postgres, nowhere(), [REFUSED])
        return seen + await _seen(broker, postgres, nonsense, [Case("not HTTP")])


async def _seen(
    broker: Broker,
    postgres: Postgres,
    url: str,
    cases: Sequence[Case],
    timeout_s: float = TIMEOUT_S,
) -> list[Seen]:
    """Every case is a message of one inbox."""
    nc, dsn = await connect_patiently(broker.url), await postgres.database()
    async with (
        an_inbox(broker.url, dsn, url, timeout_s=timeout_s, ack_wait=ACK_WAIT_S, max_deliver=2),
        record_acks(broker.url) as heard,
    ):
        begin = (await nc.jetstream().stream_info("VIBESPRO_EVENTS")).state.last_seq
        for place, case in enumerate(cases, begin + 1):
            await publish(nc, [place], case.asks)
        places = range(begin + 1, begin + 1 + len(cases))
        await until(
            lambda: all(
                _is_over(case, heard, place) for place, case in zip(places, cases, strict=True)
            ),
            within_s=120,
        )
        written = {
            letter["message_id"]: str(letter["reason"]) for letter in await read_dead_letters(nc)
        }
        seen = [
            _line(case, heard, place, written, await row_of(dsn, place))
            for place, case in zip(places, cases, strict=True)
        ]
    await nc.close()
    return seen


def _is_over(case: Case, heard: RecordedAcks, place: int) -> bool:
    """It was acknowledged; or is held."""
    return (
        heard.of(place).count("+WPI") >= HELD_SIGNALS
        if case.name in WAITED
        else ACK in heard.of(place)
    )


def _line(
    case: Case,
    heard: RecordedAcks,
    place: int,
    written: Mapping[object, str],
    row: tuple[object, ...],
) -> Seen:
    words = [[word for word in heard.of(place, delivery) if word != "+WPI"] for delivery in (1, 2)]
    first, second = (", ".join(said) for said in words)
    is_processed, attempts, error = row
    return Seen(
        case.name,
        first or NOTHING,
        second,
        str(heard.of(place).count("+WPI")),
        written.get(an_id(place), "none"),
        (
            f"{'processed' if is_processed else 'open'}, {attempts} "
            f"begun{f', {error}' if error else ''}"
        ),
    )


def _table(seen: Sequence[Seen]) -> str:
    heads = (
        "handler",
        "said of the first delivery",
        "of the second",
        "in progress",
        "dead letter",
        "row",
    )
    lines = [heads, ("---",) * len(heads), *seen]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
