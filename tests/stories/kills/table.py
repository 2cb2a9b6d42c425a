"""Who is killed, at which crash point, how often, and what is counted: the one description of every
kill story.

`make test-all` takes the short cases, `make test` a few of them: a kill at each point and one at
random in one story, for a start is what costs. `make matrix` takes the long ones, and writes each
story's table to bench/results/kill_{name}.md. A control is a process that is known to lose or to
double: its cases show that the count would see it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from tests.stories.kills import (
    agents,
    assignments,
    attempts,
    bus,
    inbox,
    invocations,
    lake,
    lake_cluster,
    lake_writers,
    relay,
    relay_to_inbox,
    results,
    worker,
)
from tests.support.killed_worker import ACK_WAIT_S
from tests.support.killed_worker import ATTEMPTS as WORKER_ATTEMPTS
from tests.support.kills import KillCount, KillPlan
from tests.support.lake_driver import POINTS as LAKE_POINTS
from tests.support.postgres import Postgres

Count = Callable[[KillPlan], Awaitable[list[KillCount]]]
CountInPostgres = Callable[[Postgres, KillPlan], Awaitable[list[KillCount]]]
Expectation = Callable[[KillCount], bool]


def is_exact(row: KillCount) -> bool:
    return row.is_exact


def is_one_lost_for_each_kill(row: KillCount) -> bool:
    return (row.lost, row.double) == (row.kills, 0)


def is_doubled_and_none_lost(row: KillCount) -> bool:
    return row.lost == 0 and row.double >= row.kills and not row.wrong["unexpected"]


def is_double_and_none_lost(row: KillCount) -> bool:
    return row.lost == 0 and row.double > 0 and not row.wrong["unexpected"]


def is_exact_and_stored_once(row: KillCount) -> bool:
    return row.is_exact and row.beside["there twice"] == 0


def is_exact_though_stored_twice(row: KillCount) -> bool:
    return row.is_exact and row.beside["there twice"] != 0


class KillCase(NamedTuple):
    """A process is killed by the plan; `expects` holds for each line that `count` returns."""

    plan: KillPlan
    count: Count | CountInPostgres
    expects: Expectation = is_exact
    needs_postgres: bool = False


class KillStory(NamedTuple):
    """`sent` and `stored` head the columns of what was sent and of what came of it."""

    name: str
    title: str
    sent: str
    stored: str
    short: Sequence[KillCase]
    long: Sequence[KillCase]
    note: str


def _plans(points: Sequence[str], share: int, at_random: int = 10) -> list[KillPlan]:
    """The long ones: ten kills at and around each point, and kills at random alone."""
    return [
        *(KillPlan((point,), 6, 4, share) for point in points),
        KillPlan((), 0, at_random, share),
    ]


def _in_postgres(
    count: CountInPostgres, *plans: KillPlan, expects: Expectation = is_exact
) -> list[KillCase]:
    return [KillCase(plan, count, expects, needs_postgres=True) for plan in plans]


DEFAULTS = "All other settings are the defaults."

# -- the router ------------------------------------------------------------------------------------

IN_BATCH = ("batch_open",)
AT_FIRST_BATCH = {"batch_open": (1, 1)}  # a whole share may be one batch
AT_FIRST_BATCHES = {"batch_open": (1, 2)}  # of the records, and of what they are for
BATCHES = "batch_open, in atomic batches"
RESULT_POINTS = ("before_publish", "after_publish", "after_commit", "after_ack")
ACK_FIRST = KillCase(
    KillPlan(("before_publish",), 2, 0, 10, label="control: acked before it is stored"),
    results.count_metered_after_ack,
    is_one_lost_for_each_kill,
)
RESULTS = KillStory(
    "results",
    "A result is metered once, whatever dies when",
    "results",
    "usage events",
    short=[
        KillCase(KillPlan(RESULT_POINTS, 1, 1, 50), results.count_metered),
        KillCase(
            KillPlan(IN_BATCH, 2, 1, 100, AT_FIRST_BATCH, BATCHES), results.count_metered_in_batches
        ),
        ACK_FIRST,
    ],
    long=[
        *(KillCase(plan, results.count_metered) for plan in _plans(RESULT_POINTS, 100)),
        KillCase(
            KillPlan(IN_BATCH, 6, 4, 100, AT_FIRST_BATCH, BATCHES), results.count_metered_in_batches
        ),
        ACK_FIRST,
    ],
    note=f"Acks are waited for {results.ACK_WAIT_MS} ms. {DEFAULTS}",
)

REQUEST_POINTS = ("before_create", "after_create", *RESULT_POINTS)
ASSIGNMENTS = KillStory(
    "assignments",
    "A pushed request is assigned once, whatever dies when",
    "requests",
    "assignments",
    short=[
        KillCase(KillPlan(REQUEST_POINTS, 1, 1, 50), assignments.count_assigned),
        KillCase(
            KillPlan(IN_BATCH, 2, 1, 100, AT_FIRST_BATCHES, BATCHES),
            assignments.count_assigned_in_batches,
        ),
    ],
    long=[
        *(KillCase(plan, assignments.count_assigned) for plan in _plans(REQUEST_POINTS, 100)),
        KillCase(
            KillPlan(IN_BATCH, 6, 4, 100, AT_FIRST_BATCHES, BATCHES),
            assignments.count_assigned_in_batches,
        ),
    ],
    note=f"""Every request is answered, and who is answered twice is told the same. Acks are waited for {assignments.ACK_WAIT_MS} ms, and a
