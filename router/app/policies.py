"""Where a router's policies come from: a directory, watched; every instance keeps the last good version of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from router.buckets.directory import Directory
from router.observability import events, logs
from router.policy import Policy, Shelf, load_policy

log = logs.logger(__name__)

Key = tuple[str, str]  # tenant (or `_shared`), policy


class PolicyDirectory:
    """Keeps a shelf equal to a directory of `<tenant>/<policy>.json`."""

    def __init__(self, root: Path, shelf: Shelf) -> None:
        self._shelf = shelf
        self._directory = Directory(root, _read, on_change=self._changed, on_error=_broken)

    def load(self) -> None:
        """Once, now: before the first request is taken."""
        self._directory.load()

    async def run(self) -> None:
        """A child of the tree: look for changes for ever."""
        await self._directory.run()

    def _changed(self, policies: Mapping[Key, Policy]) -> None:
        self._shelf.replace(policies)
        log.info(events.POLICY_LOADED, policies=len(policies))


def _read(key: Key, data: bytes) -> tuple[Key, Policy]:
    parsed = load_policy(data, *key)
    for warning in parsed.warnings:
        log.warning(events.POLICY_WARNING, tenant=key[0], policy=key[1], path=warning.path, warning=warning.message)
    return key, parsed.policy


def _broken(path: str, message: str) -> None:
    log.error(events.POLICY_BROKEN, path=path, error=message, in_force="the last good version, if there was one")
