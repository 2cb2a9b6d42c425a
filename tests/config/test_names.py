"""Which spellings mean which setting, and what happens to the others."""

from collections import Counter
from pathlib import Path

import pytest

from router.config import Settings
from router.config.names import NAMES, SPECIFIED, find_misspelled, flat
from router.core.setting_values import list_settings
from tests.support.config import load_settings, read_refusal


def test_no_two_settings_share_a_flat_name_and_no_alias_hides_one() -> None:
    flats = Counter(flat(setting.name) for setting in list_settings(Settings()))
    assert max(flats.values()) == 1
    assert not set(flats) & set(NAMES.aliases)


def test_every_alias_leads_to_settings_that_exist() -> None:
    known = set(NAMES.names.values())
    assert all(set(alias.targets) <= known for alias in NAMES.aliases.values())
    assert all(NAMES.find(name.lower()) for name in SPECIFIED)


@pytest.mark.parametrize("spelling", ["ROUTER_DLQ__ENABLED", "ROUTER_DLQ_ENABLED"])
def test_double_and_single_underscores_are_the_same(spelling: str) -> None:
    assert load_settings(**{spelling: "off"}).settings.dlq.enabled is False


@pytest.mark.parametrize("toml", ["dlq_enabled = false", "[dlq]\nenabled = false"])
def test_tables_and_flat_keys_are_the_same(toml: str, tmp_path: Path) -> None:
    assert load_settings(toml, tmp_path=tmp_path).settings.dlq.enabled is False


@pytest.mark.parametrize(
    ("toml", "name", "value"),
    [
        ('nats_js_durable_group_decide = "d"', "decide.durable", "d"),
        ('nats_js_durable_group_results = "d"', "results.durable", "d"),
        ('nats_js_durable_group_acks = "d"', "acks.durable", "d"),
        ('nats_js_deliver_group_decide = "g"', "decide.deliver_group", "g"),
        ('nats_js_deliver_group_results = "g"', "results.deliver_group", "g"),
        ('nats_js_deliver_group_acks = "g"', "acks.deliver_group", "g"),
        ("nats_js_max_deliver = 4", "acks.max_attempts", 4),
        ("nats_js_backoff_seconds = [1, 2.5]", "results.backoff_ms", (1000, 2500)),
        ('nats_js_backoff_seconds = "1, 2.5"', "decide.backoff_ms", (1000, 2500)),
        ("nats_js_backoff_seconds = 2", "decide.backoff_ms", (2000,)),
        ('dlq_subject_pattern = "all.dlq"', "dlq.subject_pattern", "all.dlq"),
        ("dlq_include_full_message = false", "dlq.include_full_message", False),
        ('assignment_subject = "a.b"', "assignment.subjects", ("a.b",)),
        ("ack_enabled = true", "acks.enabled", True),
        ("http_port = 0", "http.port", 0),
        ('router_node_id = "n1"', "node_id", "n1"),
    ],
)
def test_the_specifications_names_in_a_file(
    toml: str, name: str, value: object, tmp_path: Path
) -> None:
    settings = load_settings(toml, tmp_path=tmp_path).settings
    assert {s.name: s.value for s in list_settings(settings)}[name] == value


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("NATS_URL", "nats://a, nats://b", "nats.url", ("nats://a", "nats://b")),
        ("NATS_ACK_WAIT_MS", "5000", "acks.ack_wait_ms", 5000),
        ("NATS_BACKOFF_MS", "100,200", "results.backoff_ms", (100, 200)),
        ("NATS_SUBJECT_ALLOWLIST", "a.*, b.>", "subject_allowlist", ("a.*", "b.>")),
        (
            "METRICS_TENANT_LABEL_ALLOWLIST",
            "acme,beta",
            "metrics.tenant_label_allowlist",
            ("acme", "beta"),
        ),
        ("ENABLE_USAGE_PUBLISH", "false", "usage.enabled", False),
        ("NATS_REPLY_SUBJECT", "r.s", "reply.subject", "r.s"),
        ("ROUTER_NODE_ID", "n1", "node_id", "n1"),
        ("ROUTER_REPLY__LISTENER", "off", "reply.listener", False),
        ("ROUTER_DECIDE__MAX_AGE_MS", "", "decide.max_age_ms", None),
        ("NATS_JS_MAX_DELIVER", "7", "results.max_attempts", 7),
        ("NATS_JS_BACKOFF_SECONDS", "1,3", "acks.backoff_ms", (1000, 3000)),
        ("NATS_JS_DURABLE_GROUP_DECIDE", "d", "decide.durable", "d"),
        ("NATS_JS_DELIVER_GROUP_ACKS", "g", "acks.deliver_group", "g"),
        ("DLQ_ENABLED", "false", "dlq.enabled", False),
        ("DLQ_SUBJECT_PATTERN", "all.dlq", "dlq.subject_pattern", "all.dlq"),
        ("DLQ_INCLUDE_FULL_MESSAGE", "false", "dlq.include_full_message", False),
        ("ACK_ENABLED", "true", "acks.enabled", True),
        ("ASSIGNMENT_SUBJECT", "a.b", "assignment.subjects", ("a.b",)),
        ("nats_ack_wait_ms", "5000", "acks.ack_wait_ms", 5000),
        ("dlq_enabled", "false", "dlq.enabled", False),
    ],
)
def test_the_specifications_own_setting_names_are_read_from_the_environment_in_either_case(
    variable: str, text: str, name: str, value: object
) -> None:
    settings, sources = load_settings(**{variable: text})
    assert {s.name: s.value for s in list_settings(settings)}[name] == value
    assert sources[name] == variable