request may be started {assignments.ATTEMPTS} times: ten deaths are more than the default of three allows, and a message in flight at three
of them would be given up with a dead letter and an answer `internal`.""",
)

INVOCATION_POINTS = ("invocation_recorded", "invocation_ended", "invocation_metered")
INVOCATIONS = KillStory(
    "invocations",
    "What a provider was asked is metered once, whatever dies when",
    "calls",
    "usage events",
    short=[KillCase(KillPlan(INVOCATION_POINTS, 1, 1, 20), invocations.count_billed)],
    long=[KillCase(plan, invocations.count_billed) for plan in _plans(INVOCATION_POINTS, 50)],
    note=f"""Lost: a call that the provider heard, and no event. Double: two events of one call. An attempt
whose router died between its record and its call is metered as an estimate, for nothing tells whether the call was sent. Attempts
without an end are metered {invocations.UNFINISHED_MS} ms after their deadline, which is {invocations.TIMEOUT_MS} ms after their begin.
{DEFAULTS}""",
)

WORKER = KillStory(
    "worker",
    "An assignment has one result, whatever dies when",
    "assignments",
    "results",
    short=[
        KillCase(KillPlan(RESULT_POINTS, 1, 1, 50), worker.count_results),
        KillCase(
            KillPlan(IN_BATCH, 2, 1, 100, AT_FIRST_BATCH, BATCHES), worker.count_results_in_batches
        ),
    ],
    long=[
        *(KillCase(plan, worker.count_results) for plan in _plans(RESULT_POINTS, 100)),
        KillCase(
            KillPlan(IN_BATCH, 6, 4, 100, AT_FIRST_BATCH, BATCHES), worker.count_results_in_batches
        ),
    ],
    note=f"""A worker of the SDK dies. Every other handler waits, the others answer at once. Acks are waited for {ACK_WAIT_S * 1000:g} ms,
