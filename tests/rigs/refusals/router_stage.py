"""The router of the matrix, whole or of one partition: a tenant pushes, one only asks, a worker
reports, an operator writes.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NoAnswer
from nats.js.errors import NotFoundError

from router import Client as RouterClient
from tests.rigs.refusals.stages import OTHERS, WITHIN_S, Stage
from tests.support.admin import call, code
from tests.support.policy import a_document, a_provider
from tests.support.providers import an_entry, answers, register, serve_provider
from tests.support.refusals import TOO_SMALL_BYTES
from tests.support.router_streams import a_result, headers_of, publish_result, read_stream
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import (
    a_request,
    ask,
    has_acked_all,
    is_ready,
    make_topology,
    read_dead_letters,
    read_page,
)
from tests.support.waiting import until

Json = dict[str, Any]

LONG_S = 60.0
SHORTLY_S = 1.0  # a requester that hears nothing for so long asks again
AGAIN_S = 0.1
LONGER = "x" * TOO_SMALL_BYTES  # than the size that a spoilt stream takes
# What a router writes beside its messages: no message needs it.
QUIET_BUCKETS = (
    "attempts",
    "extensions",
    "breakers",
    "figures",
    "canaries",
    "budgets",
    "budgets spent",
    "prices",
    "rate limits",
)
QUIET = ("held costs", "violations", "audit", *QUIET_BUCKETS)


class RouterStage:
    """A router that makes nothing again, so that what is spoilt stays so."""

    def __init__(self, nc: Client, router: Running, url: str) -> None:
        self._nc, self._router, self._settings, self._url = nc, router, router.settings, url
        self._patience_s = LONG_S
        settings = router.settings
        self.stores = {
            "requests": settings.streams.decide.name,
            "results": settings.streams.results.name,
            "acknowledgements": settings.streams.acks.name,
            "assignments": settings.streams.assignments.name,
            "known assignments": f"KV_{settings.buckets.assignments_known.name}",
            "usage": settings.streams.usage.name,
            "dead letters": settings.streams.dlq.name,
            "invocations": f"KV_{settings.buckets.invocations.name}",
            "held costs": settings.streams.held.name,
            "violations": settings.streams.violations.name,
            "audit": settings.streams.audit.name,
            "policies": f"KV_{settings.buckets.policies.name}",
            "leases": f"KV_{settings.buckets.partitions.name}",
            **{
                store: f"KV_{getattr(settings.buckets, store.replace(' ', '_')).name}"
                for store in QUIET_BUCKETS
            },
        }

    async def need(self, store: str) -> str:
        # a request that no stream takes has no answer until the router sees that
        if store == "requests":
            self._patience_s = SHORTLY_S
        match store:
            case "usage" | "results":
                return await self._report()
            case "acknowledgements":
                return await self._acknowledge()
            case "dead letters":
                return _word_of(await ask(self._nc, self._settings, b"not a request"))
            case "invocations":
                return await self._invoke()
            case "violations":
                return await self._break_the_contract()
            case "audit" | "policies":
                return await self._put_policy()
            case _:
                return _word_of(await self._ask("push", push_assignment=True))

    async def _ask(self, name: str, **fields: Any) -> Json:
        """Asked again after each silence."""
        tries = 0
        while True:
            tries += 1
            try:
                return await ask(
                    self._nc,
                    self._settings,
                    a_request(f"{name}-{tries}", **fields),
                    timeout_s=self._patience_s,
                )
            except NoAnswer:
                await asyncio.sleep(AGAIN_S)

    async def _report(self) -> str:
        """A worker's result, published until its stream takes it."""
        await _repeat(lambda: publish_result(self._nc, self._settings, a_result("billed")))
        await until(lambda: self._has_taken("results"), within_s=WITHIN_S)
        stored = await read_stream(self._nc, self._settings.streams.usage.name)
        return (
            "metered"
            if any(b'"a-billed"' in data for _, data, _ in stored)
            else await self._read_letter()
        )

    async def _read_letter(self) -> str:
        return str((await read_dead_letters(self._nc, self._settings))[0]["last_error"]["code"])

    async def _acknowledge(self) -> str:
        body = json.dumps(
            {"assignment_id": "a-taken", "status": "accepted", "message": LONGER}
        ).encode()
        await _repeat(
            lambda: self._nc.jetstream().publish(
                self._settings.acks.subject, body, headers=headers_of("taken")
            )
        )
        await until(lambda: self._has_taken("acks"), within_s=WITHIN_S)
        return "counted"

    async def _has_taken(self, section: str) -> bool:
        """A stream that was made anew has no durable yet."""
        stream, durable = (
            getattr(self._settings.streams, section).name,
            getattr(self._settings, section).durable,
        )
        try:
            return await has_acked_all(self._nc, stream, durable)
        except NotFoundError:
            return False

    async def _break_the_contract(self) -> str:
        """Its headers break a rule, which is told in a stream; the answer does not wait for that."""
        answer = await ask(
            self._nc, self._settings, a_request("breaks"), headers_of("breaks", trace_id="")
        )
        return _word_of(answer)

    async def _put_policy(self) -> str:
        answer = await call(
            self._nc,
            "put_policy",
            tenant_id="acme",
            policy_id="new",
            policy=a_document(a_provider("openai", 100)),
        )
        return code(answer) or "ok"

    async def _invoke(self) -> str:
        """Asked again as long as the answer says that this is of use."""
        async with RouterClient(self._url) as client, serve_provider(self._nc, answers):
            while True:
                response = await client.invoke(tenant_id="acme", provider_id="echo", prompt="hello")
                if response.error_code != "overloaded":
                    return response.error_code or "ok"
                await asyncio.sleep(AGAIN_S)

    async def ask_others(self) -> int:
        asked = (self._ask(f"plain-{number}") for number in range(OTHERS))
        return sum(not answer["ok"] for answer in await asyncio.gather(*asked))

    async def is_troubled(self) -> bool:
        return "others go on" in (await read_page(self._router.ready.http, "/readyz"))[1]

    async def is_well(self) -> bool:
        return await is_ready(self._router.ready.http)

    async def make_whole(self) -> None:
        """A stream that was made anew has no durable."""
        await make_topology(self._settings)


