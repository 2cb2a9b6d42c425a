"""Comments in the silence of a stream, and none before its head or behind its end."""

import asyncio

from starlette.types import Message

from router.gateway.answers import SilenceComments
from router.gateway.model.apis import KEEP_ALIVE
from tests.support.waiting import until

HEAD: Message = {"type": "http.response.start", "status": 200}
PART: Message = {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}
END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


class Client:
    """What it was sent. `is_slow`: it takes nothing."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.parts: list[Message] = []
        self._is_slow = is_slow

    async def send(self, message: Message) -> None:
        self.parts.append(message)
        if self._is_slow:
            await asyncio.Event().wait()

    @property
    def comments(self) -> int:
        return sum(part.get("body") == KEEP_ALIVE for part in self.parts)


async def test_each_silence_of_an_open_stream_gets_a_comment() -> None:
    client = Client()
    with SilenceComments(client.send, 0.01) as sender:
        await sender.send(HEAD)
        await sender.send(PART)
        await until(lambda: client.comments >= 3)
    assert client.parts[:2] == [HEAD, PART]


async def test_there_is_no_comment_before_the_head_or_behind_the_end() -> None:
    client = Client()
    with SilenceComments(client.send, 0.01) as sender:
        await asyncio.sleep(0.05)
        assert client.parts == []
        await sender.send(HEAD)
        await sender.send(END)
        await asyncio.sleep(0.05)
    assert client.parts == [HEAD, END]


async def test_a_reader_that_takes_nothing_gets_one_comment_and_keeps_no_task() -> None:
    client = Client(is_slow=True)
    before = len(asyncio.all_tasks())
    with SilenceComments(client.send, 0.01) as sender:
        sending = asyncio.ensure_future(sender.send(HEAD))
        await until(lambda: client.comments == 1)
        await asyncio.sleep(0.05)
        assert client.comments == 1
        sending.cancel()
    await until(lambda: len(asyncio.all_tasks()) == before)