and an assignment may be started {WORKER_ATTEMPTS} times: one in flight at three of ten deaths would be given up by default.""",
)

ATTEMPTS = KillStory(
    "attempts",
    "A failing message has its attempts and no more, whatever is killed",
    "messages",
    "dead letters",
    short=[
        KillCase(
            KillPlan((), 0, 1, 60, label="results, one of 3 routers"),
            partial(attempts.count_attempts, "results", 3),
        )
    ],
    long=[
        KillCase(
            KillPlan((), 0, 6, 167, label=f"{consumer}, one of {routers}"),
            partial(attempts.count_attempts, consumer, routers),
        )
        for routers in (3, 4)
        for consumer in attempts.CONSUMERS
    ],
    note="""Every message fails. `begun less`: a router was killed between the counting of an attempt and its beginning; `of these
unconfirmed`: or with a first delivery that it may never have begun, which the dead letter says (`attempts_unconfirmed`). A killed
router takes along the violations and answers that it was about to send. Acks are waited for 500 ms, pauses are 50, 100 and 200 ms.""",
)

# -- the bus, agents -------------------------------------------------------------------------------

BUS_POINTS = ("bus_processed", "bus_marking", "bus_marked")
BESIDE_THE_MARK = KillCase(
    KillPlan(("bus_processed",), 2, 0, 20, label="control: the effect beside the mark"),
    bus.count_effects_beside_the_mark,
    is_doubled_and_none_lost,
)
BUS = KillStory(
    "bus",
    "An event has one effect, whatever dies when",
    "events",
    "effects",
    short=[KillCase(KillPlan(BUS_POINTS, 1, 1, 60), bus.count_effects), BESIDE_THE_MARK],
    long=[
        *(KillCase(plan, bus.count_effects) for plan in _plans(BUS_POINTS, 100, at_random=20)),
        BESIDE_THE_MARK,
    ],
    note=(
        "The effect is a row in the SQLite file of the processed keys. Acks are waited for "
        f"0.5 s. {DEFAULTS}"
    ),
)

BATCH_POINTS = (
    "agent_received",
    "agent_deduplicated",
    "agent_persisted",
    "agent_applying",
    "agent_applied",
)
AGENT_POINTS = (*BATCH_POINTS, *RESULT_POINTS)
# a whole share may be one batch, or several
AT_FIRST_PASS = dict.fromkeys((*BATCH_POINTS, "batch_open"), (1, 1))
LITERAL_AGENT = KillCase(
    KillPlan(
        ("agent_persisted",), 2, 0, 20, AT_FIRST_PASS, "control: the specification's literal order"
    ),
    agents.count_effects_of_literal_order,
    is_one_lost_for_each_kill,
)
AGENTS = KillStory(
    "agents",
    "An agent's effects happen once, whatever dies when",
    "messages",
    "effects",
    short=[
        KillCase(KillPlan(AGENT_POINTS, 1, 1, 20, AT_FIRST_PASS), agents.count_effects),
        KillCase(
            KillPlan(IN_BATCH, 2, 0, 100, AT_FIRST_PASS, BATCHES), agents.count_effects_in_batches
        ),
        LITERAL_AGENT,
    ],
    long=[
        *(
            KillCase(plan._replace(passes=AT_FIRST_PASS), agents.count_effects)
            for plan in _plans(AGENT_POINTS, 20, at_random=50)
        ),
        KillCase(
            KillPlan(IN_BATCH, 6, 4, 100, AT_FIRST_PASS, BATCHES), agents.count_effects_in_batches
        ),
        LITERAL_AGENT,
    ],
    note=f"""Local effects are counted in the agent's state, outgoing messages in their stream, each by the id of its input. Acks are waited
