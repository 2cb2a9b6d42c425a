"""Extensions served on a real server: found, shared, bounded, streamed, drained."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import nats.errors
import pytest

from router.contracts.provider_chunk import read_chunk
from router.core.errors import Misconfigured
from router.sdk.extension import (
    Extension,
    ExtensionServer,
    Invocation,
    Output,
    Refused,
    Request,
    pre,
    provider,
    reject,
    validator,
)
from tests.support.broker import Broker
from tests.support.extension_author import (
    ExtensionClient,
    a_prompt,
    a_request,
    an_extension_client,
    an_id,
    data_of,
    serve_extension,
)
from tests.support.observability import LogLines
from tests.support.waiting import until

PING = pre(an_id("ping"))(lambda _: None)


async def test_a_function_answers_on_its_subject(nats_url: str, asker: ExtensionClient) -> None:
    shout = pre(an_id())(lambda request: (request.payload.upper(), {"loud": "true"}))
    async with serve_extension(nats_url, shout):
        heard = await asker.ask(shout.subject, a_request("hi"))
    assert (heard.code, heard.body["payload"]["payload"], heard.body["metadata"]) == (
        None,
        "HI",
        {"loud": "true"},
    )


async def test_the_headers_are_the_functions_to_see(nats_url: str, asker: ExtensionClient) -> None:
    seen: list[str | None] = []
    one = pre(an_id())(lambda request: seen.append(request.headers.get("traceparent")))
    async with serve_extension(nats_url, one):
        await asker.ask(one.subject, a_request(), {"traceparent": "00-1", "trace_id": "t-1"})
    assert seen == ["00-1"]


async def test_an_error_has_the_service_protocols_headers_and_names_the_field(
    nats_url: str, asker: ExtensionClient
) -> None:
    one = pre(an_id())(lambda _: ("a", 7))
    async with serve_extension(nats_url, one):
        bad = await asker.ask(one.subject, a_request(tenant_id="_x"))
        unfit = await asker.ask(one.subject, a_request())
    assert (bad.code, bad.error["field"]) == ("400", "tenant_id")
    assert (unfit.code, unfit.error["field"]) == ("422", "metadata")


@pytest.mark.parametrize("text", ["x" * (9 << 20), "half of a pair: \ud800"])
@pytest.mark.parametrize("blocking", [False, True])
async def test_a_refusal_of_any_text_is_answered_within_the_limits(
    nats_url: str, asker: ExtensionClient, text: str, blocking: bool
) -> None:
    @pre(an_id(), blocking=blocking)
    def refuses(_: Request) -> None:
        raise Refused(text)

    async with serve_extension(nats_url, refuses):
        heard = await asker.ask(refuses.subject, a_request())
        again = await asker.ask(refuses.subject, a_request())
    assert (heard.code, heard.error["code"], again.code) == ("422", "refused", "422")
    assert 0 < len(heard.error["message"]) <= 5000


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_above_the_server_s_limit_is_an_error_and_the_connection_stays(
    streams: bool,
) -> None:
    broker = Broker(max_payload=64 * 1024).start()

    async def pieces(_: Invocation) -> AsyncIterator[str]:
        yield "x" * 100_000

    large = provider(an_id())(pieces if streams else lambda _: "x" * 100_000)
    try:
        async with serve_extension(broker.url, large), an_extension_client(broker.url) as asker:
            for _ in range(2):
                heard = await asker.ask(
                    large.subject, a_prompt(), {"Router-Stream": "true"} if streams else {}
                )
                if streams:
                    assert heard.body["metadata"]["error_code"] == "invalid_answer"
                else:
                    assert (heard.code, heard.error["code"]) == ("422", "invalid_answer")
    finally:
        broker.remove()


async def test_it_is_found_and_counted_by_the_service_protocol(
    nats_url: str, asker: ExtensionClient
) -> None:
    one = validator(an_id(), version="v2")(
        lambda request: None if request.payload == "ok" else reject("no")
    )
    async with serve_extension(nats_url, one):
        await asker.ask(one.subject, a_request("ok"))
        await asker.ask(one.subject, b"{")
        info, stats = await asker.service("INFO", one.id), await asker.service("STATS", one.id)
    assert (info["version"], info["metadata"]) == (
        "2.0.0",
        {"type": "validator", "id": one.id, "version": "v2"},
    )
    (endpoint,) = info["endpoints"]
    assert json.loads(endpoint["metadata"]["request_schema"])["title"] == "ExtensionRequest"
    assert len(endpoint["metadata"]["response_schema"]) < 8_192
    assert (endpoint["subject"], endpoint["queue_group"]) == (one.subject, one.id)
    (figures,) = stats["endpoints"]
    assert (figures["num_requests"], figures["num_errors"], figures["last_error"]) == (
        2,
        1,
        "invalid_request",
    )
    assert figures["average_processing_time"] > 0


async def test_two_servers_share_the_work_and_one_alone_answers(
    nats_url: str, asker: ExtensionClient
) -> None:
    name, asked = an_id(), 0
    seen: list[int] = []

    def one_of(server: int) -> Extension:
        return pre(name)(lambda _: seen.append(server))

    async with serve_extension(nats_url, one_of(1)), serve_extension(nats_url, one_of(2)) as second:
        while set(seen) != {1, 2}:
            await asker.ask(f"beamline.ext.pre.{name}.v1", a_request())
            asked += 1
        second.cancel()
        await asyncio.wait({second})
        assert len(seen) == asked
        seen.clear()
        for _ in range(10):
            await asker.ask(f"beamline.ext.pre.{name}.v1", a_request())
    assert seen == [1] * 10


async def test_an_instance_has_a_subject_of_its_own_below(
    nats_url: str, asker: ExtensionClient
) -> None:
    one = pre(an_id())(lambda request: request.payload)
    async with serve_extension(nats_url, one, instances={"blue": 30}):
        assert (await asker.ask(f"{one.subject}.blue", a_request())).code is None
        assert (await asker.ask(one.subject, a_request())).code is None


async def test_one_that_waits_does_not_hold_up_the_next(
    nats_url: str, asker: ExtensionClient
) -> None:
    first = asyncio.Event()

    @pre(an_id())
    async def second_frees_the_first(request: Request) -> None:
        if request.payload == 1:
            await first.wait()
        first.set()

    async with serve_extension(nats_url, second_frees_the_first):
        subject = second_frees_the_first.subject
        heard = await asyncio.gather(
            asker.ask(subject, a_request(1)), asker.ask(subject, a_request(2))
        )
    assert [one.code for one in heard] == [None, None]


async def test_a_blocking_function_runs_in_a_thread(nats_url: str, asker: ExtensionClient) -> None:
    both = threading.Barrier(2, timeout=60)
    one = pre(an_id(), blocking=True)(lambda _: both.wait() and None)
    async with serve_extension(nats_url, one):
        heard = await asyncio.gather(
            asker.ask(one.subject, a_request()), asker.ask(one.subject, a_request())
        )
    assert [answer.code for answer in heard] == [None, None]


async def test_a_request_begins_only_when_a_thread_is_free(
    nats_url: str, asker: ExtensionClient, lines: LogLines
) -> None:
    go_on, begun = threading.Event(), []

    @pre(an_id(), blocking=True)
    def hangs(request: Request) -> None:
        begun.append(request.payload)
        go_on.wait(60 if request.payload == "hung" else 0)

    async with serve_extension(nats_url, hangs, concurrency=1):
        try:
            deadlines = (("hung", "1000"), ("never begun", "50"))
            late = [
                await asker.ask(hangs.subject, a_request(name), {"Router-Deadline-Ms": ms})
                for name, ms in deadlines
            ]
            waits = asyncio.create_task(asker.ask(hangs.subject, a_request("begun")))
            await asyncio.sleep(0.05)
        finally:
            go_on.set()
        answered = await waits
    assert ([one.code for one in late], answered.code, begun) == (
        ["504", "504"],
        None,
        ["hung", "begun"],
    )
    assert len(lines.of("extension.threads_held")) == 1


async def test_so_many_at_once_and_the_others_wait(nats_url: str, asker: ExtensionClient) -> None:
    at_work, most, free = 0, 0, asyncio.Event()

    @pre(an_id())
    async def counted(_: Request) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await free.wait()
        at_work -= 1

    async with serve_extension(nats_url, counted, concurrency=2):
        asked = [asyncio.create_task(asker.ask(counted.subject, a_request())) for _ in range(6)]
        await until(lambda: at_work == 2)
        free.set()
        heard = await asyncio.gather(*asked)
    assert ([one.code for one in heard], most) == ([None] * 6, 2)


async def test_what_is_past_its_deadline_is_not_begun(
    nats_url: str, asker: ExtensionClient
) -> None:
    begun: list[object] = []
    one = pre(an_id())(begun.append)
    async with serve_extension(nats_url, one):
        heard = await asker.ask(one.subject, a_request(), {"Router-Deadline-Ms": "0"})
        await asker.ask(one.subject, a_request(), {"Router-Deadline-Ms": "soon"})
    assert (heard.code, heard.error["code"], len(begun)) == ("504", "deadline_exceeded", 1)


async def test_what_waited_past_its_deadline_is_not_begun_either(
    nats_url: str, asker: ExtensionClient
) -> None:
    begun, free = [], asyncio.Event()

    @pre(an_id())
    async def waits(request: Request) -> None:
        begun.append(request.payload)
        await free.wait()

    async with serve_extension(nats_url, waits, PING, concurrency=1):
        first = asyncio.create_task(asker.ask(waits.subject, a_request(1)))
        await until(lambda: begun == [1])
        second = asyncio.create_task(
            asker.ask(waits.subject, a_request(2), {"Router-Deadline-Ms": "1"})
        )
        await _all_heard(asker)
        await asyncio.sleep(0.01)  # longer than its deadline: time itself is what is waited for
        free.set()
        assert (await first).code is None
        assert (await second).code == "504"
    assert begun == [1]


async def test_an_address_that_is_no_inbox_is_not_answered(
    nats_url: str, asker: ExtensionClient
) -> None:
    heard: list[bytes] = []
    one = pre(an_id())(lambda request: request.payload)
    async with serve_extension(nats_url, one):
        await asker.connection.subscribe_direct(
            "beamline.router.v1.stolen", lambda _s, _r, data, _h: heard.append(data)
        )
        await asker.connection.publish(
            one.subject, data_of(a_request()), reply="beamline.router.v1.stolen"
        )
        await asker.ask(one.subject, a_request())
    assert heard == []


async def test_told_to_stop_it_finishes_what_it_has_and_takes_no_more(
    nats_url: str, asker: ExtensionClient
) -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    @pre(an_id())
    async def slow(_: Request) -> str:
        begun.set()
        await free.wait()
        await asyncio.sleep(0.05)  # work that goes on while the server ends
        return "done"

    async with serve_extension(nats_url, slow) as server:
        asked = asyncio.create_task(asker.ask(slow.subject, a_request()))
        await begun.wait()
        server.cancel()
        await until(lambda: _has_no_listener(asker, slow.subject))
        free.set()
        assert (await asked).body["payload"]["payload"] == "done"
        await asyncio.wait({server})


async def test_what_does_not_end_in_time_is_told_to_go_elsewhere(
    nats_url: str, asker: ExtensionClient
) -> None:
    @pre(an_id())
    async def hanging(_: Request) -> None:
        await asyncio.Event().wait()

    async with serve_extension(nats_url, hanging, PING, drain_s=0.01, concurrency=1) as server:
        asked = [asyncio.create_task(asker.ask(hanging.subject, a_request())) for _ in range(2)]
        await _all_heard(asker)
        server.cancel()
        heard = await asyncio.gather(*asked)
    assert [(one.code, one.error["code"]) for one in heard] == [("503", "stopping")] * 2


async def test_a_broker_that_was_killed_finds_it_again() -> None:
    with Broker() as broker:
        one = pre(an_id())(lambda request: request.payload)
        async with serve_extension(broker.url, one), an_extension_client(broker.url) as asker:
            await asker.ask(one.subject, a_request())
            broker.kill()
            broker.start()
            await until(lambda: _answers(asker, one.subject))


@pytest.mark.parametrize("wrong", [(), (len,), (pre("a")(len), pre("a")(len))])
def test_what_cannot_be_served_is_refused(wrong: tuple[object, ...]) -> None:
    with pytest.raises(Misconfigured, match="extensions"):
        ExtensionServer(*wrong)  # type: ignore[arg-type]


# -- streams ---------------------------------------------------------------------------------------


async def test_a_stream_comes_in_pieces_and_its_last_one_says_what_it_cost(
    nats_url: str, asker: ExtensionClient
) -> None:
    @provider(an_id())
    async def words(invocation: Invocation) -> AsyncIterator[str | Output]:
        for word in str(invocation.prompt).split():
            yield word
        yield Output(output="!", completion_tokens=2)

    async with serve_extension(nats_url, words):
        pieces = await _stream(asker, words.subject, until_done=True)
        whole = await asker.ask(words.subject, a_prompt("a b"))
    assert [(piece.data, piece.done) for piece in pieces] == [
        ("a", False),
        ("b", False),
        ("!", True),
    ]
    assert pieces[-1].metadata == {"completion_tokens": "2"}
    assert (whole.body["output"], whole.body["usage"]) == ("ab!", {"completion_tokens": 2})


async def test_a_stream_that_fails_says_so_in_its_last_piece(
    nats_url: str, asker: ExtensionClient
) -> None:
    @provider(an_id())
    async def breaks(_: Invocation) -> AsyncIterator[str]:
        yield "a"
        raise ValueError("secret")

    async with serve_extension(nats_url, breaks):
        pieces = await _stream(asker, breaks.subject, until_done=True)
    assert (pieces[-1].failed, pieces[-1].metadata["error_code"]) == (True, "failed")
    assert "secret" not in str(pieces[-1].metadata)


async def test_a_piece_of_none_is_refused_and_not_taken_for_the_end(
    nats_url: str, asker: ExtensionClient
) -> None:
    """Clients of models yield it for a delta without text; the answer was cut there, and told as
    whole.
    """

    @provider(an_id())
    async def cut(_: Invocation) -> AsyncIterator[Any]:
        for piece in ("Hello", None, " world"):
            yield piece

    async with serve_extension(nats_url, cut):
        pieces = await _stream(asker, cut.subject, until_done=True)
    assert [piece.data for piece in pieces[:-1]] == ["Hello"]
    assert (pieces[-1].failed, pieces[-1].metadata["error_code"]) == (True, "invalid_answer")


async def test_a_stream_stops_when_its_last_listener_leaves(
    nats_url: str, asker: ExtensionClient
) -> None:
    ended = asyncio.Event()

    @provider(an_id())
    async def endless(_: Invocation) -> AsyncIterator[str]:
        try:
            while True:
                yield "a"  # and never awaits: the others must live all the same
        finally:
            ended.set()

    async with serve_extension(nats_url, endless):
        await _stream(asker, endless.subject, until_done=False)
        await asyncio.wait_for(ended.wait(), 60)


async def _stream(asker: ExtensionClient, subject: str, *, until_done: bool) -> list:  # type: ignore[type-arg]
    """The pieces of a stream: all of them, or the first one, and then no subscriber listens."""
    pieces = []
    inbox = asker.connection.new_inbox()
    sid = await asker.connection.subscribe_direct(
        inbox, lambda _s, _r, data, _h: pieces.append(read_chunk(data))
    )
    await asker.connection.publish(
        subject, data_of(a_prompt("a b")), reply=inbox, headers={"Router-Stream": "true"}
    )
    await until(lambda: pieces and (pieces[-1].done or not until_done))
    await asker.connection.unsubscribe(sid)
    return pieces


async def _all_heard(asker: ExtensionClient) -> None:
    """Whatever was asked before has reached the server that serves PING: a connection keeps its
    order.
    """
    await asyncio.sleep(0)  # tasks that were made begin, and ask
    assert (await asker.ask(PING.subject, a_request())).code is None


async def _has_no_listener(asker: ExtensionClient, subject: str) -> bool:
    try:
        await asker.connection.request(subject, json.dumps({}).encode(), timeout=0.5)
    except nats.errors.NoRespondersError:
        return True
    except nats.errors.TimeoutError:
        return False
    return False


async def _answers(asker: ExtensionClient, subject: str) -> bool:
    try:
        await asker.connection.request(subject, data_of(a_request()), timeout=0.2)
        return True
    except nats.errors.Error:
        return False
