"""Each port of a running router is joined: a default that does nothing hides a missing call, and no
other test would tell.

From the service every object of the router is visited that it reaches, through attributes,
containers, bound methods and closures.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType

from msgspec import Struct

from router.serve.app_context import AppContext
from router.serve.decide_subscription import build_decide_handler
from router.serve.subscriptions import build_acknowledgement_handler, build_results_handler
from router.work.report_marks import ReportMarks
from tests.support.breakers import a_registry
from tests.support.service import a_router, settings_for

NOTHING = (lambda: None).__code__.co_code
NULL_NAMES = ("Null", "Uncounted", "Unlimited", "NoCharges")
ALLOWED = {
    # A dry run calls extensions and counts nothing.
    "PipelineDependencies.meter",
    "Invoker._meter",
    # The sender of a result or an ack waits for no reply.
    "Subscription.failure_reply",
}


def find_idle_ports(*roots: object) -> set[str]:
    """`Class.attribute` of every port that does nothing."""
    found, seen, queue = set[str](), set[int](), deque(roots)
    while queue:
        one = queue.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name, value in _list_attributes(one):
            if _is_idle(value):
                found.add(f"{type(one).__name__}.{name}")
        queue.extend(_list_reached(one))
    assert len(seen) > 100 or len(roots) == 1
    return found


def _is_idle(value: object) -> bool:
    if isinstance(value, FunctionType):
        code = value.__code__
        return (
            value.__name__ == "<lambda>" and code.co_code == NOTHING and code.co_consts == (None,)
        )
    return type(value).__name__.startswith(NULL_NAMES)


def _list_attributes(one: object) -> Iterator[tuple[str, object]]:
    if not type(one).__module__.startswith("router."):
        return
    slots = [
        name for kind in type(one).__mro__ for name in _as_names(getattr(kind, "__slots__", ()))
    ]
    names = {
        *getattr(one, "__dict__", {}),
        *slots,
        *(one.__struct_fields__ if isinstance(one, Struct) else ()),
    }
    for name in names - {"__weakref__", "__dict__"}:
        try:
            yield name, getattr(one, name)
        except AttributeError:
            continue


def _as_names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _list_reached(one: object) -> Iterator[object]:
    yield from (value for _, value in _list_attributes(one))
    if isinstance(one, Mapping):
        yield from list(one.values())
    elif isinstance(one, list | tuple | set | frozenset):
        yield from one
    elif isinstance(one, MethodType):
        yield one.__self__
    elif isinstance(one, partial):
        yield from (one.func, *one.args, *one.keywords.values())
    elif isinstance(one, FunctionType):
        yield from (
            cell.cell_contents for cell in one.__closure__ or () if cell.cell_contents is not one
        )
    elif isinstance(one, asyncio.Task):
        yield one.get_coro()


async def test_no_port_of_a_running_router_does_nothing(nats_url: str, prefix: str) -> None:
    settings = settings_for(nats_url, prefix, acks__enabled=True)
    async with a_router(settings) as router:
        context = router.service._context
        assert context is not None
        handlers = (
            build_decide_handler(context),
            build_results_handler(context),
            build_acknowledgement_handler(context),
        )
        assert find_idle_ports(router.service, context, *handlers) == ALLOWED
        assert_counted(context)


def assert_counted(context: AppContext) -> None:
    """What money and decisions are counted by, each by its name."""
    decide, results = build_decide_handler(context), build_results_handler(context)
    assert decide._decider._canaries is context.canaries
    assert decide._push is not None
    assert (decide._push._charges, decide._push._shares) == (
        context.budgets.table,
        context.assignment_shares,
    )
    assert context.budgets.table.on_asked == context.budgets.leases._on_asked
    assert results._on_finished == context.finished.finish
    assert isinstance(results._marks, ReportMarks)
    assert results._marks._can_be_invoked == context.registry.has_entry
    assert (context.invoker._breakers, context.invoker._health) == (
        context.breakers.extensions,
        context.health,
    )


def test_a_port_that_does_nothing_is_found() -> None:
    assert find_idle_ports(a_registry()) == {"BreakerRegistry._on_change"}
