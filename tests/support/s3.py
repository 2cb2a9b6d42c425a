"""A real S3 server on this machine (moto), a process of its own: killed and started again on its
objects and port.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote
from urllib.request import Request, urlopen

import msgspec

BUCKET = "usage-bucket"
KEY_ID = "the-key"
REGION = "us-east-1"

Environ = dict[str, Any]  # of WSGI


class Fault(msgspec.Struct, kw_only=True):
    """What happens to requests of this method whose path has this part. `times`: to so many; after
    `passes` that are left alone.
    """

    part: str
    what: Literal["error_before", "error_after", "die_before", "die_after", "no_condition"]
    method: str = "PUT"
    times: int = 1
    passes: int = 0

    def hits(self, environ: Environ) -> bool:
        if (
            environ["REQUEST_METHOD"] != self.method
            or self.part not in unquote(environ["PATH_INFO"])
            or self.times <= 0
        ):
            return False
        self.passes -= 1
        self.times -= self.passes < 0
        return self.passes < 0


class S3Server:
    """One server with one bucket. `environment`: the variables that a command needs to reach it."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="router-test-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": "the-secret",
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def locate(self, name: str) -> str:
        """The URI of a warehouse in the bucket."""
        return f"s3://{BUCKET}/{name}"

    def start(self) -> "S3Server":
        (self._home / "port").unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.support.s3_server", str(self._home), str(self.port)]
        with (self._home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.port = self._find_port()
        return self

    def _find_port(self) -> int:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(self.log)
            if (self._home / "port").exists():
                return int((self._home / "port").read_text())
            time.sleep(0.01)
        raise RuntimeError("the S3 server does not listen")

    @property
    def log(self) -> str:
        return (self._home / "server.log").read_text()

    @property
    def is_over(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def list_objects(self) -> list[str]:
        """The keys, quoted."""
        return sorted(
            file.name for file in (self._home / "objects").iterdir() if file.suffix != ".part"
        )

    def arm(self, *faults: Fault) -> None:
        """Instead of the faults that are armed now."""
        with urlopen(Request(f"{self.url}/-/faults", msgspec.json.encode(faults), method="POST")):
            pass

    def wait(self) -> None:
        """Until it is dead by a fault."""
        assert self._process is not None
        self._process.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)


@contextmanager
def an_s3_server() -> Iterator[S3Server]:
    """A server of a test's own, and its variables in this process' environment."""
    server, before = S3Server().start(), dict(os.environ)
    os.environ.update(server.environment)
    try:
        yield server
    finally:
        os.environ.clear()
        os.environ.update(before)
        server.remove()
