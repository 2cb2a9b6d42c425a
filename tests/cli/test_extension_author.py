"""`router extension try | check | serve | serve-samples`: what an author types."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from router.core.errors import Misconfigured
from router.shell.import_target import import_extensions
from router.shell.options import read_json, read_object
from tests.support.broker import Broker
from tests.support.cli import COMMAND, call_command, run_process, table_words

PATIENTLY = ("--timeout-ms", "20000")
MINE = """
from router.sdk.extension import Refused, pre, validator, reject

@pre("shout")
async def shout(request):
    return request.payload.upper() * request.config.get("times", 1), {"loud": True}

@validator("short")
def short(request):
    return reject("too_long", {"most": 3}) if len(request.payload) > 3 else None

@pre("broken")
def broken(request):
    raise ValueError("my mistake")

@pre("unfit")
def unfit(request):
    return "a", "b"
"""

OWN = """
import sys
from router.sdk.extension import pre, serve

@pre("own")
def own(request):
    return None

serve(own, url=sys.argv[1], on_ready=lambda _: print("{}", flush=True))
"""

SLOPPY = """
import asyncio, json, nats

async def main(url):
    nc = await nats.connect(url)
    async def answer(msg):
        await msg.respond(json.dumps({"status": "fine"}).encode())
    await nc.subscribe("beamline.ext.validate.sloppy.v1", cb=answer)
    await nc.flush()
    print("{}", flush=True)
    await asyncio.Event().wait()

import sys
asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("mine") / "mine.py"
    file.write_text(MINE)
    return str(file)


def tried(target: str, *options: str) -> Any:
    return call_command("extension", "try", target, *options)


# -- try -------------------------------------------------------------------------------------------


def test_a_function_is_tried_without_a_broker(mine: str) -> None:
    ended = tried(f"{mine}:shout", "--payload", '"hi"', "--config", '{"times": 2}', "--json")
    assert ended.status == 0
    assert (ended.json["answer"]["payload"]["payload"], ended.json["answer"]["metadata"]) == (
        "HIHI",
        {"loud": True},
    )
    assert ended.json["router"] == 'the payload is now "HIHI"; the context gains loud'


def test_a_rejection_is_an_answer(mine: str) -> None:
    ended = tried(f"{mine}:short", "--payload", '"long"')
    assert (ended.status, "validator_blocked" in ended.out) == (0, True)


def test_a_payload_that_is_no_json_is_text(mine: str) -> None:
    ended = tried(
        f"{mine}:shout", "--payload", "hi there", "--extension-config", '{"times": 1}', "--json"
    )
    assert ended.json["answer"]["payload"]["payload"] == "HI THERE"


