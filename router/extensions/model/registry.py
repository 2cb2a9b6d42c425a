"""The current extensions: one table, replaced as a whole. What a lookup needs is prepared at the
replacement.

A lookup: the entry by id and kind → the first version that fits, else the default → one of its
instances, drawn by
a hash of the key. The same key finds the same instance in every process.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

from router.extensions.model.entry import ExtensionEntry, ExtensionVersion
from router.policies.model.policy import cumulative_weights, weighted_hash


class Route(Struct, frozen=True):
    """Where a call goes, with the registry's settings for it. Lookups return the same object each
    time.
    """

    extension_id: str
    kind: str  # pre | validator | post | provider
    version: str
    subject: str  # of the chosen instance
    timeout_ms: int
    retry: int  # further attempts after the first
    config: Mapping[str, object]


class _VersionRoutes(Struct, frozen=True):
    """One version: its routes, and where the shares of all but the last end."""

    version: ExtensionVersion
    routes: tuple[Route, ...]
    bounds: tuple[int, ...]


class _RegisteredExtension(Struct, frozen=True):
    kind: str
    versions: tuple[_VersionRoutes, ...]
    default: _VersionRoutes | None
    # the first version, if it has no rules: then a lookup needs no search
    for_all: _VersionRoutes | None

    def find_version(
        self, tenant_id: str, policy_id: str, environment: str | None
    ) -> _VersionRoutes | None:
        for way in self.versions:
            if way.version.is_for(tenant_id, policy_id, environment):
                return way
        return self.default


class ExtensionRegistry:
    """The bucket's mirror replaces the table, callers read it."""

    def __init__(self, entries: Iterable[ExtensionEntry] = ()) -> None:
        self._entries: dict[str, ExtensionEntry] = {}
        self._prepared: dict[str, _RegisteredExtension] = {}
        self.replace(entries)

    def find(
        self,
        extension_id: str,
        *,
        kind: str,
        tenant_id: str,
        policy_id: str,
        environment: str | None = None,
        key: str = "",
    ) -> Route | None:
        """The service to call; None is `extension_not_found`: unknown, disabled, of another kind,
        or no version for this request.
        """
        listed = self._prepared.get(extension_id)
        if listed is None or listed.kind != kind:
            return None
        way = listed.for_all or listed.find_version(tenant_id, policy_id, environment)
        if way is None:
            return None
        if not way.bounds:
            return way.routes[0]
        return way.routes[
            bisect_right(way.bounds, weighted_hash(0, f"{tenant_id}\0{extension_id}", key))
        ]

    def replace(self, entries: Iterable[ExtensionEntry]) -> None:
        """The new table, at once: a lookup sees the old one or the new one, never a mixture."""
        by_id = {entry.id: entry for entry in entries}
        listed = {entry.id: self._prepare(entry) for entry in by_id.values() if entry.enabled}
        self._entries, self._prepared = by_id, listed

    def _prepare(self, entry: ExtensionEntry) -> _RegisteredExtension:
        """The prepared entry, reused while the entry is the same object: a change of one entry
        costs the others nothing.
        """
        prepared = self._prepared.get(entry.id)
        return (
            prepared
            if prepared is not None and self._entries.get(entry.id) is entry
            else _prepare_entry(entry)
        )

    def has_entry(self, extension_id: str) -> bool:
        """Also where it is disabled."""
        return extension_id in self._entries

    def get_all(self) -> Mapping[str, ExtensionEntry]:
        """Every entry by id, disabled ones too."""
        return MappingProxyType(self._entries)


def _prepare_entry(entry: ExtensionEntry) -> _RegisteredExtension:
    ways = [
        way
        for version in entry.list_versions()
        if version.enabled and (way := _prepare_version(entry, version)) is not None
    ]
    default = next((way for way in ways if way.version.is_default), None)
    return _RegisteredExtension(
        entry.kind, tuple(ways), default, ways[0] if ways and ways[0].version.is_for_all else None
    )


def _prepare_version(entry: ExtensionEntry, version: ExtensionVersion) -> _VersionRoutes | None:
    """The version with its routes; None: every instance is disabled."""
    if not version.instances:
        return _VersionRoutes(version, (_route(entry, version, version.subject),), ())
    able = [instance for instance in version.instances if instance.enabled]
    if not able:
        return None
    routes = tuple(_route(entry, version, instance.subject) for instance in able)
    return _VersionRoutes(
        version, routes, cumulative_weights(tuple(instance.weight for instance in able))
    )


def _route(entry: ExtensionEntry, version: ExtensionVersion, subject: str) -> Route:
    return Route(
        entry.id, entry.kind, version.version, subject, entry.timeout_ms, entry.retry, entry.config
    )