for 500 ms, and a message may be delivered {agents.MAX_DELIVER} times: one in flight at five of ten deaths would be given up by default.""",
)

# -- the mailbox -----------------------------------------------------------------------------------

RELAY_POINTS = (
    "outbox_claimed",
    "batch_open",
    "outbox_stored",
    "outbox_marked",
    "outbox_committed",
)
FORGETFUL_STREAM = _in_postgres(
    partial(relay.count_published_within, 0.1),
    KillPlan(("outbox_stored",), 3, 0, 200, label="outbox_stored, duplicate window 0.1 s"),
    expects=is_double_and_none_lost,
)
MARK_FIRST = _in_postgres(
    relay.count_published_after_mark,
    KillPlan(("outbox_marked",), 2, 0, 50, label="control: marked before it is published"),
    expects=is_one_lost_for_each_kill,
)
RELAY = KillStory(
    "relay",
    "A committed row is published once, whatever dies when",
    "rows",
    "in the stream",
    short=[
        *_in_postgres(relay.count_published, KillPlan(RELAY_POINTS, 1, 1, 150)),
        *FORGETFUL_STREAM,
        *MARK_FIRST,
    ],
    long=[
        *_in_postgres(relay.count_published, *_plans(RELAY_POINTS, 1_000)),
        *FORGETFUL_STREAM,
        *MARK_FIRST,
    ],
    note=f"PostgreSQL 16, fsync on; rounds of 50 rows, committed 25 at a time. {DEFAULTS}",
)

INBOX_POINTS = (
    "inbox_received",
    "inbox_handling",
    "inbox_handled",
    "inbox_marked",
    "inbox_dead_letter_stored",
    "after_commit",
    "after_ack",
)
HTTP_POINTS = ("inbox_handled", "inbox_marked")


def _inbox_plan(points: tuple[str, ...], at_point: int, at_random: int, share: int) -> KillPlan:
    """A share of new events reaches each pass that is asked for, whatever the life before left."""
    # a share at once; batches of 1, 2, 4 …
    batches = {"inbox_received": (1, 1), "inbox_handled": (1, 3), "inbox_marked": (1, 3)}
    dead_letters = dict.fromkeys(
        ("inbox_dead_letter_stored", "after_commit"), (1, share // inbox.POISON)
    )
    return KillPlan(points, at_point, at_random, share, {**batches, **dead_letters})


OVER_HTTP = dict.fromkeys(HTTP_POINTS, (1, 20))
LITERAL_INBOX = _in_postgres(
    inbox.count_in_literal_order,
    KillPlan(
        ("inbox_received",), 2, 0, 20, {"inbox_received": (1, 15)}, "control: inbox_received 2 ×"
    ),
    expects=is_one_lost_for_each_kill,
)
INBOX = KillStory(
    "inbox",
    "An event has one effect, and poison one dead letter, whatever dies when",
    "events",
    "effects and dead letters",
    short=[
        *_in_postgres(inbox.count_in_transaction, _inbox_plan(INBOX_POINTS, 1, 1, 20)),
        *_in_postgres(
            inbox.count_over_http, KillPlan(HTTP_POINTS, 1, 0, 30, OVER_HTTP, "over HTTP")
        ),
        *LITERAL_INBOX,
    ],
    long=[
        *_in_postgres(
            inbox.count_in_transaction,
            *(_inbox_plan((point,), 10, 0, 125) for point in INBOX_POINTS),
        ),
        *_in_postgres(inbox.count_in_transaction, _inbox_plan((), 0, 10, 125)),
        *_in_postgres(
            inbox.count_over_http,
            *(KillPlan((point,), 5, 0, 40, OVER_HTTP) for point in HTTP_POINTS),
        ),
        *LITERAL_INBOX,
    ],
    note=f"""One event in {inbox.POISON} is poison. Acks are waited for {inbox.ACK_WAIT_S:g} s. {DEFAULTS} PostgreSQL with fsync on; a kill
at random is a SIGKILL within the first 40 ms of a life's work. Calls beyond one for each event are what the handler's own memory (409) is
for; in the row's transaction they have no effect.""",
)

RELAY_TO_INBOX = KillStory(
    "relay_to_inbox",
    "A committed row has one effect at the other end, wherever the relay dies",
    "rows",
    "effects",
    short=_in_postgres(
        relay_to_inbox.count_effects,
        KillPlan(("outbox_stored",), 1, 1, 150),
        expects=is_exact_and_stored_once,
    ),
    long=[
        *_in_postgres(
            relay_to_inbox.count_effects, *(KillPlan((point,), 6, 4, 200) for point in RELAY_POINTS)
        ),
        *_in_postgres(
            partial(relay_to_inbox.count_effects, window_s=0.1),
            KillPlan(("outbox_stored",), 5, 0, 200, label="outbox_stored, duplicate window 0.1 s"),
            expects=is_exact_though_stored_twice,
        ),
    ],
    note="""Two databases, PostgreSQL 16 with fsync on, one inbox process at work all the time; rounds of 50 rows, committed 25 at a time.
What stands in the stream twice has one effect.""",
)

