"""Secrets are planted in everything that comes in, and looked for in everything that comes out."""

import json
import re
from collections.abc import Iterator

import pytest
from nats.aio.client import Client

from router.config import Settings, describe, load
from router.core.errors import BrokerUnavailable, Misconfigured
from router.core.masking import MASK, hide_login
from router.core.message import Message
from router.core.outcome import Handler, Outcome
from router.delivery.wire.first_connection import connect
from router.process.observability import logs
from router.shell import exit_codes
from tests.support.admin import call, code
from tests.support.broker import Broker
from tests.support.cli import call_command_async
from tests.support.observability import capture_log, http_get
from tests.support.requests import a_body
from tests.support.router_streams import AlertRecorder, read_stream
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    Json,
    MessageRecorder,
    a_request,
    is_settled,
    read_dead_letters,
    read_page,
    wrap_decide_handler,
)
from tests.support.tracing import record_spans
from tests.support.waiting import until

PASSWORD = "hunter2-broker"
API_KEY = "hunter2-admin"
HEADERS = {  # by the names of the reference, and what a gateway passes on besides
    "api_key": "hunter2-header",
    "Authorization": "Bearer hunter2-bearer",
    "X-Api-Key": "hunter2-x-api-key",
    "X-Auth-Token": "hunter2-auth-token",
    "Cookie": "session=hunter2-cookie",
    "password": "hunter2-password",
}
PII = {
    "email": "hunter2@example.org",
    "ssn": "hunter2-ssn",
    "credit_card": "hunter2-4111",
    "phone": "hunter2-phone",
}
BROKEN = {  # every header of the contract
    "trace_id": "hunter2 trace",
    "tenant_id": "hunter2 tenant",
    "Nats-Msg-Id": "hunter2 id",
    "traceparent": "hunter2-parent",
    "cp_phase": "hunter2-phase",
}
PLANTED = re.compile(r"hunter2[\w@.-]*")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(
        f'authorization {{ users: [{{ user: "svc", password: "{PASSWORD}" }}] }}'
    ) as broker:
        yield broker


@pytest.fixture
def nats_url(broker: Broker) -> str:
    return broker.url.replace("//", f"//svc:{PASSWORD}@")


def _crashes_on(name: str, make: Handler) -> Handler:
    def handle(message: Message) -> Outcome:
        if name.encode() in message.data:
            connected = f"nats://svc:{PASSWORD}@127.0.0.1:4222"
            raise RuntimeError(f"no route to {connected}")
        return make(message)  # type: ignore[return-value]

    return handle


