"""A standalone Spark cluster on this machine: a master, and workers of some cores, each a process
that is killed and started again.

A worker starts the executors of a driver, and an executor the Python processes of its tasks: all of
them are in the worker's session.
"""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pyspark

from tests.support.ports import free_port

HOST = "127.0.0.1"
EXECUTOR, PYTHON = "CoarseGrainedExecutorBackend", "pyspark.daemon"  # in their command lines
LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkCluster:
    """A context: nothing of it stays behind. `home`: for logs and the workers' folders."""

    def __init__(self, home: Path, workers: int = 2, cores: int = 1) -> None:
        port = free_port()
        self.master = f"spark://{HOST}:{port}"
        self.workers = [f"worker-{number}" for number in range(workers)]
        self._home = home
        self._cores = cores
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # sessions of killed workers: their executors notice it, and end, or not
        self._orphaned: list[int] = []

    def __enter__(self) -> "SparkCluster":
        self._home.mkdir(parents=True, exist_ok=True)
        self._start("master", "master.Master", "--port", self.master.rpartition(":")[2])
        for name in self.workers:
            self._start_worker(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        for leader in [*self._orphaned, *(process.pid for process in self._processes.values())]:
            kill_session(leader)

    def kill_worker(self, name: str) -> None:
        """Kill its process alone, and start another one in its place."""
        process = self._processes[name]
        process.kill()
        process.wait()
        self._orphaned.append(process.pid)
        self._start_worker(name)

    def list_executors(self) -> list[int]:
        return self._find(EXECUTOR)

    def list_pythons(self) -> list[int]:
        """The Python processes that run tasks, and those that fork them."""
        return self._find(PYTHON)

    def _find(self, command: str) -> list[int]:
        leaders = [self._processes[name].pid for name in self.workers]
        return [
            pid
            for leader in leaders
            for pid in list_session(leader)
            if command in read_command(pid)
        ]

    def _start_worker(self, name: str) -> None:
        place = str(self._home / name)
        self._start(
            name,
            "worker.Worker",
            "--cores",
            str(self._cores),
            "--memory",
            "1g",
            "--work-dir",
            place,
            self.master,
        )

    def _start(self, name: str, what: str, *arguments: str) -> None:
        spark = _find_spark()
        command = [
            str(spark / "bin/spark-class"),
            f"org.apache.spark.deploy.{what}",
            "--host",
            HOST,
            "--webui-port",
            "0",
            *arguments,
        ]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": LEAN,
        }
        with (self._home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )


def kill_process(pid: int) -> bool:
    """False: it was gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill_session(leader: int) -> None:
    """Kill what is left of a session, until nothing is."""
    while members := list_session(leader):
        for pid in members:
            kill_process(pid)


def list_session(leader: int) -> list[int]:
    """The live processes of a session. One that is dead and not yet buried has no command line."""
    pids = [int(process.name) for process in Path("/proc").iterdir() if process.name.isdigit()]
    return [pid for pid in pids if _read_session(pid) == leader and read_command(pid)]


def read_command(pid: int) -> str:
    """The command line; empty if the process is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def _read_session(pid: int) -> int:
    with suppress(OSError):
        return os.getsid(pid)
    return -1


def _find_spark() -> Path:
    return Path(pyspark.__file__).parent
