"""What the neighbours do.

flood       requests far above what can be answered; `push`, `names` and `bodies` are few and large
forge       results of assignments that there never were
streams     many streams of one provider, opened and listened to by one client
probe       not a neighbour: as many requests in flight as the router likes best, to see how many it
            answers a second
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from uuid import uuid4

from tests.rigs.neighbours.asking import (
    DECIDE,
    DECIDED,
    LOUD,
    PROVIDERS,
    QUIET,
    RESULTS,
    STREAM,
    Frame,
    header_lines,
    invocation_body,
    read_verdict,
    request_body,
    request_frame,
)
from tests.rigs.neighbours.load import Load
from tests.rigs.neighbours.play import Cue
from tests.rigs.neighbours.wire import Wire, publish_frame

NAME = "NAME-OF-THE-REQUEST"
ROOM = 4_000  # bytes that a request needs beside what makes it large
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def act(
    cue: Cue,
    *,
    url: str,
    what: str,
    rate: float,
    seconds: float,
    sockets: int = 1,
    burst: int = 0,
    is_answered: bool = True,
    **how: object,
) -> dict[str, object]:
    """One of the makers below, at a rate. `burst`: so many at once in the beginning."""
    frame = MAKERS[what](uuid4().hex[:8], **how)
    wires = [Wire(url) for _ in range(sockets)]
    load = Load(wires, frame, rate=rate, seconds=seconds, burst=burst, is_answered=is_answered)
    cue.wait_for_go()
    return load.run()


# -- makers: a run's own name and options -> number, inbox -> a frame


def _flood(
    run: str,
    *,
    policy: str = "default",
    subject: str = DECIDE,
    has_id: bool = True,
    tenants: int = 1,
    size: int = 0,
) -> Frame:
    """Requests as small as those of the quiet tenants, or with a payload of `size` bytes.
    `tenants`: how many names they bear by turns.
    """
    payload = {"payload": "f" * size} if size else {}
    each = [
        _alike(
            run,
            request_body(f"{LOUD}-{n}" if n else LOUD, NAME, policy=policy, **payload),
            subject,
            has_id=has_id,
        )
        for n in range(tenants)
    ]
    return each[0] if tenants == 1 else lambda number, inbox: each[number % tenants](number, inbox)


def _push(run: str, *, size: int = 900_000, subject: str = DECIDE) -> Frame:
    """Requests whose assignments are large."""
    return _alike(run, request_body(LOUD, NAME, payload="p" * size, push=True), subject)


def _dear(
    run: str,
    *,
    values: int = 19_800,
    depth: int = 58,
    size: int = 850_000,
    subject: str = DECIDE,
) -> Frame:
    """The dearest requests that are legal: as many values as may be, as deep as may be, and large."""
    nested: object = "n"
    for _ in range(depth):
        nested = [nested]
    context = {"nested": [nested] * (values // (depth + 1))}
    body = request_body(LOUD, NAME, payload="d" * size, context=context)
    return _alike(run, body, subject)


def _broken(run: str, *, subject: str = DECIDE) -> Frame:
    """Requests whose headers no parser takes."""
    body = request_body(LOUD, NAME)

    def frame(number: int, inbox: str) -> bytes:
        name = f"{run}-{number}"
        return publish_frame(
            subject,
            body.replace(NAME.encode(), name.encode()),
            reply=inbox,
            headers="no colon\r\n: no name\r\n",
        )

    return frame


def _bodies(run: str, *, size: int = 8_000_000, subject: str = DECIDE) -> Frame:
    """Requests of eight times what is accepted."""
    return _alike(run, request_body(LOUD, NAME, payload="b" * size), subject)


def _alike(run: str, body: bytes, subject: str, *, has_id: bool = True) -> Frame:
    """The same request but for its name: cut in pieces beforehand, for making one must cost little."""
    pieces = body.split(NAME.encode())

    def frame(number: int, inbox: str) -> bytes:
        name = f"{run}-{number}"
        return publish_frame(
            subject,
            name.encode().join(pieces),
            reply=inbox,
            headers=header_lines(name) if has_id else "",
        )

    return frame


def _names(
    run: str, *, size: int = 1_000_000, subject: str = DECIDE, results: str = RESULTS
) -> Frame:
    """A megabyte where an id is expected, in every field that has one, each another one; by turns a
    request and a result.
    """
    long = "n" * (size - ROOM)

    def frame(number: int, inbox: str) -> bytes:
        name, text = f"{run}-{number}", f"{LETTERS[number % 26]}{number}{long}"
        makers: tuple[Callable[[], bytes], ...] = (
            lambda: request_frame(subject, request_body(text, name), name, inbox),
            lambda: request_frame(subject, request_body(LOUD, name, policy=text), name, inbox),
            lambda: request_frame(
                subject, request_body(LOUD, name, message_type=text, push=True), name, inbox
            ),
            lambda: publish_frame(
                results, _result(LOUD, name, text, "success"), headers=header_lines(name)
            ),
        )
        return makers[number % len(makers)]()

    return frame


def _forge(run: str, *, subject: str = RESULTS) -> Frame:
    """Results of assignments that there never were: each of the quiet tenant's providers has timed
    out.
    """
    providers = cycle(PROVIDERS)

    def frame(number: int, _: str) -> bytes:
        name = f"{run}-{number}"
        return publish_frame(
            subject, _result(QUIET, name, next(providers), "timeout"), headers=header_lines(name)
        )

    return frame


def _result(tenant: str, name: str, provider: str, status: str) -> bytes:
    told = {
        "tenant_id": tenant,
        "assignment_id": f"forged-{name}",
        "provider_id": provider,
        "status": status,
    }
    return json.dumps({**told, "job": {"type": "chat"}, "latency_ms": 1000, "cost": 0.1}).encode()


MAKERS: dict[str, Callable[..., Frame]] = {
    "flood": _flood,
    "push": _push,
    "bodies": _bodies,
    "dear": _dear,
    "broken": _broken,
    "names": _names,
    "forge": _forge,
}


# -- streams


def open_streams(cue: Cue, *, url: str, count: int, seconds: float) -> dict[str, object]:
    """All at once; one that is refused or ends is opened again a second later."""
    wire = Wire(url)
    inbox = f"_INBOX.{uuid4().hex[:12]}"
    wire.subscribe(f"{inbox}.*")
    began = cue.wait_for_go()
    due = dict.fromkeys(range(count), began)  # by number, when it is opened
    answers: Counter[str] = Counter()
    opened = 0
    while (now := time.monotonic()) < began + seconds:
        for number in [number for number, at in due.items() if at <= now]:
            del due[number]
            opened += 1
            name = f"s-{inbox[7:]}-{opened}"
            wire.publish_nowait(
                request_frame(
                    STREAM, invocation_body(LOUD, name, "trickle"), name, f"{inbox}.{number}"
                )
            )
        for subject, _, body in wire.pump(0.02):
            is_last = b'"done":true' in body.replace(b" ", b"")
            answers[read_verdict(body) if is_last else "chunk"] += 1
            if is_last:
                due[int(subject.rpartition(".")[2])] = now + 1.0
    ended = time.monotonic()
    wire.close()  # and with it all who listen
    return {
        "began": began,
        "ended": ended,
        "sent": opened,
        "is_answered": True,
        "answers": dict(answers),
    }


# -- the probe


def probe(cue: Cue, *, url: str, in_flight: int, seconds: float) -> dict[str, object]:
    """Answers a second, `in_flight` requests unanswered at once; of the last two thirds of the
    time.
    """
    wire = Wire(url)
    inbox = f"_INBOX.{uuid4().hex[:12]}"
    wire.subscribe(f"{inbox}.*")
    frame = _flood(uuid4().hex[:8])
    began = cue.wait_for_go()
    sent = done = early = 0
    while (now := time.monotonic()) < began + seconds:
        while sent - done < in_flight:
            wire.publish_nowait(frame(sent, f"{inbox}.{sent}"))
            sent += 1
        done += sum(read_verdict(body) == DECIDED for _, _, body in wire.pump(0.01))
        if now < began + seconds / 3:
            early = done
    wire.close()
    return {"sent": sent, "answered": done, "capacity": (done - early) / (seconds * 2 / 3)}