def test_a_payload_may_stand_in_a_file(mine: str, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('"hey"')
    assert (
        tried(f"{mine}:shout", "--payload", f"@{tmp_path / 'payload.json'}", "--json").json[
            "answer"
        ]["payload"]["payload"]
        == "HEY"
    )


def test_a_function_that_raises_is_shown_from_its_own_lines(mine: str) -> None:
    ended = tried(f"{mine}:broken", "--payload", "1")
    assert ended.status == 1
    assert "ValueError: my mistake" in ended.err
    assert "router/sdk" not in ended.err


def test_an_answer_that_is_none_names_its_field(mine: str) -> None:
    ended = tried(f"{mine}:unfit", "--payload", "1", "--json")
    assert (ended.status, ended.json["error"]["status"], ended.json["error"]["field"]) == (
        1,
        422,
        "metadata",
    )


def test_what_cannot_be_tried_is_told_and_ends_with_2(mine: str) -> None:
    ended = tried(mine, "--payload", "1")
    assert ended.status == 2
    assert "say which one" in ended.err


@pytest.mark.parametrize(
    "wrong", ["no_such_file.py", "no_such_module", "{mine}:nothing", "json", "{broken}"]
)
def test_a_place_without_extensions_is_told(wrong: str, mine: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(Misconfigured):
        import_extensions(wrong.format(mine=mine, broken=tmp_path / "broken.py"))


@pytest.mark.parametrize(
    ("read", "wrong"), [(read_json, "{{"), (read_json, "@no_such_file"), (read_object, "[]")]
)
def test_what_is_no_json_names_its_option(read: Callable[[str, str], object], wrong: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        read(wrong, "--config")
    assert caught.value.param_hint == "--config"


# -- serve and check -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def samples(broker: Broker) -> Iterator["tuple[subprocess.Popen[str], Any]"]:
    with run_process(*COMMAND, "extension", "serve-samples", "--nats-url", broker.url) as served:
        yield served


@pytest.mark.parametrize("place", range(5))
def test_every_sample_keeps_the_contract(
    place: int, samples: "tuple[subprocess.Popen[str], Any]", nats_url: str
) -> None:
    ended = call_command(
        "extension",
        "check",
        samples[1]["subjects"][place],
        "--strict",
        "--json",
        *PATIENTLY,
        "--nats-url",
        nats_url,
    )
    assert [check for check in ended.json["checks"] if check["verdict"] != "ok"] == []
    assert ended.status == 0


def test_a_file_is_served_until_it_is_told_to_stop(mine: str, nats_url: str) -> None:
    with run_process(
        *COMMAND,
        "extension",
        "serve",
        f"{mine}:short",
        "--instance",
        "blue=30",
        "--nats-url",
        nats_url,
    ) as (process, ready):
        assert ready["subjects"] == ["beamline.ext.validate.short.v1"]
        assert (
            call_command(
                "extension",
                "check",
                "beamline.ext.validate.short.v1.blue",
                *PATIENTLY,
                "--nats-url",
                nats_url,
            ).status
            == 0
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_file_that_serves_itself_ends_well_when_it_is_told(nats_url: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    with run_process(COMMAND[0], str(tmp_path / "own.py"), nats_url) as (process, _):
        assert (
            call_command(
                "extension",
                "check",
                "beamline.ext.pre.own.v1",
                "--strict",
                *PATIENTLY,
                "--nats-url",
                nats_url,
            ).status
            == 0
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_one_in_any_language_that_breaks_the_contract_is_told_why(
    nats_url: str, tmp_path: Path
) -> None:
    (tmp_path / "sloppy.py").write_text(SLOPPY)
    with run_process(COMMAND[0], str(tmp_path / "sloppy.py"), nats_url):
        told = call_command(
            "extension",
            "check",
            "beamline.ext.validate.sloppy.v1",
            *PATIENTLY,
            "--nats-url",
            nats_url,
        )
        found = call_command(
            "extension",
            "check",
            "beamline.ext.validate.sloppy.v1",
            "--json",
            *PATIENTLY,
            "--nats-url",
            nats_url,
        )
    assert (told.status, found.status, found.json["ok"]) == (1, 1, False)
    verdicts = {check["check"]: (check["verdict"], check["why"]) for check in found.json["checks"]}
    assert verdicts["answers a request"] == (
        "fail",
        "a validator answers with a status of ok or reject",
    )
    assert verdicts["declines what is not JSON"][0] == "fail"
    assert verdicts["does no work past the deadline"][0] == "warn"
    assert {"fail", "warn"} <= set(table_words(told.out))


def test_no_service_is_silence(nats_url: str) -> None:
    ended = call_command(
        "extension", "check", "beamline.ext.pre.unserved.v1", "--nats-url", nats_url
    )
    assert (ended.status, ended.err) == (
        3,
        "router: no service listens on beamline.ext.pre.unserved.v1\n",
    )


@pytest.mark.parametrize(
    "wrong", [("beamline.ext.*",), ("some.subject",), ("beamline.ext.pre.a.v1", "--type", "x")]
)
def test_a_subject_that_says_too_little_is_wrong_use(wrong: tuple[str, ...]) -> None:
    assert call_command("extension", "check", *wrong).status == 2
