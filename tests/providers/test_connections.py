"""Clients of one connection each: the last used first, a bound on them, and none left open."""

import asyncio
from contextlib import AsyncExitStack

import httpx2
import pytest

from router.providers import upstream
from router.providers.upstream import ClientStack


def make_stack(most: int = 8, wait_s: float = 60.0) -> tuple[ClientStack, list[httpx2.AsyncClient]]:
    made: list[httpx2.AsyncClient] = []

    def make() -> httpx2.AsyncClient:
        made.append(httpx2.AsyncClient())
        return made[-1]

    return ClientStack(make, most, wait_s), made


async def test_the_client_that_came_back_last_is_lent_first() -> None:
    stack, made = make_stack()
    async with stack.lend():
        async with stack.lend() as second:
            pass
        async with stack.lend() as again:
            assert again is second
    async with stack.lend() as last:
        assert last is made[0]
    assert len(made) == 2
    await stack.close()
    assert all(client.is_closed for client in made)


async def test_one_more_than_the_most_waits_and_is_told_in_the_end() -> None:
    stack, made = make_stack(most=1, wait_s=0.01)
    async with stack.lend():
        with pytest.raises(httpx2.PoolTimeout):
            await stack.lend().__aenter__()
    async with stack.lend():
        assert len(made) == 1


async def test_a_call_that_waits_gets_the_place_of_the_one_that_ends() -> None:
    stack, made = make_stack(most=1)
    async with AsyncExitStack() as first:
        await first.enter_async_context(stack.lend())

        async def ask() -> httpx2.AsyncClient:
            async with stack.lend() as client:
                return client

        waiting = asyncio.create_task(ask())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting is made[0]


async def test_what_rested_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "IDLE_S", -1.0)
    stack, made = make_stack()
    async with stack.lend():
        pass
    assert made[0].is_closed


async def test_a_client_that_is_out_at_the_end_is_closed_when_it_comes_back() -> None:
    stack, made = make_stack()
    async with stack.lend():
        await stack.close()
        assert not made[0].is_closed
    assert made[0].is_closed