async def test_what_was_planted_comes_out_nowhere(
    monkeypatch: pytest.MonkeyPatch, nc: Client, broker: Broker, nats_url: str, prefix: str
) -> None:
    """Logs at debug, alerts, answers, dead letters' headers, traces, pages, the admin's refusals. A
    dead letter keeps its payload.
    """
    settings = settings_for(nats_url, prefix, admin__api_key=API_KEY, decide__max_attempts=1)
    wrap_decide_handler(monkeypatch, lambda make: _crashes_on("crash", make))
    out: dict[str, str] = {}
    alarms, answers = (
        await AlertRecorder.heard_on(nc),
        await MessageRecorder.on(nc, "_INBOX.planted.>"),
    )
    with capture_log("debug") as lines, record_spans() as spans:
        async with a_router(settings) as router:
            subject = settings.decide.subject
            good = a_request(1, context=PII, **a_body(payload=PII))
            for name, body, headers in (
                ("good", good, {"Nats-Msg-Id": "m-1", **HEADERS}),
                (
                    "violations",
                    good,
                    {
                        "trace_id": "",
                        "version": "1",
                        "traceparent": "hunter2-parent",
                        "cp_phase": "hunter2-phase",
                        **HEADERS,
                    },
                ),
                ("dead", json.dumps(a_body(message_type="", payload=PII)).encode(), HEADERS),
                (
                    "version",
                    a_request(2, version="hunter2-version", **a_body(payload=PII)),
                    HEADERS,
                ),
                (
                    "tenant",
                    a_request(3, **a_body(tenant_id="hunter2 tenant", payload=PII)),
                    HEADERS,
                ),
                ("contract", a_request(4, **a_body(payload=PII)), {**BROKEN, **HEADERS}),
                (
                    "refused",
                    a_request(5, **a_body(payload=PII)),
                    {"Nats-TTL": "hunter2-ttl", **HEADERS},
                ),
                ("crash", a_request("crash", **a_body(payload=PII)), HEADERS),
            ):
                await nc.publish(subject, body, reply=f"_INBOX.planted.{name}", headers=headers)
            await until(
                lambda: len(answers.subjects) == 8, what=f"eight answers, not {answers.counts}"
            )
            await until(lambda: is_settled(nc, settings))
            refused = [
                await call(
                    nc, "list_policies", {"api_key": f"hunter2-wrong{n}"}, api_key="hunter2-body"
                )
                for n in range(2)
            ]
            assert {code(one) for one in refused} == {"unauthorized"}
            await nc.publish(
                settings.results.subject,
                json.dumps({"status": "success", **PII}).encode(),
                headers={"Nats-Msg-Id": "r", **HEADERS},
            )
            await until(lambda: _has_letters(nc, settings.streams.dlq.name, 5))
            await until(
                lambda: _has_letters(nc, settings.streams.violations.name, 9),
                what="an event of each violation",
            )
            port = int(router.ready.http.rpartition(":")[2])
            out["page with exemplars"] = str(
                await http_get(port, "/metrics", "application/openmetrics-text")
            )
            for command in (
                ("violations", "--by", "tenant,rule,inbox"),
                ("violations", "--json"),
                ("violation", "1"),
                ("violation", "9"),
            ):
                shown = await call_command_async(
                    "contract", *command, environ=_name_streams(settings, nats_url)
                )
                assert shown.status == 0
                out[f"router contract {' '.join(command)}"] = shown.out
            out |= {
                f"page {name}": (await read_page(router.ready.http, name))[1]
                for name in ("/readyz", "/healthz", "/metrics")
            }
            broker.kill()  # what it says of a broker that is lost, too
            await until(lambda: not router.service.readiness()["broker"].ok)
            out["readiness"] = str(router.service.readiness())
            broker.start()
            await until(lambda: router.service.readiness()["broker"].ok)
            out["ready"] = str(router.ready)
            found = await read_dead_letters(nc, settings)
            out["letters, without their payloads"] = json.dumps(
                [_without_payload(letter) for letter in found]
            )
            out["events of violations"] = str(
                await read_stream(nc, settings.streams.violations.name)
            )
            out["letters' headers"] = str(
                [headers for _, _, headers in await read_stream(nc, settings.streams.dlq.name)]
            )
    out |= {
        "logs": lines.stream.getvalue(),
        "traces": spans.told(),
        "alerts": str(alarms.heard),
        "answers": str(answers.heard),
        "refusals": str(refused),
    }
    assert "handler.failed" in out["logs"]
    assert all(out.values())
    leaks = {
        place: sorted(set(PLANTED.findall(text)))
        for place, text in out.items()
        if PLANTED.search(text)
    }
    assert leaks == {}
    kept = {name for letter in found for name in letter.get("message", {}).get("headers", {})}
    assert kept >= {"api_key", "Authorization"}  # that they were there is told, not what they held


def _name_streams(settings: Settings, nats_url: str) -> dict[str, str]:
    return {
        "NATS_URL": nats_url,
        "ROUTER_STREAMS__VIOLATIONS__NAME": settings.streams.violations.name,
    }


async def _has_letters(nc: Client, stream: str, count: int) -> bool:
    return len(await read_stream(nc, stream)) >= count