class PartitionStage(RouterStage):
    """Nothing maps subjects here: a request goes to its partition by name."""

    async def _ask(self, name: str, **fields: Any) -> Json:
        subject = self._settings.decide.taken_subject
        return dict(
            json.loads(
                (await self._nc.request(subject, a_request(name, **fields), timeout=LONG_S)).data
            )
        )


async def _repeat(publish: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await publish()
        except NatsError:
            await asyncio.sleep(AGAIN_S)
        else:
            return


@asynccontextmanager
async def a_router_stage(nc: Client, url: str, prefix: str) -> AsyncIterator[Stage]:
    settings = settings_for(
        url,
        prefix,
        effects__retry_ms=50,
        effects__patience_ms=500,
        topology="check",
        acks__enabled=True,
    )
    await make_topology(settings)
    async with a_router(settings) as router:
        await register(router, an_entry())
        yield RouterStage(nc, router, url)


@asynccontextmanager
async def a_partition_stage(nc: Client, url: str) -> AsyncIterator[Stage]:
    """The only router of a partition, whose requests a client sends to the partition's own subject."""
    names = {
        "decide__partition": "0",
        "decide__standby": "1",
        "decide__lease_ms": 600,
        "topology": "check",
    }
    settings = settings_for(url, "t", effects__retry_ms=50, effects__patience_ms=500, **names)
    await make_topology(settings)
    async with a_router(settings) as router:
        yield PartitionStage(nc, router, url)


def _word_of(answer: Json) -> str:
    return "ok" if answer["ok"] else str(answer["error"]["code"])
