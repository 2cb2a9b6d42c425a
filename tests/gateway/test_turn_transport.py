"""What is written in one turn leaves as one, nothing is lost at an end, and a flood does not wait."""

import asyncio
from typing import Any

from router.gateway.server import MAX_HELD_BYTES, TurnTransport

PROTOCOL = asyncio.Protocol()


class Wire(asyncio.Transport):
    """The transport behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[bytes | str] = []

    def write(self, data: Any) -> None:
        self.heard.append(bytes(data))

    def close(self) -> None:
        self.heard.append("closed")

    def abort(self) -> None:
        self.heard.append("aborted")

    def get_write_buffer_size(self) -> int:
        return 7

    def get_protocol(self) -> asyncio.BaseProtocol:
        return PROTOCOL


def behind(wire: Wire) -> TurnTransport:
    return TurnTransport(wire, asyncio.get_running_loop())


async def test_the_writes_of_a_turn_are_one() -> None:
    wire = Wire()
    transport = behind(wire)
    for data in (b"head", b"", b"body"):
        transport.write(data)
    assert wire.heard == []
    assert transport.get_write_buffer_size() == 7 + 8
    await asyncio.sleep(0)
    transport.write(b"next")
    await asyncio.sleep(0)
    assert wire.heard == [b"headbody", b"next"]


async def test_what_was_written_goes_out_before_the_end_and_not_before_an_abort() -> None:
    for end, heard in (("close", [b"last", "closed"]), ("abort", ["aborted"])):
        wire = Wire()
        transport = behind(wire)
        transport.write(b"last")
        getattr(transport, end)()
        await asyncio.sleep(0)
        assert wire.heard == heard


async def test_a_flood_within_a_turn_is_passed_on_at_once() -> None:
    """So the transport behind it can say that its reader is slow."""
    wire = Wire()
    transport = behind(wire)
    transport.write(bytes(MAX_HELD_BYTES))
    assert wire.heard == [bytes(MAX_HELD_BYTES)]


async def test_the_buffer_of_a_writer_may_change_afterwards() -> None:
    wire, data = Wire(), bytearray(b"one")
    behind(wire).write(data)
    data[:] = b"two"
    await asyncio.sleep(0)
    assert wire.heard == [b"one"]


async def test_its_protocol_is_that_of_the_one_behind_it() -> None:
    """What names the callback that holds a loop asks for it."""
    assert behind(Wire()).get_protocol() is PROTOCOL
