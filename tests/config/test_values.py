"""What a bad value is told, what two settings must be to each other, and that a secret stays one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.config import Settings, describe
from router.config.describe import is_secret
from router.contracts.worker import DEFAULT_LIMITS
from router.core.setting_values import list_settings
from router.lake.commands.ingest import make_bounds
from router.lake.tables.body import BOUNDS
from router.serve.subscriptions import worker_limits
from tests.support.config import load_settings, read_refusal

WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
BLANKS = st.sampled_from(["", " ", "  ", "\t"])


@given(st.lists(st.tuples(BLANKS, WORDS, BLANKS)))
def test_lists_are_comma_separated_and_blanks_do_not_count(
    parts: list[tuple[str, str, str]],
) -> None:
    text = ",".join("".join(part) for part in parts)
    assert load_settings(ROUTER_TENANTS_ALLOWED=text).settings.tenants_allowed == tuple(
        word for _, word, _ in parts
    )


@given(st.lists(st.integers(1, 10**9), min_size=1))
def test_lists_of_milliseconds_are_read_in_order(waits: list[int]) -> None:
    settings = load_settings(NATS_BACKOFF_MS=",".join(map(str, waits))).settings
    assert settings.decide.backoff_ms == settings.acks.backoff_ms == tuple(waits)


@given(st.integers(-(10**12), 10**12))
def test_a_whole_number_is_taken_or_refused_by_its_bounds(port: int) -> None:
    if 0 <= port <= 65535:
        assert load_settings(ROUTER_HTTP__PORT=str(port)).settings.http.port == port
    else:
        assert str(port) in read_refusal(ROUTER_HTTP__PORT=str(port))


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        (
            "ROUTER_DECIDE__ACK_WAIT_MS",
            "soon",
            ["decide.ack_wait_ms", "'soon'", "a valid integer", "milliseconds"],
        ),
        ("ROUTER_TOPOLOGY", "maybe", ["topology", "'maybe'", "'create', 'check' or 'off'"]),
        ("NATS_BACKOFF_MS", "1,x", ["decide.backoff_ms", "'1,x'", "NATS_BACKOFF_MS"]),
        (
            "ROUTER_NATS_JS_BACKOFF_SECONDS",
            "x",
            ["ROUTER_NATS_JS_BACKOFF_SECONDS", "'x'", "numbers of seconds"],
        ),
        (
            "ROUTER_NATS_JS_BACKOFF_SECONDS",
            "inf",
            ["ROUTER_NATS_JS_BACKOFF_SECONDS", "numbers of seconds"],
        ),
        ("ROUTER_REPLY__PREFIXES", "$JS.", ["reply.prefixes", "'$JS.'", "never starting with $"]),
        ("ROUTER_REPLY__PREFIXES", "_INBOX", ["reply.prefixes", "end with a dot"]),
        (
            "ROUTER_REPLY__PREFIXES",
            "beamline.",
            ["reply.prefixes", "subjects of the router itself"],
        ),
        (
            "ROUTER_REPLY__SUBJECT",
            "caf.exec.result.v1",
            ["reply.subject", "a stream of the router takes"],
        ),
        ("ROUTER_DECIDE__SUBJECT", "a.>", ["decide.subject", "literal subject"]),
        ("ROUTER_DECIDE__DURABLE", "a.b", ["decide.durable", "'a.b'"]),
        (
            "ROUTER_STREAMS__DECIDE__DUPLICATE_WINDOW_MS",
            "99",
            ["streams.decide.duplicate_window_ms", "100"],
        ),
        (
            "ROUTER_USAGE__UNCORRELATED",
            "accept",
            ["usage.uncorrelated", "'accept'", "'mark' or 'refuse'", "no bill"],
        ),
        (
            "ROUTER_RESULTS__COST_FACTOR",
            "0.5",
            ["results.cost_factor", "greater than or equal to 1"],
        ),
        ("ROUTER_RESULTS__COST_FLOOR", "nan", ["results.cost_floor"]),
        ("NATS_URL", "", ["nats.url", "at least 1"]),
    ],
)
def test_a_bad_value_is_told_with_its_key_the_value_and_what_is_legal(
    variable: str, value: str, words: list[str]
) -> None:
    text = read_refusal(**{variable: value})
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(
    ("environ", "setting"),
    [
        ({"ROUTER_DECIDE__HEARTBEAT_MS": "15001"}, "decide.heartbeat_ms"),
        ({"ROUTER_ACKS__PREFETCH": "10001"}, "acks.prefetch"),
        ({"ROUTER_STREAMS__DLQ__MAX_AGE_MS": "1000"}, "streams.dlq.duplicate_window_ms"),
        ({"ROUTER_IDEMPOTENCY__TTL_MS": "600001"}, "streams.assignments.duplicate_window_ms"),
        ({"ROUTER_DRAIN__SOFT_DEADLINE_MS": "15001"}, "drain.soft_deadline_ms"),
        ({"ROUTER_DLQ__SUBJECT_PATTERN": "{original_subject}"}, "dlq.subject_pattern"),
        ({"ROUTER_DLQ__SUBJECT_PATTERN": "{subject}.dlq"}, "dlq.subject_pattern"),
        ({"ROUTER_DLQ__SUBJECT_PATTERN": "dlq.>"}, "dlq.subject_pattern"),
        ({"NATS_REPLY_SUBJECT": "beamline.router.v1.decide"}, "reply.subject"),
        ({"ROUTER_ASSIGNMENT_SUBJECT": "beamline.router.v1.decide"}, "assignment.subjects"),
        ({"ROUTER_NATS__USER": "u"}, "nats.user"),
        ({"ROUTER_NATS__TLS_KEY": "k.pem"}, "nats.tls_cert"),
        ({"ROUTER_GATEWAY__TLS_KEY": "k.pem"}, "gateway.tls_cert"),
        ({"ROUTER_NATS__TOKEN": "t", "ROUTER_NATS__CREDS_FILE": "c"}, "nats.token"),
    ],
)
def test_settings_that_cannot_stand_together_are_refused(
    environ: dict[str, str], setting: str
) -> None:
    assert read_refusal(**environ).startswith(f"{setting}: ")


def test_a_file_that_is_missing_or_not_toml_is_told() -> None:
    assert "cannot be read" in read_refusal(ROUTER_CONFIG_FILE="/no/such/file.toml")


def test_a_file_that_is_not_toml_is_told(tmp_path: Path) -> None:
    assert "is not a TOML file" in read_refusal("[decide", tmp_path=tmp_path)


def test_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    environ = {
        "ROUTER_NATS__USER": "u",
        "ROUTER_NATS__PASSWORD": "hush",
        "NATS_URL": "nats://u:hu@sh/@h:1,tls://t@k",
    }
    found = load_settings(**environ)
    rows = {row.name: row for row in describe(*found)}
    assert rows["nats.password"].value == "***"
    assert rows["nats.url"].value == "nats://***@h:1,tls://***@k"
    assert "hush" not in repr(found)
    assert "hush" not in read_refusal('[nats]\npassword = ["hush"]', tmp_path=tmp_path)


def test_a_secret_can_be_had_by_who_asks_for_it() -> None:
    password = load_settings(
        ROUTER_NATS__USER="u", ROUTER_NATS__PASSWORD="hush"
    ).settings.nats.password
    assert password is not None
    assert password.get_secret_value() == "hush"


def test_every_setting_is_described_and_every_duration_says_its_unit() -> None:
    settings = list(list_settings(Settings()))
    assert [s.name for s in settings if not s.field.description] == []
    assert [
        s.name
        for s in settings
        if s.name.endswith("_ms") and "milliseconds" not in str(s.field.description)
    ] == []
    assert [
        s.name
        for s in settings
        if s.name.endswith("_bytes") and "bytes" not in str(s.field.description)
    ] == []


def test_a_row_tells_value_default_and_source() -> None:
    row = next(
        row
        for row in describe(*load_settings(NATS_BACKOFF_MS="5,6"))
        if row.name == "acks.backoff_ms"
    )
    assert (row.value, row.default, row.source) == ("5,6", "1000,2000,4000", "NATS_BACKOFF_MS")


def test_what_is_shown_can_be_given_again() -> None:
    """But for a secret that is not set: an empty one is refused."""
    rows = describe(*load_settings(ROUTER_NODE_ID="n", ROUTER_TENANTS_ALLOWED="a,b"))
    secrets = {setting.name for setting in list_settings(Settings()) if is_secret(setting.field)}
    again = {
        f"ROUTER_{row.name.upper().replace('.', '__')}": row.value
        for row in rows
        if row.name not in secrets
    }
    assert (
        load_settings(**again).settings
        == load_settings(ROUTER_NODE_ID="n", ROUTER_TENANTS_ALLOWED="a,b").settings
    )


def test_the_bounds_of_a_result_are_the_same_in_the_contract_the_settings_and_the_lake() -> None:
    assert worker_limits(Settings()) == DEFAULT_LIMITS
    assert make_bounds(Settings()) == BOUNDS


@pytest.mark.parametrize("value", ["0", "-1", "nan", "1e16", "inf"])
def test_the_greatest_cost_is_a_number_that_sums_can_bear(value: str) -> None:
    assert "results.max_cost" in read_refusal(ROUTER_RESULTS__MAX_COST=value)
