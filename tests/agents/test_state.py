"""An agent's state while a batch is applied."""

import pytest

from router.agents.state import StateTransaction


def a_draft(**stored: bytes) -> StateTransaction:
    return StateTransaction(stored.get)


def test_what_is_put_is_read_back_before_it_is_stored() -> None:
    draft = a_draft(a=b"1")
    draft.put("a", 2)
    assert draft.get("a") == 2
    draft.commit()
    assert draft.get("a") == 2
    assert draft.rows == [("a", b"2")]


def test_what_a_failed_message_changed_is_dropped() -> None:
    draft = a_draft(a=b"1")
    draft.put("a", 2)
    draft.delete("b")
    draft.rollback()
    assert draft.get("a") == 1
    assert draft.rows == []


def test_a_deleted_name_has_the_default() -> None:
    draft = a_draft(a=b"1")
    draft.delete("a")
    draft.commit()
    assert draft.get("a", "none") == "none"
    assert draft.rows == [("a", None)]


def test_a_value_is_a_copy() -> None:
    draft = a_draft(a=b'{"n": 1}')
    draft.get("a")["n"] = 7
    assert draft.get("a") == {"n": 1}


def test_what_json_cannot_hold_is_refused_where_it_is_put() -> None:
    with pytest.raises(TypeError):
        a_draft().put("a", object())
