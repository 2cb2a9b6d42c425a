"""deploy/nats as it is shipped, TLS and all, with certificates made by its own script."""

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from router.config import Settings, load
from router.process.embedded import server_binary
from tests.support.deployed import DEPLOY, TOML, inbox_of, write_keys
from tests.support.startable import Startable

NATS = DEPLOY / "nats"


class ShippedDeployment(Startable):
    """The directory that an operator would make, and the server on it. `hosts` are names of the
    server's certificate beside localhost.
    """

    def __init__(self, *hosts: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="router-test-"))
        for file in NATS.glob("*.conf"):
            text = file.read_text().replace('"/data/jetstream"', json.dumps(str(self.home / "js")))
            (self.home / file.name).write_text(text)
        write_keys(self.home)
        certificates(self.home / "tls", *hosts)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def log(self) -> str:
        """What the server has written so far."""
        return (self.home / "server.log").read_text()

    def start(self) -> Self:
        """On any free port of this host, its store under `home`; all else is the file's."""
        options = ("-a", "127.0.0.1", "-p", "-1", "-m", "-1", "--ports_file_dir", str(self.home))
        log = (self.home / "server.log").open("ab")
        command = [server_binary(), "-c", "nats-server.conf", *options]
        self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.home)
        self.port = self._listening()
        return self

    def check(self) -> subprocess.CompletedProcess[str]:
        """The server's own check of the file."""
        command = [server_binary(), "-t", "-c", "nats-server.conf"]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.home)

    def settings(self, role: str, **more: object) -> Settings:
        """With this role's key, and a certificate of the server's authority unless `more` says
        otherwise.
        """
        tls = self.home / "tls"
        given = {
            "nats.url": f"tls://127.0.0.1:{self.port}",
            "nats.nkey_file": self.home / f"{role}.nk",
            "nats.inbox_prefix": inbox_of(role),
            "nats.tls_ca": tls / "ca.pem",
            "nats.tls_cert": tls / "client.pem",
            "nats.tls_key": tls / "client.key",
            "http.port": 0,
        }
        return load(
            TOML, {**given, **{name.replace("__", "."): value for name, value in more.items()}}, {}
        ).settings

    def remove(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def _listening(self) -> int:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, self.log
            for file in self.home.glob("*.ports"):
                try:
                    return int(json.loads(file.read_text())["nats"][0].rsplit(":", 1)[1])
                except (ValueError, KeyError, IndexError):
                    pass
            time.sleep(0.002)
        raise AssertionError("nats-server does not listen")


def certificates(directory: Path, *hosts: str) -> None:
    """An authority of its own, and what it signs, by the script that is shipped."""
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["sh", str(NATS / "certificates.sh"), str(directory), *hosts],
        check=True,
        capture_output=True,
    )
