"""`router serve --embedded --gateway`: an HTTP client is answered by one command."""

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.cli import ServedRouter, serve_router
from tests.support.fleet import is_there
from tests.support.waiting import until

ANY_PORTS = ("--http-port", "0", "--nats-port", "0", "--store", "s")
ANY_PORT = {"ROUTER_GATEWAY__PORT": "0", "ROUTER_GATEWAY__PAGES_PORT": "0"}


def read_ready(served: ServedRouter) -> dict[str, str]:
    """The gateway's line; the provider's comes before it or after."""
    assert served.process.stdout is not None
    lines = [json.loads(served.process.stdout.readline()) for _ in range(2)]
    told = {line["event"]: line for line in lines}
    assert set(told) == {"gateway.ready", "provider.ready"}
    return dict(told["gateway.ready"])


def ask(ready: dict[str, str], model: str) -> str | None:
    """What the provider said; None while it is not known yet."""
    body = {"model": model, "messages": [{"role": "user", "content": "hello there"}]}
    request = urllib.request.Request(
        f"{ready['url']}/chat/completions",
        json.dumps(body).encode(),
        {"authorization": f"Bearer {ready['key']}"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return str(json.load(answer)["choices"][0]["message"]["content"])
    except urllib.error.HTTPError as exc:
        if exc.code in (404, 502):
            return None
        raise


async def test_it_prints_an_address_and_a_key_that_work_and_ends_with_the_router(
    tmp_path: Path,
) -> None:
    with serve_router(
        "--embedded", "--gateway", *ANY_PORTS, cwd=tmp_path, environ=ANY_PORT
    ) as served:
        ready, children = read_ready(served), served.list_children()
        await until(lambda: ask(ready, "router/echo") == "hello there")
        assert len(children) == 3  # the broker, the gateway, the provider
        assert served.told(signal.SIGTERM) == 0
    assert not any(map(is_there, children))
