"""Log lines: JSON, masked, never an exception of their own, never a flood."""

import logging

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.masking import MASK, mask_secrets
from router.process.observability import LogRateLimit, events, logger
from tests.support.observability import capture_log, restore_logging


def test_event_names_are_constant_unique_and_name_their_room() -> None:
    names = [value for name, value in vars(events).items() if name.isupper()]
    assert len(names) == len(set(names))
    assert all(
        name.replace(".", "").replace("_", "").isalpha() and name.count(".") == 1 for name in names
    )


def test_a_line_is_one_json_object_with_level_time_and_module() -> None:
    with capture_log() as lines:
        logger("router.x").warning("a.b", subject="s", count=2)
    line = lines.only()
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {
        "event": "a.b",
        "level": "warning",
        "module": "router.x",
        "subject": "s",
        "count": 2,
    }


def test_a_level_below_the_wanted_one_writes_nothing() -> None:
    with capture_log("warning") as lines:
        logger("x").info("a.b")
    assert lines.all() == []


def test_a_library_hands_its_lines_to_logging_where_logs_are_not_configured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    structlog.reset_defaults()
    # Python's own default; a command that another test calls in this process may have set one
    caplog.set_level(logging.WARNING)
    quiet = logger("router.x")
    for say in (quiet.debug, quiet.info, quiet.warning):
        say("a.b", subject="s", token="t", address="nats://u:p@host", line="two\nlines\x1b")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("router.x", "WARNING")
    assert (
        record.getMessage()
        == f"a.b subject=s token={MASK} address=nats://{MASK}@host line=two\\nlines\\x1b"
    )
    assert record.pathname == __file__


def test_a_program_s_logging_says_how_much_it_hears_of_us(caplog: pytest.LogCaptureFixture) -> None:
    structlog.reset_defaults()
    with caplog.at_level(logging.DEBUG, "router"):
        logger("router.x").debug("a.b")
    assert [record.getMessage() for record in caplog.records] == ["a.b"]


def test_a_program_s_own_structlog_is_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """It may draw tracebacks with the values of variables; payloads of ours are among them."""
    said: list[str] = []
    with restore_logging():
        structlog.configure(
            processors=[lambda _logger, _method, event: said.append(event["event"]) or ""]
        )
        logger("router.x").error("a.b")
    assert said == []


@pytest.mark.parametrize("speak", ["exception", "error"])
def test_a_library_s_traceback_is_text_without_variables(
    caplog: pytest.LogCaptureFixture, speak: str
) -> None:
    structlog.reset_defaults()
    hidden = "tneitap eht"[::-1]
    try:
        raise RuntimeError(f"{len(hidden)} bytes were too many")
    except RuntimeError as exc:
        getattr(logger("router.x"), speak)("a.b", **({"exc_info": exc} if speak == "error" else {}))
    (record,) = caplog.records
    assert "11 bytes were too many" in record.getMessage()
    assert record.exc_info is None, "a program's handler would draw it as it likes"


def test_a_library_s_line_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    structlog.reset_defaults()
    try:
        raise RuntimeError("x" * 200_000)
    except RuntimeError:
        logger("router.x").exception("a.b", **{f"f{number}": "y" * 5_000 for number in range(40)})
    assert len(caplog.records[0].getMessage()) <= 65_536


def test_masked_keys_are_hidden_in_any_case_and_depth() -> None:
    with capture_log() as lines:
        logger("x").info(
            "a.b",
            headers={"X-Api-Key": "k", "inner": [{"PASSWORD": "p", "tenant": "acme"}]},
            token="t",
        )
    line = lines.only()
    assert line["headers"] == {"X-Api-Key": MASK, "inner": [{"PASSWORD": MASK, "tenant": "acme"}]}
    assert line["token"] == MASK


@pytest.mark.parametrize(
    "key",
    [
        *(
            "password",
            "api_key",
            "secret",
            "token",
            "access_token",
            "refresh_token",
            "authorization",
            "credit_card",
        ),
        *("ssn", "email", "phone", "bearer", "x-api-key", "x-auth-token", "x-authorization"),
    ],
)
def test_every_key_of_the_reference_is_masked(key: str) -> None:
    assert mask_secrets({key: 1, key.upper(): 2, key.title(): 3}) == dict.fromkeys(
        (key, key.upper(), key.title()), MASK
    )


def test_masking_leaves_the_callers_value_as_it_is() -> None:
    given_value = {"token": "t"}
    mask_secrets(given_value)
    assert given_value == {"token": "t"}


def test_a_value_that_holds_itself_does_not_hang_the_log() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert "…" in repr(mask_secrets(endless))


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.text(max_size=4),
        st.recursive(st.text() | st.integers() | st.floats() | st.binary(), st.lists),
        max_size=3,
    )
)
def test_whatever_is_logged_is_one_line_of_json(facts: dict[str, object]) -> None:
    with capture_log() as lines:
        logger("x").info("a.b", facts=facts, header="\udcff", big=2**80)
    assert lines.only()["event"] == "a.b"


def test_a_traceback_is_a_field_of_its_line() -> None:
    with capture_log() as lines:
        try:
            raise ValueError("boom")
        except ValueError:
            logger("x").exception("a.b")
    assert "ValueError: boom" in str(lines.only()["exception"])


def test_other_libraries_lines_take_the_same_form_from_warning_on() -> None:
    with capture_log() as lines:
        logging.getLogger("uvicorn.error").info("hello")
        logging.getLogger("uvicorn.error").error("bad %s", "thing")
    line = lines.only()
    assert (line["event"], line["level"], line["logger"]) == ("bad thing", "error", "uvicorn.error")


def test_a_key_speaks_once_in_its_span() -> None:
    now = [0.0]
    once = LogRateLimit(every_s=1.0, clock=lambda: now[0])
    assert [once.allow("a"), once.allow("a"), once.allow("b")] == [True, False, True]
    now[0] = 0.999
    assert not once.allow("a")
    now[0] = 1.0
    assert [once.allow("a"), once.allow("a")] == [True, False]


def test_above_the_limit_new_keys_share_one_line_and_memory_stays() -> None:
    now = [0.0]
    once = LogRateLimit(every_s=1.0, limit=10, clock=lambda: now[0])
    assert sum(once.allow(key) for key in range(1000)) == 11
    assert len(once._until) <= 11
    now[0] = 2.0
    assert sum(once.allow(key) for key in range(500, 505)) == 5


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_traceback_does_not_tell_what_its_variables_held(style: str) -> None:
    def handle(payload: str) -> None:
        raise RuntimeError(f"{len(payload)} bytes were too many")

    with capture_log(style=style) as lines:
        for speak in (logger("x").exception, logging.getLogger("other").exception):
            try:
                handle("tneitap eht"[::-1])  # the line itself is told
            except RuntimeError:
                speak("a.b")
    written = lines.stream.getvalue()
    assert "11 bytes were too many" in written
    assert "patient" not in written
