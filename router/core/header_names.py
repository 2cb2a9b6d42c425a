"""Headers as senders write them: in any case, and one of them several times.

Go's carrier of OpenTelemetry writes `Traceparent`, other clients `TRACEPARENT`, and W3C lets them
(https://www.w3.org/TR/trace-context/#header-name). So names are compared without case when a header
block is read, once for all readers. Of two spellings the exact one holds. Names of the server
(`Nats-*`) are exact, as the server itself takes them: `nats-msg-id` is no id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

# -- Headers of which one stands several times: readers take its first value, a dead letter and a
# replay keep them all.
#
# X-Own: one, X-Own: two      headers["X-Own"] == "one"; tell_headers(headers)["X-Own"] == ["one",
#                             "two"]
#
# A copy of them as a plain dict has the first values alone, so what is sent on is made by
# `replace_headers` and `keep_headers`.


class RepeatedHeaders(dict[str, str]):
    """The first value of each name, and all values of those that stand several times."""

    __slots__ = ("repeated",)

    def __init__(self, first: Mapping[str, str], repeated: Mapping[str, Sequence[str]]) -> None:
        super().__init__(first)
        self.repeated = repeated


def collect_headers(lines: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers of names with their values, in order: a plain dict, where no name stands twice."""
    first: dict[str, str] = {}
    repeated: dict[str, list[str]] = {}
    for name, value in lines:
        if name in first:
            repeated.setdefault(name, [first[name]]).append(value)
        else:
            first[name] = value
    return RepeatedHeaders(first, repeated) if repeated else first


def list_lines(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each value of each name, the values of one name in order."""
    repeated = headers.repeated if isinstance(headers, RepeatedHeaders) else {}
    for name, value in headers.items():
        yield from ((name, line) for line in repeated.get(name, (value,)))


def tell_headers(headers: Mapping[str, str]) -> dict[str, str | Sequence[str]]:
    """Headers as JSON: a text by name, or a list of texts."""
    return (
        {**headers, **headers.repeated} if isinstance(headers, RepeatedHeaders) else dict(headers)
    )


def read_headers(told: Mapping[str, object]) -> dict[str, str]:
    """The inverse of `tell_headers`, of what any client may have written: what is no text is left
    out.
    """
    return collect_headers(
        (name, line)
        for name, value in told.items()
        for line in (value if isinstance(value, list) else (value,))
        if isinstance(line, str)
    )


def replace_headers(headers: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """These headers, those that are given in place of all values that they have."""
    if not isinstance(headers, RepeatedHeaders):  # nearly always
        return {**headers, **given}
    kept = ((name, value) for name, value in list_lines(headers) if name not in given)
    return collect_headers(chain(kept, given.items()))


def keep_headers(headers: Mapping[str, str], is_kept: Callable[[str, str], bool]) -> dict[str, str]:
    """Those of the values that are to be kept."""
    return collect_headers(
        (name, value) for name, value in list_lines(headers) if is_kept(name, value)
    )


# -- The headers that Router reads, under the names by which it looks them up; a sender may write
# them in any case.


READ_HEADERS = frozenset(
    {
        *("trace_id", "tenant_id", "version", "traceparent", "tracestate", "cp_phase"),
        *(
            "request_id",
            "push_assignment",
            "Reply-To",
            "Accept",
            "Router-Confirm",
            "Router-Deadline-Ms",
            "Router-Stream",
            "api_key",
        ),
        *("Event-Type", "Event-Version", "Occurred-At", "Correlation-Id", "Causation-Id"),
        *(
            "x-dlq-reason",
            "x-original-msg-id",
            "x-first-stored-ms",
            "x-replay-count",
            "x-replay-run",
        ),
    }
)
_BY_ANY_CASE = {name.lower(): name for name in READ_HEADERS}


def restore_case(headers: dict[str, str]) -> dict[str, str]:
    """The same headers, in the same order, under the names that Router reads."""
    # nearly always names of the server or of the sender's own
    unread = headers.keys() - READ_HEADERS
    if not any(name.lower() in _BY_ANY_CASE for name in unread):
        return headers
    return collect_headers(
        (_restore_name(name, headers), value) for name, value in list_lines(headers)
    )


def _restore_name(name: str, headers: Mapping[str, str]) -> str:
    exact = _BY_ANY_CASE.get(name.lower(), name)
    return name if exact in headers else exact  # where the exact spelling is there too, it holds