def test_an_unknown_variable_is_refused_with_a_close_legal_name() -> None:
    assert "did you mean ROUTER_DECIDE__ACK_WAIT_MS?" in read_refusal(ROUTER_DECIDE__ACK_WAIT="30")
    assert read_refusal(ROUTER_XYZZY="1").startswith("ROUTER_XYZZY: there is no such setting")


def test_an_earlier_name_is_refused_with_the_name_to_use(tmp_path: Path) -> None:
    assert (
        read_refusal(ROUTER_WORKERS="2") == "ROUTER_WORKERS: this setting is called processes now"
    )
    assert read_refusal("workers = 2", tmp_path=tmp_path).endswith(
        ": this setting is called processes now"
    )
    assert (
        read_refusal(ROUTER_EVIDENCE__TIMEOUT_MS="2")
        == "ROUTER_EVIDENCE__TIMEOUT_MS: this setting is called effects.publish_timeout_ms now"
    )


def test_an_unknown_key_of_a_file_is_refused_with_a_close_legal_name(tmp_path: Path) -> None:
    text = read_refusal("[decide]\nprefech = 1", tmp_path=tmp_path)
    assert text.startswith("decide.prefech in ")
    assert "did you mean decide.prefetch?" in text


def test_a_value_where_a_group_is_meant_is_refused(tmp_path: Path) -> None:
    assert "there is no such setting" in read_refusal("decide = 5", tmp_path=tmp_path)


def test_variables_of_others_are_not_ours() -> None:
    assert (
        load_settings(NATS_STREAM_PREFIX="sr", NATS_WHATEVER="1", PATH="/bin").settings
        == Settings()
    )


def test_one_setting_twice_in_one_layer_is_refused() -> None:
    text = read_refusal(ROUTER_DLQ_ENABLED="1", ROUTER_DLQ__ENABLED="0")
    assert "given twice: ROUTER_DLQ_ENABLED and ROUTER_DLQ__ENABLED" in text


def test_one_setting_speaks_for_the_copies_of_every_stream_and_bucket() -> None:
    settings = load_settings(ROUTER_REPLICAS="3", ROUTER_STREAMS__USAGE__REPLICAS="5").settings
    copies = {
        setting.name: setting.value
        for setting in list_settings(settings)
        if setting.name.endswith(".replicas")
    }
    assert copies.pop("streams.usage.replicas") == 5
    assert len(copies) >= 13
    assert set(copies.values()) == {3}


def test_a_number_of_copies_that_no_cluster_has_is_refused_by_the_name_that_gave_it() -> None:
    assert "ROUTER_REPLICAS" in read_refusal(ROUTER_REPLICAS="6")


def test_one_name_of_a_specification_in_both_cases_is_refused() -> None:
    assert "given twice: NATS_URL and nats_url" in read_refusal(
        NATS_URL="nats://a", nats_url="nats://b"
    )


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("NATS_MAX_DELVER", "NATS_MAX_DELIVER"),
        ("nats_max_delver", "NATS_MAX_DELIVER"),
        ("DLQ_ENABLE", "DLQ_ENABLED"),
        ("ACK_ENABLE", "ACK_ENABLED"),
        ("SR_MAX_MSGS_PER_SUBJECT", "NATS_MAX_MSGS_PER_SUBJECT"),
    ],
)
def test_a_variable_that_looks_like_one_of_the_specifications_is_told_and_not_refused(
    variable: str, near: str
) -> None:
    assert load_settings(**{variable: "7"}).settings == Settings()
    assert find_misspelled({variable: "7"}) == [(variable, near)]


def test_variables_that_the_nats_command_and_others_use_are_told_nothing_of() -> None:
    others = (
        "NATS_CONTEXT",
        "NATS_CREDS",
        "NATS_NKEY",
        "NATS_USER",
        "NATS_PASSWORD",
        "NATS_CA",
        "NATS_CERT",
        "NATS_KEY",
        "NATS_TIMEOUT",
    )
    assert (
        find_misspelled(
            dict.fromkeys(
                (*others, "NATS_SOCKS_PROXY", "DLQ", "ACKS_URL", "SR_HOME", "NATS_SERVER_NAME"), "x"
            )
        )
        == []
    )
