"""`router extension`: the registry written and looked at, extensions called."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
from nats.aio.msg import Msg
from typer.testing import CliRunner

from router.cli.app import app
from router.sdk.samples.extensions.pii_guard import pii_guard
from tests.support.buckets import Bucket
from tests.support.cli import CommandResult, table_words
from tests.support.extension_author import serve_extension
from tests.support.patient_client import connect_patiently
from tests.support.registry import Document, a_version, an_entry
from tests.support.waiting import until

HEALTHY = {
    "extension_id": "guard",
    "status": "healthy",
    "success_rate": 0.99,
    "success_count": 99,
    "failure_count": 1,
    "avg_latency_ms": 3.5,
    "p50_latency_ms": 3.0,
    "p95_latency_ms": 7.0,
    "p99_latency_ms": 9.0,
    "latency_samples": 100,
    "updated_at": 1,
    "circuit_breaker_state": "closed",
}


class Registry:
    """The command on a bucket of the test's own, run in this process: its loop has a thread of its
    own.
    """

    def __init__(self, nats_url: str, bucket: str) -> None:
        self.url = nats_url
        self._environ = {"NATS_URL": nats_url, "ROUTER_BUCKETS__EXTENSIONS__NAME": bucket}

    async def __call__(self, *arguments: str, given: bytes = b"", **environ: str) -> CommandResult:
        command, environ = ["extension", *arguments], {**self._environ, **environ}
        result = await asyncio.to_thread(CliRunner().invoke, app, command, input=given, env=environ)
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        return CommandResult(result.exit_code, result.stdout, result.stderr)

    async def holds(self, *documents: Document) -> None:
        for document in documents:
            assert (
                await self("register", "-", "--author", "ann", given=json.dumps(document).encode())
            ).status == 0


@pytest.fixture
def registry(nats_url: str, bucket: Bucket) -> Iterator[Registry]:
    return Registry(nats_url, bucket.name)


@contextlib.asynccontextmanager
async def answering(
    url: str, subject: str, answer: object, headers: Mapping[str, str] | None = None
) -> AsyncIterator[list[Msg]]:
    """A subscriber that answers each request alike, and the requests it received."""
    asked: list[Msg] = []
    client = await connect_patiently(url)

    async def hear(message: Msg) -> None:
        asked.append(message)
        await client.publish(
            message.reply, json.dumps(answer).encode(), headers=dict(headers or {}) or None
        )

    await client.subscribe(subject, cb=hear)
    await client.flush()
    yield asked
    await client.close()


async def test_a_type_that_is_none_is_the_only_complaint(registry: Registry) -> None:
    for options in ([], ["--type", "filter"]):
        refused = await registry("register", "--id", "guard", *options)
        assert (
            refused.status,
            "pre, validator, post, provider" in refused.err,
            "subject" in refused.err,
        ) == (2, True, False)


async def test_an_entry_from_a_file_is_registered_shown_and_listed(
    registry: Registry, tmp_path: Path
) -> None:
    file = tmp_path / "guard.json"
    file.write_text(
        json.dumps(an_entry(versions=[a_version("v1"), a_version("v2", enabled=False)]))
    )
    assert (await registry("register", str(file), "--author", "ann", "--json")).json == {
        "id": "guard",
        "version": 1,
        "is_new": True,
    }
    assert (await registry("register", str(file))).out == "guard: version 1 says the same already\n"
    shown = (await registry("show", "guard", "--json")).json
    assert (shown["version"], shown["author"], shown["entry"]) == (
        1,
        "ann",
        json.loads(file.read_text()),
    )
    assert "guard, version 1, written" in (await registry("show", "guard")).out
    (line,) = (await registry("list", "--json")).lines
    assert line == shown
    assert {"guard", "validator", "beamline.ext.validate.guard.v2", "(off)", "on", "ann"} <= set(
        table_words((await registry("list")).out)
    )


async def test_an_entry_from_options_and_from_standard_input(registry: Registry) -> None:
    options = (
        "--id",
        "norm",
        "--type",
        "pre",
        "--timeout-ms",
        "50",
        "--retry",
        "2",
        "--extension-config",
        '{"lowercase": true}',
    )
    assert (await registry("register", *options)).out == "norm: version 1 is registered\n"
    assert (await registry("show", "norm", "--json")).json["entry"] == {
        "id": "norm",
        "type": "pre",
        "subject": "beamline.ext.pre.norm.v1",
        "timeout_ms": 50,
        "retry": 2,
        "config": {"lowercase": True},
    }
    assert (await registry("register", "-", given=json.dumps(an_entry()).encode())).status == 0


async def test_every_mistake_of_an_entry_is_told_with_its_path_and_the_old_one_stands(
    registry: Registry,
) -> None:
    await registry.holds(an_entry())
    refused = await registry(
        "register", "-", given=json.dumps(an_entry(retry=9, timeout_ms=1)).encode()
    )
    assert (refused.status, refused.err.splitlines()) == (
        1,
        ["router: timeout_ms: 1 is not within 10..60000", "router: retry: 9 is not within 0..3"],
    )
    assert (await registry("show", "guard", "--json")).json["version"] == 1


async def test_who_names_another_version_is_told_which_one_stands(registry: Registry) -> None:
    await registry.holds(an_entry())
    refused = await registry(
        "register", "-", "--replaces", "0", given=json.dumps(an_entry(retry=1)).encode()
    )
    assert (refused.status, "guard is at version 1, by ann" in refused.err) == (1, True)


async def test_an_extension_is_switched_and_removed(registry: Registry) -> None:
    await registry.holds(an_entry())
    assert (await registry("disable", "guard")).out == "guard is disabled, version 2\n"
    assert (await registry("enable", "guard", "--json")).json == {
        "id": "guard",
        "enabled": True,
        "version": 3,
    }
    assert (await registry("remove", "guard", given=b"n\n")).status == 1
    assert (await registry("remove", "guard", given=b"y\n")).status == 0
    assert (await registry("list")).out == "no extension is registered\n"
    for command in ("show", "enable", "disable", "remove"):
        assert (await registry(command, "guard")).status == 1


async def test_an_extension_is_called_as_a_router_calls_it(registry: Registry) -> None:
    await registry.holds(an_entry("norm", "pre", config={"a": 1}, timeout_ms=20_000))
    async with answering(
        registry.url, "beamline.ext.pre.norm.v1", {"payload": "hi", "metadata": {}}
    ) as asked:
        called = await registry(
            "call",
            "norm",
            "--payload",
            "HI",
            "--tenant",
            "acme",
            "--metadata",
            '{"lang": "en"}',
            "--json",
        )
    assert (called.status, called.json["answer"], called.json["version"]) == (
        0,
        {"payload": "hi", "metadata": {}},
        "v1",
    )
    request = json.loads(asked[0].data)
    assert request["metadata"] == {"lang": "en", "policy_id": "default"}
    assert (request["tenant_id"], request["config"], request["payload"]["payload"]) == (
        "acme",
        {"a": 1},
        "HI",
    )
    assert (asked[0].headers or {})["tenant_id"] == "acme"
    assert (asked[0].headers or {})["trace_id"] == request["trace_id"]


async def test_a_payload_and_an_answer_keep_each_digit(registry: Registry) -> None:
    await registry.holds(an_entry("norm", "pre", timeout_ms=20_000))
    number = "18446744073709551617"
    async with answering(
        registry.url, "beamline.ext.pre.norm.v1", {"payload": int(number)}
    ) as asked:
        called = await registry("call", "norm", "--payload", f'{{"n": {number}}}', "--json")
    assert f'"payload":{{"n": {number}}}'.encode() in asked[0].data
    assert called.json["answer"] == {"payload": int(number)}


async def test_a_provider_is_called_with_a_prompt(registry: Registry) -> None:
    await registry.holds(an_entry("crm", "provider", timeout_ms=20_000))
    async with answering(
        registry.url, "beamline.provider.crm.v1", {"provider_id": "crm", "output": "ok"}
    ) as asked:
        called = await registry("call", "crm", "--payload", "say hello")
        for number in ("42", "18446744073709551617.10"):
            await registry("call", "crm", "--payload", number)
    assert [json.loads(one.data)["prompt"] for one in asked[1:]] == [
        "42",
        "18446744073709551617.10",
    ]
    assert (called.status, '"output"' in called.out, "ms" in called.err) == (0, True, True)
    assert {name: json.loads(asked[0].data)[name] for name in ("provider_id", "prompt")} == {
        "provider_id": "crm",
        "prompt": "say hello",
    }


async def test_an_error_of_an_extension_is_a_no_and_silence_is_silence(registry: Registry) -> None:
    await registry.holds(an_entry("norm", "pre", timeout_ms=20_000))
    assert (await registry("call", "norm", "--payload", "x")).status == 3
    refusing = {"Nats-Service-Error": "no such language", "Nats-Service-Error-Code": "422"}
    async with answering(registry.url, "beamline.ext.pre.norm.v1", {}, refusing):
        called = await registry("call", "norm", "--payload", "x")
        as_json = await registry("call", "norm", "--payload", "x", "--json")
    assert (called.status, "answered 422: no such language" in called.err) == (1, True)
    assert (as_json.status, as_json.json["error_code"], as_json.json["error"]) == (
        1,
        "422",
        "no such language",
    )
    await registry("disable", "norm")
    assert (await registry("call", "norm", "--payload", "x")).status == 1


async def test_health_is_a_routers_and_without_one_there_is_none(registry: Registry) -> None:
    assert (await registry("health")).status == 3
    unhealthy = {**HEALTHY, "extension_id": "bad", "status": "unhealthy"}
    answer = {"health": {"guard": HEALTHY, "bad": unhealthy}}
    async with answering(
        registry.url, "beamline.router.v1.admin.get_extension_health", answer
    ) as asked:
        everything = await registry("health", ROUTER_ADMIN__API_KEY="hush")
        one = await registry("health", "guard", "--json")
        unknown = await registry("health", "unknown")
    assert (everything.status, one.status, unknown.status) == (1, 0, 1)
    assert {"guard", "healthy", "bad", "unhealthy", "99.0%", "closed"} <= set(
        table_words(everything.out)
    )
    assert one.json == {"health": {"guard": HEALTHY}, "services": {"guard": 0}}
    assert (asked[0].headers or {})["api_key"] == "hush"


async def test_an_extension_that_was_not_called_or_is_not_served_any_more_is_not_called_healthy(
    registry: Registry,
) -> None:
    uncalled = {
        **HEALTHY,
        "success_rate": 1.0,
        "success_count": 0,
        "failure_count": 0,
        "latency_samples": 0,
    }
    answer = {"health": {"pii_guard": uncalled}, "router_node_ids": ["one"]}

    async def is_counted() -> bool:
        told = await registry("health", "--json")
        assert (told.status, told.json["services"]["pii_guard"] <= 1) == (0, True)
        return bool(told.json["services"] == {"pii_guard": 1})

    async with answering(registry.url, "beamline.router.v1.admin.get_extension_health", answer):
        ended = await registry("health")
        async with serve_extension(registry.url, pii_guard):
            await until(
                is_counted,
                what=(
                    "the extension that is served to be counted, which has 0.3 s to answer "
                    "each time"
                ),
            )
    assert ended.status == 0
    assert not {"healthy", "100.0%"} & set(table_words(ended.out))
    assert {"calls", "none", "found"} <= set(table_words(ended.out))


async def test_an_instance_that_did_not_answer_in_time_is_missed(registry: Registry) -> None:
    answer = {"health": {"guard": {**HEALTHY, "nodes": {"one": {}}}}, "router_node_ids": ["one"]}
    pong = {"name": "router-admin"}
    async with (
        answering(registry.url, "beamline.router.v1.admin.get_extension_health", answer),
        answering(registry.url, "$SRV.PING.router-admin", pong),
        answering(registry.url, "$SRV.PING.router-admin", pong),
    ):

        async def is_missed() -> bool:
            told = await registry("health")
            assert "one" in table_words(told.out)
            return "1 of 2 instances did not answer in time" in told.err

        await until(
            is_missed, what="both instances to be counted, which have 0.3 s to answer each time"
        )


async def test_a_refusal_of_the_router_is_told_with_the_setting_that_mends_it(
    registry: Registry,
) -> None:
    refusal = {"ok": False, "error": {"code": "unauthorized", "message": "a wrong api_key"}}
    async with answering(registry.url, "beamline.router.v1.admin.get_extension_health", refusal):
        told = await registry("health")
    hint = "give it as the setting admin.api_key (ROUTER_ADMIN__API_KEY)"
    assert (told.status, told.err) == (1, f"router: unauthorized: a wrong api_key: {hint}\n")


async def test_a_bucket_that_is_not_there_is_told_with_what_to_do(nats_url: str) -> None:
    ended = await Registry(nats_url, "NOWHERE")("list")
    assert (
        ended.status,
        "there is no bucket NOWHERE: `router topology apply` makes it" in ended.err,
    ) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("register",),
        ("register", "file.json", "--id", "x"),
        ("register", "/no/such/file.json"),
        ("register", "--id", "x", "--type", "pre", "--extension-config", "{"),
        ("call", "x"),
        ("call", "x", "--payload", "y", "--metadata", "[]"),
    ],
)
async def test_wrong_use_is_status_2(arguments: tuple[str, ...], nats_url: str) -> None:
    assert (await Registry(nats_url, "NOWHERE")(*arguments)).status == 2
