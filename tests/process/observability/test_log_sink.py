"""Lines of a log whose stream is full, stands still, is gone, and comes back."""

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest

from router.process.observability.log_sink import MAX_KEPT, LogSink
from tests.support.waiting import until


def describe(lost: int) -> str:
    return f"lost {lost}\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """The reader's end, and the stream to write into."""
    reader, writer = os.pipe()
    out = os.fdopen(writer, "w")
    yield reader, out
    for close in (lambda: os.close(reader), out.close):
        with suppress(OSError):
            close()


def test_lines_are_written_at_once_and_in_order(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as out:
        sink = LogSink(out, describe)
        for number in range(3):
            sink.write(f"line {number}\n")
        assert (tmp_path / "log").read_text() == "line 0\nline 1\nline 2\n"
    assert sink.lost_total == 0


def test_a_stream_in_memory_is_written_too() -> None:
    out = io.StringIO()
    LogSink(out, describe).write("ä\n")
    assert out.getvalue() == "ä\n"


def test_what_has_no_room_is_counted_and_raises_nothing() -> None:
    with Path("/dev/full").open("w") as out:
        sink = LogSink(out, describe)
        for _ in range(5):
            sink.write("a line\n")
    assert sink.lost_total == 5
    sink.write("after it was closed\n")
    assert sink.lost_total == 6


def test_what_was_lost_is_told_before_the_next_line_that_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written = os.write
    with (tmp_path / "log").open("w") as out:
        sink = LogSink(out, describe)
        sink.write("first\n")

        def refuse(_: int, __: bytes) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", refuse)
        sink.write("lost\n")
        sink.write("lost too\n")
        monkeypatch.setattr(os, "write", written)
        sink.write("last\n")
    assert (tmp_path / "log").read_text() == "first\nlost 2\nlast\n"


def test_a_line_that_was_torn_is_ended_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written, room = os.write, [3]
    with (tmp_path / "log").open("w") as out:
        sink = LogSink(out, describe)

        def take_some(descriptor: int, data: bytes) -> int:
            if not room:
                raise OSError(28, "No space left on device")
            return written(descriptor, data[: room.pop()])

        monkeypatch.setattr(os, "write", take_some)
        sink.write("a line\n")
        monkeypatch.setattr(os, "write", written)
        sink.write("last\n")
    assert (tmp_path / "log").read_text() == "a l\nlost 1\nlast\n"


async def test_a_reader_who_stands_still_holds_up_no_writer_and_gets_all_later(
    pipe: tuple[int, TextIO],
) -> None:
    reader, out = pipe
    sink = LogSink(out, describe)
    # half a megabyte; the pipe holds 64 kB
    lines = [f"{number:06} {'x' * 93}\n" for number in range(5_000)]
    for line in lines:
        sink.write(line)
    assert sink.lost_total == 0
    whole, wanted = b"", "".join(lines).encode()
    while len(whole) < len(wanted):
        whole += os.read(reader, 1 << 16)
    assert whole == wanted
    await until(lambda: not sink.is_behind)
    sink.write("and on\n")
    assert os.read(reader, 100) == b"and on\n"


async def test_beyond_what_may_be_kept_lines_are_counted_and_told(pipe: tuple[int, TextIO]) -> None:
    reader, out = pipe
    sink = LogSink(out, describe)
    line = "x" * 1023 + "\n"
    for _ in range(2 * MAX_KEPT // len(line)):
        sink.write(line)
    lost = sink.lost_total
    assert 0 < lost < 2 * MAX_KEPT // len(line)
    kept = (2 * MAX_KEPT // len(line) - lost) * len(line)
    while kept:
        kept -= len(os.read(reader, min(kept, 1 << 16)))
    await until(lambda: not sink.is_behind)
    sink.write("on\n")
    assert os.read(reader, 100) == f"lost {lost}\non\n".encode()


async def test_a_reader_who_is_gone_is_no_error(pipe: tuple[int, TextIO]) -> None:
    reader, out = pipe
    sink = LogSink(out, describe)
    for _ in range(2_000):
        sink.write("x" * 99 + "\n")
    os.close(reader)
    await until(lambda: not sink.is_behind)
    before = sink.lost_total
    sink.write("to no reader\n")
    assert sink.lost_total == before + 1 > 1


def test_when_the_process_ends_what_waits_gets_a_moment_and_no_more(
    pipe: tuple[int, TextIO],
) -> None:
    _, out = pipe
    sink = LogSink(out, describe)
    for _ in range(2_000):
        sink.write("x" * 99 + "\n")
    sink.close()  # it returns
    assert sink.is_behind
