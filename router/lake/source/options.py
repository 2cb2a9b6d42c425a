"""Read and check the source's options. Names are those of Spark's Kafka source where it has the
same option; case does not matter.

    url                   nats://…, comma-separated                  required
    stream                name of the stream                         required
    subject               only messages on it (wildcards allowed)    every subject
    startingOffsets       earliest | latest | a sequence             earliest; a checkpoint wins
    endingOffsets         latest | a sequence, the last one read     latest; batch only
    failOnDataLoss        true | false                               true
    maxOffsetsPerTrigger  messages in a micro-batch, at most         no limit
    maxBytesPerTrigger    bytes in one, at most, by average size     no limit
    minPartitions         ranges read side by side                   2: the source cannot ask for
                          Spark's parallelism
    rowsPerPartition      the smallest size of such a range          20 000
    includeHeaders        false: `headers` is null, and cheaper      true
    timeoutMs             how long the broker may be silent            60 000
    domain                JetStream domain                           none
    name                  of the connection, as the server lists it  none
    user, password, token, credsFile, nkeyFile                       none
    tlsCa, tlsCert, tlsKey, tlsHostname                              none
    inboxPrefix           what its inboxes begin with                _INBOX

Files are read by the process that reads the stream, so every executor needs them at that path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from router.core.errors import Misconfigured

_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f]{1,255}")
_LOGIN = {
    "user",
    "password",
    "token",
    "credsfile",
    "nkeyfile",
    "tlsca",
    "tlscert",
    "tlskey",
    "tlshostname",
    "inboxprefix",
}
_KNOWN = _LOGIN | {
    "url", "stream", "subject", "startingoffsets", "endingoffsets", "failondataloss", "maxoffsetspertrigger", "maxbytespertrigger",
    "minpartitions", "rowsperpartition", "includeheaders", "timeoutms", "domain", "name", "path",
}  # fmt: skip


class SourceOptions(Struct, frozen=True, kw_only=True):
    """Checked options. They travel to executors with their logins, as the options of Spark's own
    sources do.
    """

    url: str
    stream: str
    subject: str | None = None
    # a sequence; 0: the earliest there is; None: the head when the query starts
    start: int | None = 0
    end: int | None = None  # the last sequence to read; None: the head
    fails_on_loss: bool = True
    max_rows: int | None = None
    max_bytes: int | None = None
    partitions: int = 2
    rows_per_partition: int = 20_000
    has_headers: bool = True
    timeout_s: float = 60.0
    domain: str | None = None
    login: Mapping[str, str] = {}

    def __repr__(self) -> str:  # tracebacks may show it
        return f"SourceOptions(stream={self.stream!r}, …)"


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Raises Misconfigured, which names the option and its legal values."""
    options = {name.lower(): value for name, value in given.items() if value is not None}
    if unknown := sorted(set(options) - _KNOWN):
        raise Misconfigured(unknown[0], "is no option of the jetstream source")
    stream = _read_required(options, "stream")
    if not _NAME.fullmatch(stream):
        raise Misconfigured("stream", "is not a stream's name")
    if "maxoffsetspertrigger" in options and "maxbytespertrigger" in options:
        raise Misconfigured("maxOffsetsPerTrigger, maxBytesPerTrigger", "give one of them")
    return SourceOptions(
        url=_read_required(options, "url"),
        stream=stream,
        subject=options.get("subject"),
        start=_read_offset(options, "startingOffsets", {"earliest": 0, "latest": None}, "earliest"),
        end=_read_offset(options, "endingOffsets", {"latest": None}, "latest"),
        fails_on_loss=_read_truth(options, "failOnDataLoss"),
        max_rows=_read_count(options, "maxOffsetsPerTrigger"),
        max_bytes=_read_count(options, "maxBytesPerTrigger"),
        partitions=_read_count(options, "minPartitions") or 2,
        rows_per_partition=_read_count(options, "rowsPerPartition") or 20_000,
        has_headers=_read_truth(options, "includeHeaders"),
        timeout_s=(_read_count(options, "timeoutMs") or 60_000) / 1000,
        domain=options.get("domain"),
        login={name: options[name] for name in (*_LOGIN, "name") if name in options},
    )


def _read_required(options: Mapping[str, str], name: str) -> str:
    if not (value := options.get(name, "").strip()):
        raise Misconfigured(name, f'is required: .option("{name}", …)')
    return value


def _read_offset(
    options: Mapping[str, str], name: str, words: Mapping[str, int | None], default: str
) -> int | None:
    value = options.get(name.lower(), default)
    if value in words:
        return words[value]
    if value.isdigit() and int(value) > 0:
        return int(value)
    raise Misconfigured(name, f"{value!r}: {', '.join(words)} or a stream sequence from 1")


def _read_count(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    if value is None:
        return None
    if value.isdigit() and int(value) > 0:
        return int(value)
    raise Misconfigured(name, f"{value!r}: a whole number from 1")


def _read_truth(options: Mapping[str, str], name: str) -> bool:
    """True unless the option says otherwise."""
    value = options.get(name.lower(), "true").lower()
    if value not in ("true", "false"):
        raise Misconfigured(name, f"{value!r}: true or false")
    return value == "true"
