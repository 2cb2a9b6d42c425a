"""The streams of a partitioned subject: `{stream}_P{partition}` stores `{subject}.p.{partition}`."""

from __future__ import annotations

from router.delivery.api import JetStream


def partition_stream(stream: str, partition: str) -> str:
    return f"{stream}_P{partition}"


async def list_partitions(jetstream: JetStream, stream: str, subject: str) -> list[str]:
    """The partitions whose streams are on the server, at most its first page of 1024. Raises as `JetStream.ask`."""
    answer = await jetstream.ask("STREAM.NAMES", {"subject": f"{subject}.p.*"})
    prefix = partition_stream(stream, "")
    return sorted(name.removeprefix(prefix) for name in answer.get("streams") or () if name.startswith(prefix))
