"""The parser of message frames: wherever a chunk is cut, the same messages are heard; whatever a
header block holds, it does not raise.
"""

import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.errors import ProtocolError

from router.core.header_names import READ_HEADERS
from router.delivery.wire.connection import head_of
from router.delivery.wire.frames import FrameParser, PlainFrames, _parse_odd_head, parse_head

PLAIN = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n"
is_plain = re.compile(rb"NATS/1\.0\r\nNats-Msg-Id: [\x21-\x7e]+\r\n\r\n").fullmatch
Heard = tuple[int, bytes, bytes, bytes, bytes | None]


class Listening:
    """What a parser needs of its client: subscription 1 is attended, any other goes nats-py's way."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.pings = 0
        self.callbacks = {1: lambda *frame: self.heard.append((1, *frame))}
        self.takers: dict[int, Callable[[bytes, int], int]] = {}

    def take(self, frames: PlainFrames, data: bytes, at: int) -> int:
        """All plain frames of a subscription, as `callbacks` would hear them, but for their
        subject.
        """
        for reply, body, msg_id, after in frames.read(data, at):
            self.heard.append(
                (1, b"", reply or b"", body, None if msg_id is None else PLAIN % msg_id)
            )
            at = after
        return at

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, head: bytes
    ) -> None:
        self.heard.append((sid, subject, reply, data, head or None))

    async def _process_ping(self) -> None:
        self.pings += 1


def frame(sid: int, subject: bytes, reply: bytes, data: bytes, head: bytes | None) -> bytes:
    to = b" ".join(part for part in (subject, b"%d" % sid, reply) if part)
    if head is None:
        return b"MSG %s %d\r\n%s\r\n" % (to, len(data), data)
    return b"HMSG %s %d %d\r\n%s%s\r\n" % (to, len(head), len(head) + len(data), head, data)


async def heard(*chunks: bytes, takes: bool = False) -> Listening:
    listening = Listening()
    if takes:
        listening.takers[1] = partial(listening.take, PlainFrames(1))
    wire = FrameParser(listening)
    for chunk in chunks:
        await wire.parse(chunk)
    return listening


tokens = st.sampled_from([b"a", b"work", b"caf.exec.result.v1", b"\xff\xfe"])
replies = st.sampled_from([b"", b"_INBOX.a", b"\xff"])
payloads = st.sampled_from(
    [b"", b"\r\n", b"MSG a 1 3\r\nabc\r\n", b"x" * 300, b"PING\r\n"]
) | st.binary(max_size=40)
heads = (
    st.none()
    | st.sampled_from([PLAIN % b"m-1", PLAIN % b"two words"])
    | st.binary(min_size=1, max_size=30)
)
frames = st.tuples(st.integers(1, 2), tokens, replies, payloads, heads)


@given(st.lists(frames, max_size=6), st.lists(st.integers(0, 600), max_size=8))
async def test_wherever_a_chunk_is_cut_the_same_messages_are_heard(
    sent: list[Heard], cuts: list[int]
) -> None:
    stream = b"PING\r\n".join(frame(*one) for one in sent) + b"PING\r\n"
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    listening = await heard(*(stream[start:end] for start, end in pairwise(places)))
    assert listening.heard == sent
    assert listening.pings == max(1, len(sent))


@given(st.lists(frames, max_size=6), st.lists(st.integers(0, 600), max_size=8))
async def test_wherever_a_chunk_is_cut_plain_frames_can_be_taken_out_of_it(
    sent: list[Heard], cuts: list[int]
) -> None:
    stream = b"".join(frame(*one) for one in sent)
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    listening = await heard(*(stream[start:end] for start, end in pairwise(places)), takes=True)
    are_taken = [sid == 1 and (head is None or bool(is_plain(head))) for sid, *_, head in sent]
    assert [not subject for _, subject, *_ in listening.heard] == are_taken
    assert [(sid, *rest) for sid, _, *rest in listening.heard] == [
        (sid, *rest) for sid, _, *rest in sent
    ]


async def test_only_frames_of_its_own_subscription_are_offered_to_a_taker() -> None:
    listening, offered = Listening(), list[bytes]()
    listening.takers[1] = lambda data, at: offered.append(data[at:]) or at
    other, own = frame(2, b"a", b"", b"x", None), frame(1, b"work", b"", b"y", None)
    listening.callbacks[2] = listening.callbacks[1]
    await FrameParser(listening).parse(other + own + other)
    assert offered == [own + other]


async def test_byte_by_byte_is_as_good_as_at_once() -> None:
    sent = [
        (1, b"work", b"$JS.ACK.x", b"data", b"NATS/1.0\r\nx: y\r\n\r\n"),
        (2, b"a", b"", b"", None),
    ]
    stream = b"".join(frame(*one) for one in sent)
    assert (await heard(*(bytes([byte]) for byte in stream))).heard == sent


async def test_a_large_payload_is_looked_at_when_it_is_whole_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else eight megabytes in small pieces would be copied as often as there are pieces."""
    looked: list[int] = []
    dispatch = FrameParser.dispatch
    monkeypatch.setattr(
        FrameParser,
        "dispatch",
        lambda wire, data, at=0: looked.append(len(data) - at) or dispatch(wire, data, at),
    )
    stream = frame(1, b"work", b"", b"x" * 100_000, None) + frame(1, b"work", b"", b"next", None)
    listening = await heard(
        *(stream[start : start + 1_000] for start in range(0, len(stream), 1_000))
    )
    assert [len(data) for _, _, _, data, _ in listening.heard] == [100_000, 4]
    assert sum(looked) < 3 * len(stream)


