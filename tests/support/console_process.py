"""A console as a process of its own in which the admin key's holder may write; killed as `kill -9`
does.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from router.config import Settings
from tests.support.cli import COMMAND, clean_environment
from tests.support.console_login import ADMIN_KEY, Browser


class ConsoleProcess:
    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url

    async def log_in(self) -> Browser:
        browser = Browser(SimpleNamespace(url=self.url))  # type: ignore[arg-type]
        assert (await browser.log_in()).status_code == 303
        return browser

    def wait(self) -> int:
        return self.process.wait(60)


@contextmanager
def a_console_process(
    settings: Settings, crashpoint: str | None = None
) -> Iterator[ConsoleProcess]:
    """Serving; `crashpoint`: where it kills itself."""
    given = {
        "ROUTER_CONSOLE__PORT": "0",
        "ROUTER_CONSOLE__METRICS": "http://127.0.0.1:1",
        "ROUTER_CONSOLE__WRITES": "true",
        "ROUTER_ADMIN__API_KEY": ADMIN_KEY,
        "ROUTER_DECIDE__SUBJECT": settings.decide.subject,
        "ROUTER_STREAMS__DECIDE__NAME": settings.streams.decide.name,
        "ROUTER_STREAMS__DLQ__NAME": settings.streams.dlq.name,
        "ROUTER_STREAMS__AUDIT__NAME": settings.streams.audit.name,
        **({"CRASHPOINT": crashpoint} if crashpoint else {}),
    }
    command = [*COMMAND, "console", "--nats-url", settings.nats.url[0]]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=sys.stderr.fileno() if os.environ.get("LOUD") else subprocess.DEVNULL,
        text=True,
        env=clean_environment(given),
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield ConsoleProcess(process, str(ready["http"]).rstrip("/"))
    finally:
        process.kill()
        process.wait()
