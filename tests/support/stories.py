"""What the stories share: requests, recorders of every answer, and the broker's, the dead letters'
and the operator's view.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError
from nats.js.kv import KeyValue
from prometheus_client.parser import text_string_to_metric_families

from router.config import Settings
from router.core.message import parse_ack_subject
from router.core.outcome import Handler
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.operate.topology.declared_topology import declare_topology
from router.serve import decide_subscription
from tests.support.delivery import connected
from tests.support.made_anew import delete_streams, make_anew, retry_while_removed
from tests.support.patient_client import PATIENCE_S
from tests.support.requests import a_body
from tests.support.waiting import until

Json = dict[str, Any]

# longer than the inbox wait and the duplicate window together: what has not come by then is not on
# its way
SILENCE_S = 0.6


def a_request(name: object, **fields: Any) -> bytes:
    """A good request with an id of its own; `fields` stand at the top level."""
    return json.dumps({**a_body(), "request_id": f"r-{name}", **fields}).encode()


async def ask(
    nc: Client,
    settings: Settings,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 30.0,
) -> Json:
    """A plain NATS request: its first answer, whatever that is."""
    answer = await nc.request(
        settings.decide.subject, body, timeout=timeout_s, headers=dict(headers) if headers else None
    )
    decoded: Json = json.loads(answer.data)
    return decoded


class MessageRecorder:
    """Everything that arrives, kept by the subject that it arrived on."""

    def __init__(self) -> None:
        self.heard: dict[str, list[bytes]] = {}

    @classmethod
    async def on(cls, nc: Client, subject: str) -> "MessageRecorder":
        ears = cls()
        await nc.subscribe(subject, cb=ears._hear)
        await nc.flush()
        return ears

    async def _hear(self, message: Msg) -> None:
        self.heard.setdefault(message.subject, []).append(message.data)

    def __len__(self) -> int:
        return sum(len(messages) for messages in self.heard.values())

    @property
    def counts(self) -> dict[str, int]:
        return {subject: len(messages) for subject, messages in self.heard.items()}

    @property
    def subjects(self) -> set[str]:
        return set(self.heard)


class Inboxes(MessageRecorder):
    """Inboxes under one root: each question gets its own, so that every answer is counted where it
    belongs.
    """

    root = ""

    @classmethod
    async def under(cls, nc: Client, name: str) -> "Inboxes":
        inboxes = await cls.on(nc, f"_INBOX.{name}.>")
        assert isinstance(inboxes, Inboxes)
        inboxes.root = f"_INBOX.{name}"
        return inboxes

    def of(self, name: object) -> str:
        return f"{self.root}.{name}"

    def answers(self, name: object) -> list[bytes]:
        return self.heard.get(self.of(name), [])

    async def publish(
        self,
        nc: Client,
        settings: Settings,
        name: object,
        body: bytes | None = None,
        **headers: str,
    ) -> None:
        """Ask with the inbox as the reply address, as any NATS client does; `Nats-Msg-Id` is the
        name unless given.
        """
        given = {
            "Nats-Msg-Id": f"m-{name}",
            **{key.replace("_", "-"): value for key, value in headers.items()},
        }
        await nc.publish(
            settings.decide.subject, body or a_request(name), reply=self.of(name), headers=given
        )

    async def publish_named(
        self, nc: Client, settings: Settings, name: object, body: bytes | None = None
    ) -> None:
        """Ask with the inbox in `Reply-To`: whichever instance decides it can answer, today or
        after a crash.
        """
        headers = {"Nats-Msg-Id": f"m-{name}", "Reply-To": self.of(name)}
        await nc.publish(settings.decide.subject, body or a_request(name), headers=headers)


def wrap_decide_handler(monkeypatch: pytest.MonkeyPatch, around: Callable[[Any], Handler]) -> None:
    """Put a handler around every router's own decide handler; all else is real."""
    make = decide_subscription.build_decide_handler
    monkeypatch.setattr(
        decide_subscription, "build_decide_handler", lambda *given: around(make(*given))
    )


async def expect_others_to_be_answered(nc: Client, settings: Settings, count: int) -> None:
    """Plain requests, which have nothing to store."""
    answers = await asyncio.gather(
        *(ask(nc, settings, a_request(f"plain-{number}")) for number in range(count))
    )
    assert [answer["ok"] for answer in answers] == [True] * count


async def says_that_others_go_on(http: str) -> bool:
    """What /readyz says where one message waits alone."""
    _, text = await read_page(http, "/readyz")
    return "others go on" in text


# -- the broker's view -----------------------------------------------------------------------------


async def make_topology(settings: Settings) -> None:
    """What an operator does with `router topology apply`."""
    async with connected(*settings.nats.url) as connection:
        await retry_while_removed(
            lambda: topology.apply(
                JetStream(connection, timeout_s=PATIENCE_S), declare_topology(settings)
            )
        )


@asynccontextmanager
async def a_topology(url: str) -> AsyncIterator[JetStream]:
    """What a router by default has of streams and buckets, made anew, and no router."""
    wanted = declare_topology(Settings())
    async with connected(url) as connection:
        jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        await make_anew(jetstream, wanted)
        yield jetstream
        await delete_streams(jetstream, (spec.name for spec in wanted.streams))


