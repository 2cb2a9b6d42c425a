"""An effect with an owner is published once: what is stored, or on its way, is not sent again."""

import orjson

from router.core.bounded_cache import SHARES
from router.core.message import Effect
from router.core.outcome import PublishAck
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.publish.known_effects import KnownEffects
from tests.support.delivery import FakeConnection
from tests.support.waiting import until

USAGE = Effect("effects", b"1", "a", owner="acme")


class Publisher:
    """AckedPublisher over a connection that answers only what a test says."""

    def __init__(self, keep_s: float = 600.0) -> None:
        self.connection = FakeConnection()
        self.told: list[PublishAcks | NotPublished] = []
        self.now = 0.0
        self.publisher = AckedPublisher(self, 5.0, KnownEffects(keep_s))  # type: ignore[arg-type]
        self.publisher._now = lambda: self.now

    def store(self, effect: Effect = USAGE) -> None:
        self.publisher.publish([effect], self.told.append)

    @property
    def inboxes(self) -> list[str]:
        return [post.reply for post in self.connection.posts]

    def ack(self, number: int, **answer: object) -> None:
        self.publisher._on_publish_ack(
            self.inboxes[number].encode(),
            b"",
            orjson.dumps(answer or {"stream": "S", "seq": 7}),
            None,
        )


async def test_copies_wait_for_the_first_ones_publish_ack() -> None:
    publisher = Publisher()
    for _ in range(3):
        publisher.store()
    assert (len(publisher.inboxes), publisher.told) == (1, [])
    publisher.ack(0)
    assert publisher.told == [
        (PublishAck("a", "S", 7, False),),
        (PublishAck("a", "S", 7, True),),
        (PublishAck("a", "S", 7, True),),
    ]


async def test_a_copy_of_what_is_stored_is_told_so_later_and_is_not_sent() -> None:
    publisher = Publisher()
    publisher.store()
    publisher.ack(0)
    publisher.store()
    assert len(publisher.told) == 1
    await until(lambda: len(publisher.told) == 2)
    assert (publisher.told[1], len(publisher.inboxes)) == ((PublishAck("a", "S", 7, True),), 1)


async def test_copies_share_the_first_ones_refusal_and_may_be_sent_again() -> None:
    publisher = Publisher()
    publisher.store()
    publisher.store()
    publisher.ack(0, error={"err_code": 10077, "description": "full"})
    assert publisher.told == [NotPublished("effects", 10077, "full")] * 2
    publisher.store()
    assert len(publisher.inboxes) == 2


async def test_what_has_no_publish_ack_in_time_is_refused_with_its_copies() -> None:
    publisher = Publisher()
    publisher.store()
    publisher.store()
    publisher.publisher._now = lambda: 1e12
    publisher.publisher.expire()
    assert [type(one) for one in publisher.told] == [NotPublished, NotPublished]


async def test_a_reconnect_and_the_end_of_its_time_forget_it() -> None:
    publisher = Publisher(keep_s=60)
    publisher.store()
    publisher.ack(0)
    publisher.connection.reconnect_count += 1
    publisher.store()
    publisher.ack(1)
    publisher.now = 61
    publisher.store()
    assert len(publisher.inboxes) == 3


async def test_an_effect_without_an_owner_and_a_consumer_without_memory_send_every_copy() -> None:
    publisher = Publisher()
    for _ in range(2):
        publisher.store(Effect("effects", b"1", "a"))
    publisher.publisher._known_effects = None
    for _ in range(2):
        publisher.store()
    assert len(publisher.inboxes) == 4


def test_a_tenant_that_floods_pushes_out_its_own() -> None:
    known = KnownEffects(600, limit=SHARES * 4)
    quiet = Effect("effects", b"", "quiet", owner="quiet")
    known.keep(quiet, PublishAck("quiet", "S", 1, False), 0.0)
    for n in range(SHARES * 20):
        known.keep(
            Effect("effects", b"", str(n), owner="loud"), PublishAck(str(n), "S", n, False), 0.0
        )
    assert known.publish_ack_of(quiet, 0, 0.0) == PublishAck("quiet", "S", 1, True)
    assert len(known) <= SHARES * 5
