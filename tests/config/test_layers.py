"""Which of several sources wins (docs/reference/contracts.md#settings)."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from router.config import Settings, load
from tests.support.config import a_file, load_settings


def test_nothing_given_is_the_defaults() -> None:
    settings, sources = load_settings()
    assert settings == Settings()
    assert set(sources.values()) == {"default"}


def test_each_layer_wins_over_the_one_before(tmp_path: Path) -> None:
    toml = 'nats_url = "nats://file"'
    assert load_settings(toml, tmp_path=tmp_path).settings.nats.url == ("nats://file",)
    specified = load_settings(toml, tmp_path=tmp_path, NATS_URL="nats://spec")
    assert (specified.settings.nats.url, specified.sources["nats.url"]) == (
        ("nats://spec",),
        "NATS_URL",
    )
    ours = load_settings(
        toml, tmp_path=tmp_path, NATS_URL="nats://spec", ROUTER_NATS__URL="nats://ours"
    )
    assert (ours.settings.nats.url, ours.sources["nats.url"]) == (
        ("nats://ours",),
        "ROUTER_NATS__URL",
    )
    option = load_settings(
        toml,
        tmp_path=tmp_path,
        options={"nats.url": "nats://option"},
        ROUTER_NATS__URL="nats://ours",
    )
    assert (option.settings.nats.url, option.sources["nats.url"]) == (
        ("nats://option",),
        "command line",
    )


def test_an_option_that_was_not_given_changes_nothing() -> None:
    assert load_settings(options={"http.port": None}).sources["http.port"] == "default"


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    path = a_file("[http]\nport = 1234", tmp_path)
    settings, sources = load_settings(ROUTER_CONFIG_FILE=str(path))
    assert (settings.http.port, sources["http.port"]) == (1234, "file")


def test_the_process_environment_is_not_read_behind_the_given_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROUTER_HTTP__PORT", "1")
    monkeypatch.setenv("ROUTER_NO_SUCH_THING", "1")
    assert load(environ={}).settings.http.port == Settings().http.port == 9001


def test_the_process_environment_is_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUTER_HTTP__PORT", "1")
    assert load().settings.http.port == 1


def test_one_field_of_a_consumer_leaves_its_others() -> None:
    results = load_settings(ROUTER_RESULTS__ACK_WAIT_MS="45").settings.results
    assert (results.ack_wait_ms, results.max_attempts, results.durable) == (
        45,
        10,
        "router-results",
    )


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().http.port = 1  # type: ignore[misc]


def test_attempts_are_3_10_3_unless_set_and_then_all_three() -> None:
    def attempts(**environ: str) -> tuple[int, int, int]:
        settings = load_settings(**environ).settings
        return (
            settings.decide.max_attempts,
            settings.results.max_attempts,
            settings.acks.max_attempts,
        )

    assert attempts() == (3, 10, 3)
    assert attempts(ROUTER_NATS_JS_MAX_DELIVER="5") == attempts(NATS_MAX_DELIVER="5") == (5, 5, 5)
    assert attempts(NATS_MAX_DELIVER="5", ROUTER_RESULTS__MAX_DELIVER="7") == (5, 7, 5)
    assert attempts(NATS_MAX_DELIVER="5", ROUTER_RESULTS__MAX_ATTEMPTS="7") == (5, 7, 5)


def test_what_names_one_consumer_wins_even_from_an_earlier_layer(tmp_path: Path) -> None:
    settings = load_settings(
        "[results]\nmax_attempts = 7", tmp_path=tmp_path, NATS_MAX_DELIVER="5"
    ).settings
    assert (settings.decide.max_attempts, settings.results.max_attempts) == (5, 7)