# -- the lake --------------------------------------------------------------------------------------

S3_POINTS = tuple(
    f"{when} {table}"
    for table in ("bronze", "silver", "gold_day", "cuts")
    for when in ("before", "after")
)


def _kill_writers(place: str, count: Count) -> list[KillCase]:
    plans = [
        KillPlan((point,), 20, 0, 4, label=f"writer, {point}, {place}") for point in LAKE_POINTS
    ]
    return [
        KillCase(plan, count)
        for plan in (*plans, KillPlan((), 0, 20, 4, label=f"writer, at random, {place}"))
    ]


def _kill_in_cluster(what: str, count: Count) -> list[KillCase]:
    """Shares so large that no stream is read before its last kill."""
    plans = [
        KillPlan((table,), 10, 0, 1_200, label=f"{what}, as {table} is written")
        for table in lake_cluster.POINTS
    ]
    return [
        KillCase(plan, count)
        for plan in (*plans, KillPlan((), 0, 20, 2_500, label=f"{what}, at random"))
    ]


LAKE = KillStory(
    "lake",
    "Tables are the truth, whatever dies when",
    "messages",
    "events in silver",
    short=[],  # each life costs the start of a JVM
    long=[
        *(
            KillCase(
                KillPlan((point,), 3, 0, 3_000, label=f"driver, {point}"), lake.count_after_driver
            )
            for point in LAKE_POINTS
        ),
        # so that each life has something to do
        KillCase(KillPlan((), 0, 20, 7_500, label="driver, at random"), lake.count_after_driver),
        KillCase(
            KillPlan(LAKE_POINTS, 3, 0, 3_000, label="driver's Python, at each point"),
            lake.count_after_python,
        ),
        KillCase(
            KillPlan((), 0, 20, 7_500, label="driver's Python, at random"), lake.count_after_python
        ),
        *_kill_in_cluster("executor", lake_cluster.count_after_executor),
        *_kill_in_cluster("Python of an executor", lake_cluster.count_after_python),
        *_kill_in_cluster("worker", lake_cluster.count_after_worker),
        KillCase(
            KillPlan((), 0, 20, 600, label="broker, while a batch is read"), lake.count_after_broker
        ),
        *_kill_writers("disk", lake_writers.count_on_disk),
        *_kill_writers("bucket", lake_writers.count_in_bucket),
        *(
            KillCase(
                KillPlan((point,), 5, 0, 4, label=f"S3, {point} is stored"),
                lake_writers.count_after_server,
            )
            for point in S3_POINTS
        ),
        KillCase(KillPlan((), 0, 20, 4, label="S3, at random"), lake_writers.count_after_server),
    ],
    note="""`wrong` counts lines of the report that are not the generator's truth (counts, exact costs, latency sums, percentiles within
1 %) and checks of `router usage reconcile` that differ. Lives: `router usage ingest --master 'local[2]'`, its process group killed
by SIGKILL; the broker: nats-server, killed by SIGKILL and started again on its store while a driver reads. Executors, their
Python processes and workers: of a standalone cluster of two workers of one core on this machine, at the first file that a
micro-batch writes into bronze or silver, or at random. A driver's Python: its JVM is left alive. A writer: the lake's own code for
a batch and its commits, in a process without a JVM, so that a life costs little; each of them gets four messages. S3: moto's server,
which keeps its objects, killed as a commit of the named table is about to be stored, or is stored and not answered; the writer
beside it is killed, too.""",
)

STORIES = (
    RESULTS,
    ASSIGNMENTS,
    INVOCATIONS,
    WORKER,
    ATTEMPTS,
    BUS,
    AGENTS,
    RELAY,
    INBOX,
    RELAY_TO_INBOX,
    LAKE,
)