@pytest.mark.parametrize(
    "line", [b"MSG a\r\n", b"MSG a one 3\r\n", b"HMSG a 1 x 3\r\n", b"MSG  \r\n"]
)
async def test_a_frame_that_no_server_sends_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        await heard(line)


# -- header blocks ---------------------------------------------------------------------------------


@given(
    st.binary(max_size=80)
    | st.binary(max_size=40).map(lambda tail: b"NATS/1.0\r\n" + tail + b"\r\n\r\n")
)
def test_no_header_block_raises(raw: bytes) -> None:
    parse_head(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01\x02",
        b"N",
        b"NATS/1.0",
        b"NATS/1.0\r\n",
        b"NATS/1.0\r\n\r\n",
        b"        ",
        b"\r\n\r\n",
    ],
)
def test_a_block_with_nothing_in_it_is_none(raw: bytes) -> None:
    assert parse_head(raw) is None


@pytest.mark.parametrize(
    ("raw", "headers"),
    [
        (
            b"NATS/1.0 408 Request Timeout\r\n\r\n",
            {"Status": "408", "Description": "Request Timeout"},
        ),
        (
            b"NATS/1.0 100\r\nNats-Last-Consumer: 7\r\n\r\n",
            {"Status": "100", "Nats-Last-Consumer": "7"},
        ),
        (b"NATS/1.0 \xff\xfe\r\n\r\n", {"Status": "\ufffd\ufffd"}),
        (b"NATS/1.0\r\na:b\r\n\r\n", {"a": "b"}),
        (b"NATS/1.0\r\na:   b  \r\nc: \r\n\r\n", {"a": "b", "c": ""}),
        (b"NATS/1.0\r\na: 1\r\na: 2\r\n\r\n", {"a": "1"}),
        (b"NATS/1.0\r\na: b: c\r\n\r\n", {"a": "b: c"}),
        (b"NATS/1.0\r\nnonsense\r\na: 1\r\n\r\n", {"a": "1"}),
        (b"NATS/1.0\r\na: 1", {"a": "1"}),
        (b"NATS/1.0\r\nStatus: 404\r\n\r\n", {"Status": "404"}),
    ],
)
def test_what_a_block_says(raw: bytes, headers: dict[str, str]) -> None:
    assert parse_head(raw) == headers


@pytest.mark.parametrize(
    "raw",
    [b"NATS/1.0\r\nNats-Msg-Id:1: x\r\n\r\n", b"NATS/1.0\r\nNats-Msg-Id:1: x\r\nb: c\r\n\r\n"],
)
def test_a_name_ends_at_its_first_colon_as_it_does_for_the_server(raw: bytes) -> None:
    assert (parse_head(raw) or {})["Nats-Msg-Id"] == "1: x"


@given(st.lists(st.text("ab:- \t", max_size=8), max_size=4))
def test_the_short_way_reads_a_block_as_the_long_one_does(lines: list[str]) -> None:
    raw = "\r\n".join(["NATS/1.0", *lines, "", ""])
    assert parse_head(raw.encode()) == _parse_odd_head(raw)


READ = {name.lower() for name in READ_HEADERS}
# Not those that Router reads: they come back under its own spelling (`test_header_names`).
names = st.text(
    st.characters(codec="ascii", exclude_characters=":\r\n", exclude_categories=("Cc", "Zs")),
    min_size=1,
    max_size=12,
).filter(lambda name: name.lower() not in READ)


@given(st.dictionaries(names, st.text(max_size=20), min_size=1, max_size=5))
def test_no_value_can_bring_a_header_of_its_own(headers: dict[str, str]) -> None:
    raw = head_of(headers)
    read = parse_head(raw)
    assert read is not None
    assert list(read) == list(headers)
    assert raw.count(b"\r\n") == len(headers) + 2
    assert raw.count(b"\r") == raw.count(b"\n") == len(headers) + 2
    assert raw.endswith(b"\r\n\r\n")


@given(
    st.dictionaries(
        names,
        st.text(
            st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp", "Cs")),
            max_size=20,
        ),
    )
)
def test_what_can_be_printed_is_read_as_it_was_written(headers: dict[str, str]) -> None:
    assert (parse_head(head_of(headers)) or {}) == headers


def test_no_headers_are_no_block() -> None:
    assert head_of({}) == b""
