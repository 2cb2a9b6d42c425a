"""The sample agent, and the page for authors of agents: what stands there works."""

import json
import re
import sys
from pathlib import Path

import pytest

from router.core.outcome import Dead, Done
from router.sdk.samples.agents.ledger import Ledger
from router.shell.import_target import import_agent
from tests.support.agents import a_batch_bench, a_message

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-an-agent.md"


def a_posting(**payload: object) -> bytes:
    return json.dumps({"type": "post", "payload": payload}).encode()


def test_the_ledger_posts_each_command_once_and_says_what_stands_there(tmp_path: Path) -> None:
    with a_batch_bench(tmp_path / "l.db", Ledger()) as bench:
        posting = a_posting(account="acme", amount=250)
        first, again, second = bench.batch.handle(
            [
                a_message(1, body=posting),
                a_message(1, body=posting, deliveries=2),
                a_message(2, body=posting),
            ]
        )
    said = [
        json.loads(one.effects[0].data)["payload"]["balance"]
        for one in (first, again, second)
        if isinstance(one, Done)
    ]
    assert said == [250, 250, 500]


@pytest.mark.parametrize(
    "payload",
    [{}, {"account": "acme"}, {"account": 7, "amount": 1}, {"account": "acme", "amount": True}],
)
def test_the_ledger_refuses_what_is_no_posting(tmp_path: Path, payload: dict[str, object]) -> None:
    with a_batch_bench(tmp_path / "l.db", Ledger()) as bench:
        (outcome,) = bench.batch.handle([a_message(1, body=a_posting(**payload))])
    assert isinstance(outcome, Dead)


def test_the_pages_agent_greets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "greeter.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    with a_batch_bench(tmp_path / "g.db", import_agent("greeter:Greeter")) as bench:
        greeted, refused = bench.batch.handle(
            [a_message(1, body=b'{"type":"greet","payload":{"name":"Ada"}}'), a_message(2)]
        )
    assert isinstance(greeted, Done)
    assert json.loads(greeted.effects[0].data)["payload"] == {"name": "Ada", "times": 1}
    assert isinstance(refused, Dead)
