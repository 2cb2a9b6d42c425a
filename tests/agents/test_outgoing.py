"""What an agent sends: ids that are the same however often it is made, and the thread of its cause."""

import json
import math

import pytest

from router.agents.adapter import Outgoing
from router.agents.envelope import read_envelope
from router.agents.outgoing import OutputRules, Unsendable, build_outgoing_row, effect_of
from router.agents.state import StateTransaction
from router.agents.store import OutgoingRow
from router.agents.topology import AgentTopology
from tests.support.agents import a_message

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def sent(number: int = 0, agent: str = "a", key: str = "k", **fields: object) -> OutgoingRow:
    cause = read_envelope(a_message(key=key, headers={"traceparent": f"00-{TRACE}-{SPAN}-01"}))
    outgoing = Outgoing("evt.x", "said", {"n": 1}, **fields)  # type: ignore[arg-type]
    return build_outgoing_row(
        agent, cause, outgoing, place=1, number=number, rules=OutputRules(AgentTopology().is_bound)
    )


def test_the_id_is_the_same_for_the_same_cause_and_place_and_no_other() -> None:
    """MF-7: its `Nats-Msg-Id`, so the broker stores it once."""
    ids = [sent().id, sent(number=1).id, sent(agent="b").id, sent(key="j").id]
    assert len(set(ids)) == 4
    assert ids[0] == sent().id == effect_of(sent()).id == json.loads(sent().data)["idempotency_key"]


def test_trace_span_cause_and_logical_time_go_along() -> None:
    """MF-9, MF-10: the trace of the cause, a span of its own, in the body and as traceparent."""
    body, effect = json.loads(sent().data), effect_of(sent())
    assert (body["trace_id"], body["causation_id"]) == (TRACE, "k")
    assert body["span_id"] not in ("", SPAN)
    assert effect.headers["traceparent"] == f"00-{TRACE}-{body['span_id']}-01"
    assert body["ts"] == read_envelope(a_message(key="k")).ts
    assert json.loads(sent(ts=5).data)["ts"] == 5


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_number_that_json_has_not_is_a_failure_not_null(value: float) -> None:
    """What an agent sends, and what it remembers."""
    cause = read_envelope(a_message(key="k"))
    outgoing = Outgoing("evt.x", "said", {"n": [value]})
    with pytest.raises(Unsendable):
        build_outgoing_row(
            "a", cause, outgoing, place=1, number=0, rules=OutputRules(AgentTopology().is_bound)
        )
    with pytest.raises(ValueError, match="NaN"):
        StateTransaction(lambda _: None).put("n", {"n": value})


@pytest.mark.parametrize(
    ("subject", "kind"), [("evt.*", "said"), ("orders.x", "said"), ("evt.x", "two words")]
)
def test_what_cannot_be_sent_is_refused_each_time(subject: str, kind: str) -> None:
    rules = OutputRules(AgentTopology().is_bound)
    rules.check("evt.x", "said")
    for _ in range(2):
        with pytest.raises(Unsendable):
            rules.check(subject, kind)
