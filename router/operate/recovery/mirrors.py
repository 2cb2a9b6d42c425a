"""Streams of another JetStream domain, copied into this one: as mirrors, or as a source of a stream
that has messages of its own.

A mirror keeps sequences and times, and takes no other message. It does not follow deletions: what
was removed there stays here until it is too old. Durables are not mirrored. A bucket's mirror keeps
as many versions of a key as the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable

from router.core.errors import NotFound
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.topology import MirrorSpec, StreamSpec, Topology


class DomainMirrorSpec(MirrorSpec, frozen=True, kw_only=True):
    """The mirror of a stream of another domain, which `origin` names there."""

    origin: str
    deliver: str = ""  # the server chooses

    def to_json(self) -> Json:
        stream = super().to_json()
        kept = {
            "max_msgs_per_subject": self.max_per_subject,
            "allow_rollup_hdrs": self.allow_rollup,
        }
        return {**stream, **kept, "mirror": {**stream["mirror"], "name": self.origin}}


def declare_mirrors(streams: Iterable[StreamSpec], domain: str) -> Topology:
    """A mirror of each of these streams, under its own name."""
    return Topology(tuple(declare_mirror(stream, domain) for stream in streams))


def declare_mirror(stream: StreamSpec, domain: str, name: str | None = None) -> DomainMirrorSpec:
    return DomainMirrorSpec(
        name=name or stream.name,
        origin=stream.name,
        api=domain_api(domain),
        max_age=stream.max_age,
        max_bytes=stream.max_bytes,
        replicas=stream.replicas,
        max_per_subject=stream.max_per_subject,
        allow_rollup=stream.allow_rollup,
    )


def domain_api(domain: str) -> str:
    """Where the API of another domain is reached from here."""
    return f"$JS.{domain}.API"


async def add_source(jetstream: JetStream, stream: str, domain: str) -> bool:
    """Let `stream` take in what the stream of that name in `domain` stores, beside its own
    messages. False: it does already.
    """
    info = await jetstream.stream(stream)
    if info is None:
        raise NotFound(f"there is no stream {stream}: `router topology apply` makes it")
    config, source = info["config"], declare_source(stream, domain)
    sources: list[Json] = config.get("sources") or []
    if any(
        one["name"] == stream and (one.get("external") or {}).get("api") == domain_api(domain)
        for one in sources
    ):
        return False
    await jetstream.ask(f"STREAM.UPDATE.{stream}", {**config, "sources": [*sources, source]})
    return True


def declare_source(stream: str, domain: str) -> Json:
    return {"name": stream, "external": {"api": domain_api(domain), "deliver": ""}}
