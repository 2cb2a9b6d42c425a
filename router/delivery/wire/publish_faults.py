"""Whose fault it is that a publish was refused, by JetStream's error number.

    MESSAGE   it is too large for its stream, or for the connection    a dead letter; its requester
              is told
    FULL      the stream, or the account, has no room now              what must be stored there
              waits, the others go on
    STREAM    it takes nothing until an operator mends it              the same; a requester is told
              when its patience is over
    SERVER    no answer, no leader, or no room for any stream          the subscription pauses

A number that no row names is the stream's: it must not stop those that store nothing there.
The numbers: https://github.com/nats-io/nats-server/blob/main/server/errors.json
"""

from __future__ import annotations

from enum import Enum


class PublishFault(Enum):
    """Whose fault a refused publish is."""

    MESSAGE = "message"
    FULL = "full"
    STREAM = "stream"
    SERVER = "server"


# for the stream's `max_msg_size`; also said here of what is above the server's `max_payload`
TOO_LARGE = 10054
HEADERS_TOO_LARGE = 10097
SEALED = 10109
NO_STREAM = 10059  # no stream takes the subject

TOO_LARGE_CODES = frozenset({TOO_LARGE, HEADERS_TOO_LARGE})

# No room in the account, in memory, on the disk; the stream is full, or its disk fails.
STORAGE_FULL_CODES = frozenset({10002, 10028, 10047, 10077})

# 0: silence. No leader (10008, 10009); no resources of the server (10023); JetStream off (10039,
# 10076); offline (10118); an earlier copy
# under way (10158, 10163); too many requests (10167): a moment later the same publish may be taken.
SERVER_CODES = frozenset({0, 10008, 10009, 10023, 10039, 10076, 10118, 10158, 10163, 10167})


def find_fault(err_code: int) -> PublishFault:
    """Whose fault it is."""
    if err_code in TOO_LARGE_CODES:
        return PublishFault.MESSAGE
    if err_code in STORAGE_FULL_CODES:
        return PublishFault.FULL
    return PublishFault.SERVER if err_code in SERVER_CODES else PublishFault.STREAM
