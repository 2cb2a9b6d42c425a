"""Mirrors of a place that is lost, made the streams of this one.

    each declared stream   a mirror: the mirror is taken off it, and it takes messages from now on;
                           missing: made
    each declared durable  made, and set to the first message since `since`; what was settled at the
                           lost place is handled again

What is handled again changes nothing once the servers were started again (`windows`): its effects
have the ids that they had, because a mirror keeps sequences and times. Nothing is deleted, and a
second call goes on where the first one ended: from the same start (`durables`), or from an earlier
one, so far as it widens the windows too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import nats.errors
from msgspec import Struct

from router.core.errors import PermissionDenied, RouterError
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.topology import StreamSpec
from router.operate.recovery.durables import PROMOTED_SINCE
from router.operate.recovery.windows import widen

ANSWER_S = 2.0


class PlaceAnswers(RouterError):
    """The place that the mirrors copy is not lost. Two places that take the same messages would
    both handle them.
    """

    code = "place_answers"


class PromotedStream(Struct, frozen=True):
    """A stream, and how far its mirror had come. `state`: promoted, made, or is ours (it was no
    mirror).
    """

    name: str
    state: str
    messages: int
    last_sequence: int
    last_time: str


async def promote_streams(
    jetstream: JetStream,
    streams: Sequence[StreamSpec],
    since: datetime,
    effects: Collection[str],
    *,
    is_forced: bool = False,
) -> list[PromotedStream]:
    """Promote these streams, those of effects first: they note `since`, for a call that goes on
    where this one failed.

    Their windows reach back to `since`, also those of streams that an earlier call promoted. Unless
    `is_forced`, it raises PlaceAnswers, or PermissionDenied where it may not ask whether the place
    answers.
    """
    infos = {spec.name: await jetstream.stream(spec.name) for spec in streams}
    if not is_forced:
        await _require_silence(jetstream, [info for info in infos.values() if info is not None])
    in_order = sorted(streams, key=lambda spec: spec.name not in effects)
    return [await _promote(jetstream, spec, infos[spec.name], since, effects) for spec in in_order]


async def _require_silence(jetstream: JetStream, infos: list[Json]) -> None:
    """Raises PlaceAnswers if the API of a mirrored domain answers, and PermissionDenied if it may
    not be asked.
    """
    mirrors = [info["config"]["mirror"] for info in infos if info["config"].get("mirror")]
    for api in {(mirror.get("external") or {}).get("api", "$JS.API") for mirror in mirrors}:
        if await _answers(jetstream, f"{api}.INFO"):
            raise PlaceAnswers(
                f"{api} answers: the mirrored place is not lost. Stop its routers and cut "
                "the leaf node connection, or --force"
            )


async def _answers(jetstream: JetStream, subject: str) -> bool:
    try:
        await jetstream.connection.request(subject, timeout=ANSWER_S)
    except (nats.errors.NoRespondersError, TimeoutError):
        return False
    except PermissionDenied as exc:
        raise PermissionDenied(
            f"this user may not ask whether the mirrored place answers: {exc}"
        ) from exc
    return True


async def _promote(
    jetstream: JetStream,
    spec: StreamSpec,
    info: Json | None,
    since: datetime,
    effects: Collection[str],
) -> PromotedStream:
    has: Json = info["config"] if info is not None else {}
    is_ours = info is not None and not has.get("mirror")
    config = (
        has
        if is_ours
        else {name: value for name, value in {**has, **spec.to_json()}.items() if name != "mirror"}
    )
    if spec.name in effects:
        config = _keep_ids(config, spec, since)
    if config != has:
        await jetstream.ask(f"STREAM.{'CREATE' if info is None else 'UPDATE'}.{spec.name}", config)
    return _describe(spec.name, info, "is ours" if is_ours else "promoted")


def _keep_ids(config: Json, spec: StreamSpec, since: datetime) -> Json:
    """The configuration with the ids since `since`, which it notes. A window that is wider stays so
    wide.
    """
    declared = {**config, "duplicate_window": spec.to_json()["duplicate_window"]}
    wide = widen(declared, since, datetime.now(UTC))
    window = max(wide["duplicate_window"], config["duplicate_window"])
    return {
        **wide,
        "duplicate_window": window,
        "metadata": {**wide["metadata"], PROMOTED_SINCE: since.isoformat()},
    }


def _describe(name: str, info: Json | None, state: str) -> PromotedStream:
    if info is None:
        return PromotedStream(name, "made", 0, 0, "")
    had = info["state"]
    return PromotedStream(
        name, state, had["messages"], had["last_seq"], had["last_ts"] if had["messages"] else ""
    )
