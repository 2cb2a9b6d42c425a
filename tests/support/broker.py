"""A real nats-server: started in milliseconds, killed and restarted on the same store and port."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from router.process.embedded import server_binary
from tests.support.ports import free_port
from tests.support.startable import Startable


class Broker(Startable):
    """One nats-server child process. `extra` lines go into its configuration (accounts, limits)."""

    def __init__(
        self,
        *extra: str,
        max_payload: int = 8 * 1024 * 1024,
        sync_always: bool = False,
        store_limit: int | None = None,
        jetstream: bool = True,
        domain: str | None = None,
        max_buffered: int | None = None,
    ) -> None:
        self._extra = extra
        # bytes, of all streams together
        self._limit = f", max_file_store: {store_limit}" if store_limit is not None else ""
        self._has_jetstream = jetstream
        self._domain = f", domain: {domain}" if domain is not None else ""
        # messages of one stream that may wait to be stored
        self._buffered = f", max_buffered_msgs: {max_buffered}" if max_buffered is not None else ""
        # every publish ack waits for the disk
        self._sync = ", sync_interval: always" if sync_always else ""
        self._max_payload = max_payload
        self._home = Path(tempfile.mkdtemp(prefix="router-test-"))
        self._port = free_port()  # kept over restarts
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def monitor_url(self) -> str:
        """Of a server that was given a line `http`."""
        return self._listed("monitoring")

    @property
    def websocket_url(self) -> str:
        """Of a server that was given a line `websocket`."""
        return self._listed("websocket")

    def _listed(self, what: str) -> str:
        (ports,) = self._home.glob("*.ports")
        url: str = json.loads(ports.read_text())[what][0]
        return url

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server has written so far."""
        return (self._home / "server.log").read_text()

    def start(self) -> Self:
        for old in self._home.glob("*.ports"):
            old.unlink()
        config = self._write_config()
        log = (self._home / "server.log").open("ab")
        self._process = subprocess.Popen(self._command(config), stdout=log, stderr=log)
        self._port = self._listening()
        return self

    def _command(self, config: Path) -> list[str]:
        return [server_binary(), "-c", str(config)]

    def reload(self, *extra: str, max_payload: int | None = None) -> None:
        """SIGHUP, after an operator changed its configuration: other lines, another limit. Returns
        at once.
        """
        assert self._process is not None
        self._extra = extra or self._extra
        self._max_payload = max_payload if max_payload is not None else self._max_payload
        self._write_config()
        self._process.send_signal(signal.SIGHUP)

    def _write_config(self) -> Path:
        config = self._home / "nats.conf"
        lines = [
            f'listen: "127.0.0.1:{self._port}"',
            f"max_payload: {self._max_payload}",
            *(
                [
                    (
                        f"jetstream {{ store_dir: "
                        f"{json.dumps(str(self._home / 'js'))}"
                        f"{self._sync}{self._limit}{self._domain}{self._buffered} }}"
                    )
                ]
                if self._has_jetstream
                else []
            ),
            f"ports_file_dir: {json.dumps(str(self._home))}",
            *self._extra,
        ]
        config.write_text("\n".join(lines))
        return config

    def _listening(self) -> int:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError((self._home / "server.log").read_text())
            for file in self._home.glob("*.ports"):
                try:
                    return int(json.loads(file.read_text())["nats"][0].rsplit(":", 1)[1])
                except (ValueError, KeyError, IndexError):
                    pass
            time.sleep(0.002)
        raise RuntimeError("nats-server does not listen")

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def logged(self, text: str) -> int:
        """How many lines of its log hold this."""
        return (self._home / "server.log").read_text(errors="replace").count(text)

    def pause(self) -> None:
        """SIGSTOP: connected, and silent. Returns when it stands still, which takes a moment on a
        busy machine.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def unpause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def snapshot(self) -> Iterator[Path]:
        """A copy of its store, as long as the block lasts; the server must not run."""
        with tempfile.TemporaryDirectory(prefix="router-test-") as copy:
            shutil.copytree(self._home / "js", Path(copy) / "js")
            yield Path(copy) / "js"

    def restore(self, copy: Path) -> None:
        """The store as it was: what a disk may hold after a power failure. The server must not run."""
        shutil.rmtree(self._home / "js")
        shutil.copytree(copy, self._home / "js")

    def wipe(self) -> None:
        """The store of a new disk: nothing. The server must not run."""
        shutil.rmtree(self._home / "js")

    def retire(self) -> None:
        """Lame duck mode: it gives its leaders away, closes its clients one by one and ends.
        Returns when it has ended.
        """
        self._end(signal.SIGUSR2)

    def damage(self, place: float) -> None:
        """Turn one bit of its first block, at this part of the file. The server must not run."""
        block = min((self._home / "js").rglob("*.blk"))
        data = bytearray(block.read_bytes())
        data[int(len(data) * place)] ^= 0x10
        block.write_bytes(data)

    def has_durable_state(self) -> bool:
        """Whether it has written a durable's state, which it does some time after making it."""
        return any(file.stat().st_size for file in (self._home / "js").rglob("o.dat"))

    def tear_durables(self) -> None:
        """What a power cut left of a durable's state: zeros. The server must not run."""
        for file in (self._home / "js").rglob("o.dat"):
            file.write_bytes(bytes(12))

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self._home, ignore_errors=True)
