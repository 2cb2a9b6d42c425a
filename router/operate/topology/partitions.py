"""The streams of a partitioned subject: `{stream}_P{partition}` stores `{subject}.p.{partition}`,
as the server's mapping names it.
"""

from __future__ import annotations

from router.delivery.wire.api import JetStream, Json


def partition_stream(stream: str, partition: str) -> str:
    return f"{stream}_P{partition}"


async def list_partition_streams(jetstream: JetStream, subject: str) -> list[str]:
    """The streams that store a part of the subject, at most the server's first page of 1024. Raises
    as `JetStream.ask`.
    """
    answer = await jetstream.ask("STREAM.NAMES", {"subject": f"{subject}.p.*"})
    return list(answer.get("streams") or ())


def is_stored_as(stored: str, subject: str) -> bool:
    """Whether a message of the public subject may stand in its stream under this one: the same, or
    a partition's.
    """
    head, _, partition = stored.rpartition(".")
    return stored == subject or (head == f"{subject}.p" and partition != "")


async def list_partitions(jetstream: JetStream, stream: str, subject: str) -> list[str]:
    """The partitions whose streams are on the server, at most its first page of 1024. Raises as
    `JetStream.ask`.
    """
    prefix = partition_stream(stream, "")
    names = await list_partition_streams(jetstream, subject)
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


async def list_promotable_partitions(jetstream: JetStream, stream: str, subject: str) -> list[str]:
    """The partitions whose streams are mirrors of another place's, or were. Raises as
    `JetStream.ask`.

    A mirror has no subjects, so they are found by name; one that was promoted stores its
    partition's.
    """
    prefix, found = partition_stream(stream, ""), []
    for name in await _list_streams(jetstream):
        partition = name.removeprefix(prefix)
        if partition not in (name, "") and _is_promotable(
            await jetstream.stream(name), f"{subject}.p.{partition}"
        ):
            found.append(partition)
    return sorted(found)


def _is_promotable(info: Json | None, stored: str) -> bool:
    """Whether it mirrors a stream of its own name, which only another place can have, or stores
    this subject.
    """
    config: Json = info["config"] if info is not None else {}
    mirror: Json = config.get("mirror") or {}
    return (
        mirror.get("name") == config.get("name") if mirror else config.get("subjects") == [stored]
    )


async def _list_streams(jetstream: JetStream) -> list[str]:
    """The names of all streams, page after page."""
    found: list[str] = []
    while True:
        page = await jetstream.ask("STREAM.NAMES", {"offset": len(found)})
        found += page["streams"] or ()
        if not page["streams"] or len(found) >= page["total"]:
            return found
