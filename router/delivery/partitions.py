"""The streams of a partitioned subject: `{stream}_P{partition}` stores `{subject}.p.{partition}`, as the server's mapping names it."""

from __future__ import annotations

from router.delivery.api import JetStream


def partition_stream(stream: str, partition: str) -> str:
    return f"{stream}_P{partition}"


async def list_partition_streams(jetstream: JetStream, subject: str) -> list[str]:
    """The streams that store a part of the subject, at most the server's first page of 1024. Raises as `JetStream.ask`."""
    answer = await jetstream.ask("STREAM.NAMES", {"subject": f"{subject}.p.*"})
    return list(answer.get("streams") or ())


def is_stored_as(stored: str, subject: str) -> bool:
    """Whether a message of the public subject may stand in its stream under this one: the same, or a partition's."""
    head, _, partition = stored.rpartition(".")
    return stored == subject or (head == f"{subject}.p" and partition != "")


async def list_partitions(jetstream: JetStream, stream: str, subject: str) -> list[str]:
    """The partitions whose streams are on the server, at most its first page of 1024. Raises as `JetStream.ask`."""
    prefix = partition_stream(stream, "")
    names = await list_partition_streams(jetstream, subject)
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))
