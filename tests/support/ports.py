"""Ports for servers that must be told theirs before they start, or keep theirs over a restart.

A port that the system gives (bind to 0) is from the range of which it also gives one to each
outgoing connection: between the probe and the server's start a connection of any process may get
it. So these are from below that range, and each is claimed by a lock that this process holds until
it ends: two processes that run tests never get the same one.
"""

import fcntl
import os
import random
import socket
import tempfile
from contextlib import suppress
from functools import cache

FIRST, LAST = 10_000, 32_767  # Linux gives ports from 32 768 on (net.ipv4.ip_local_port_range)
_choice = random.SystemRandom()  # a test that seeds `random` does not seed this
_claimed: set[int] = set()


def free_ports(count: int) -> list[int]:
    """So many ports of 127.0.0.1, each of them for this process alone."""
    return [free_port() for _ in range(count)]


def free_port() -> int:
    while True:
        port = _choice.randint(FIRST, LAST)
        if port not in _claimed and _claim(port) and _is_free(port):
            return port


def _claim(port: int) -> bool:
    """One byte of a file for each port; the system drops the locks when this process ends."""
    with suppress(OSError):
        fcntl.lockf(_open_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        _claimed.add(port)
        return True
    return False


@cache
def _open_claims() -> int:
    return os.open(
        f"{tempfile.gettempdir()}/router-test-ports-{os.getuid()}",
        os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
        0o600,
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False