def _without_payload(letter: Json) -> Json:
    """A dead letter keeps the payload, that is what it is for; `dlq.include_full_message=false`
    leaves it out.
    """
    return {
        **letter,
        "message": {
            name: value for name, value in letter.get("message", {}).items() if name != "payload"
        },
    }


# -- settings --------------------------------------------------------------------------------------

PLANTED_SETTINGS = {
    "NATS_URL": "nats://svc:hunter2-a@h:1,tls://hunter2-token@k,svc:hunter2-b@l:2,nats://svc:hu/hunter2-c@m:3",
    "ROUTER_NATS__USER": "svc",
    "ROUTER_NATS__PASSWORD": "hunter2-password",
    "ROUTER_ADMIN__API_KEY": API_KEY,
    "ROUTER_MAILBOX__DSN": "postgresql://svc:hunter2-dsn@h/db",
    "ROUTER_INBOX__HANDLER__URL": "http://svc:hunter2-handler@h:1/handle",
}


def test_no_dump_of_the_settings_tells_a_secret() -> None:
    loaded = load(None, {}, PLANTED_SETTINGS)
    rows = {row.name: row.value for row in describe(*loaded)}
    assert not PLANTED.findall(str(rows))
    assert rows["nats.url"] == f"nats://{MASK}@h:1,tls://{MASK}@k,{MASK}@l:2,nats://{MASK}@m:3"
    assert rows["inbox.handler.url"] == f"http://{MASK}@h:1/handle"


def test_a_setting_that_is_refused_is_told_without_its_secret() -> None:
    for given in (
        {
            "ROUTER_NATS__TOKEN": "hunter2",
            "ROUTER_NATS__USER": "u",
            "ROUTER_NATS__PASSWORD": "hunter2-p",
        },
        {"ROUTER_ADMIN__API_KEYS": "hunter2"},
        {"ROUTER_NATS__CONNECT_TIMEOUT_MS": "nats://svc:hunter2@h"},
    ):
        with pytest.raises(Misconfigured) as refused:
            load(None, {}, given)
        assert not PLANTED.search(str(refused.value))


@pytest.mark.parametrize(
    "url",
    [
        *(
            "nats://svc:hunter2@127.0.0.1:1",
            "nats://hunter2@127.0.0.1:1",
            "svc:hunter2@127.0.0.1:1",
        ),
        *(
            "nats://svc:hu/hunter2@127.0.0.1:1",
            "nats://svc:hu#hunter2@127.0.0.1:1",
            "nats://svc:hunter2@h@127.0.0.1:port",
        ),
    ],
)
async def test_a_broker_that_cannot_be_had_is_told_without_the_login(url: str) -> None:
    with pytest.raises(BrokerUnavailable) as told:
        await connect({"servers": [url]}, timeout_s=0.3)
    assert not PLANTED.search(str(told.value))
    assert "127.0.0.1" in str(told.value)


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_login_inside_an_exceptions_text_is_hidden(style: str) -> None:
    with capture_log(style=style) as lines:
        try:
            raise OSError("cannot reach nats://svc:hun/ter2@h:1 or postgresql://svc:hunter2@h/db")
        except OSError as exc:
            logs.logger("x").error("a.b", exc_info=exc)
    written = lines.stream.getvalue()
    assert not re.search("hun(/t|t)er2", written)
    assert f"cannot reach nats://{MASK}@h:1 or postgresql://{MASK}@h/db" in written


def test_a_command_that_fails_tells_no_login(capsys: pytest.CaptureFixture[str]) -> None:
    exit_codes.complain("no answer from nats://svc:hunter2@h:1")
    assert capsys.readouterr().err == f"router: no answer from nats://{MASK}@h:1\n"


def test_an_address_without_a_login_is_left_as_it_is() -> None:
    assert [hide_login(one) for one in ("nats://h:1", "h", "")] == ["nats://h:1", "h", ""]