async def read_last_sequence(nc: Client, settings: Settings) -> int:
    """The last sequence of the decide stream."""
    return (await nc.jsm().stream_info(settings.streams.decide.name)).state.last_seq


async def is_settled(nc: Client, settings: Settings) -> bool:
    """Whether nothing is left to do for the decide consumer."""
    return await has_acked_all(nc, settings.streams.decide.name, settings.decide.durable)


async def has_acked_all(nc: Client, stream: str, durable: str) -> bool:
    """Whether everything that stands in the stream for this durable was delivered to it, and is
    acked for good.

    Right after its publish ack a message may not be counted as pending yet: the server's consumer
    hears of it a little later. So the stream is asked first for the last message that the durable
    takes, and the durable must have come as far.
    """
    taken = (await nc.jsm().consumer_info(stream, durable)).config.filter_subject
    last = await _read_last_on(nc, stream, taken or ">")
    info = await nc.jsm().consumer_info(stream, durable)
    reached = info.delivered.stream_seq if info.delivered else 0
    return reached >= last and (info.num_pending, info.num_ack_pending) == (0, 0)


async def _read_last_on(nc: Client, stream: str, subject: str) -> int:
    """The sequence of the last message that stands on a subject, 0 if none does. Its headers, which
    may be damaged, are not read.
    """
    asked = json.dumps({"last_by_subj": subject}).encode()
    answer = json.loads(
        (await nc.request(f"$JS.API.STREAM.MSG.GET.{stream}", asked, timeout=60)).data
    )
    return int(answer["message"]["seq"]) if "message" in answer else 0


async def read_acks(
    nc: Client, stream: str, durable: str, *, messages: int, signals: int
) -> set[bytes]:
    """The kinds of acks that come until each of so many messages has so many of them: what is kept
    in progress has +WPI alone.
    """
    counted: Counter[int] = Counter()
    kinds: set[bytes] = set()

    async def count(msg: Msg) -> None:
        counted[parse_ack_subject(msg.subject).sequence] += 1
        kinds.add(msg.data)

    subscription = await nc.subscribe(f"$JS.ACK.{stream}.{durable}.>", cb=count)
    try:
        await until(lambda: sum(acks >= signals for acks in counted.values()) >= messages)
    except AssertionError:
        pytest.fail(f"not {signals} acks of each of {messages} messages: {dict(counted)}, {kinds}")
    await subscription.unsubscribe()
    return kinds


async def read_attempt_records(nc: Client, settings: Settings) -> list[str]:
    """The messages of which an attempt is counted. What was handed back unread has a record, too,
    of none.
    """
    bucket = await nc.jetstream().key_value(settings.buckets.attempts.name)
    entries = await asyncio.gather(
        *(_read_entry(bucket, key) for key in await list_keys(nc, settings.buckets.attempts.name))
    )
    return [
        entry.key
        for entry in entries
        if entry is not None and not (entry.value or b"").startswith(b"0")
    ]


async def list_keys(nc: Client, bucket: str) -> list[str]:
    """Every key, also of what was deleted and left a marker.

    nats-py's own `keys` lists none where its consumer's messages come after the answer that the
    consumer has delivered them all.
    """
    prefix = f"$KV.{bucket}."
    info = await nc.jsm().stream_info(f"KV_{bucket}", subjects_filter=f"{prefix}>")
    return [subject.removeprefix(prefix) for subject in info.state.subjects or ()]


async def _read_entry(bucket: KeyValue, key: str) -> KeyValue.Entry | None:
    """None: it was forgotten since it was listed."""
    try:
        return await bucket.get(key)
    except NotFoundError:
        return None


async def has_messages(nc: Client, stream: str, least: float) -> bool:
    """Whether a stream holds at least so many: what has no publish ack is stored a moment after it
    was sent.
    """
    return (await nc.jsm().stream_info(stream)).state.messages >= least


async def has_attempt_records(nc: Client, settings: Settings, count: int) -> bool:
    """A record is forgotten without an ack, so its bucket stores that a moment later."""
    return len(await read_attempt_records(nc, settings)) == count


# -- the dead letters' view ------------------------------------------------------------------------


async def read_dead_letters(nc: Client, settings: Settings) -> list[Json]:
    """Every dead letter, oldest first."""
    jsm, name = nc.jsm(), settings.streams.dlq.name
    state = (await jsm.stream_info(name)).state
    bodies = []
    for sequence in range(max(1, state.first_seq), state.last_seq + 1):
        try:
            bodies.append(json.loads((await jsm.get_msg(name, sequence)).data or b""))
        except NotFoundError:
            continue
    return bodies


# -- the operator's view ---------------------------------------------------------------------------


async def read_page(http: str, path: str) -> tuple[int, str]:
    """One of the router's pages: (status, text)."""
    return await asyncio.to_thread(_get, http + path)


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=120) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


async def is_ready(http: str) -> bool:
    return (await read_page(http, "/readyz"))[0] == 200


async def has_metric(http: str, name: str, value: float, **labels: str) -> bool:
    return await read_metric(http, name, **labels) == value


async def read_metric(http: str, name: str, **labels: str) -> float:
    """A metric's value, summed over the labels that are not given."""
    _, text = await read_page(http, "/metrics")
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())
