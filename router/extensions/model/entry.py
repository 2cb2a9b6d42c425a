"""One extension's registry entry as frozen values (docs/reference/extensions.md#registry). `parse`
makes them.

    ExtensionEntry  id, kind, bounds of a call, config
      ├─ ExtensionVersion*    a subject, and rules for whom it is; a request gets the first version whose rules match
      │    └─ ExtensionInstance*   shares of its calls
      └─ subject, ExtensionInstance*    an entry without versions is its own and only one

A subject tells kind, id and version, so that a service can be found, allowed and watched by its
name alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

PRE, VALIDATOR, POST, PROVIDER = "pre", "validator", "post", "provider"

SUBJECT_PREFIXES: Mapping[str, str] = {
    PRE: "beamline.ext.pre.",
    VALIDATOR: "beamline.ext.validate.",
    POST: "beamline.ext.post.",
    PROVIDER: "beamline.provider.",
}
KINDS = tuple(SUBJECT_PREFIXES)

# below the two seconds that clients commonly give a request: they hear what failed, not silence
TIMEOUT_MS = 1500
PROVIDER_TIMEOUT_MS = 5000  # a provider is invoked for itself, and computes for longer
DEFAULT_INSTANCE_WEIGHT = 100  # of an instance that says nothing: a full share


class VersionRules(Struct, frozen=True):
    """For whom a version is: every non-empty list must hold the request's value. All lists empty:
    for all requests.
    """

    tenants: frozenset[str] = frozenset()
    environments: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()

    def is_for(self, tenant_id: str, policy_id: str, environment: str | None) -> bool:
        return (
            (not self.tenants or tenant_id in self.tenants)
            and (not self.policies or policy_id in self.policies)
            and (not self.environments or environment in self.environments)
        )


NO_RULES = VersionRules()


class ExtensionInstance(Struct, frozen=True):
    """One of several services of a version, drawn by `weight` (1..100)."""

    id: str
    subject: str
    weight: int = DEFAULT_INSTANCE_WEIGHT
    enabled: bool = True


class ExtensionVersion(Struct, frozen=True):
    """`is_default`: used when no version's rules match; without rules it is used only then."""

    version: str
    subject: str
    enabled: bool = True
    rules: VersionRules = NO_RULES
    is_default: bool = False
    instances: tuple[ExtensionInstance, ...] = ()

    @property
    def is_for_all(self) -> bool:
        """Whether it is for every request."""
        return self.rules == NO_RULES and not self.is_default

    def is_for(self, tenant_id: str, policy_id: str, environment: str | None) -> bool:
        if self.is_default and self.rules == NO_RULES:
            return False
        return self.rules.is_for(tenant_id, policy_id, environment)


class ExtensionEntry(Struct, frozen=True, kw_only=True):
    """One extension. `kind`: pre | validator | post | provider. Without `versions`, `subject` and `instances` are its only one."""

    id: str
    kind: str
    subject: str | None
    timeout_ms: int
    retry: int = 0
    enabled: bool = True
    config: Mapping[str, object]
    metadata: Mapping[str, object]
    versions: tuple[ExtensionVersion, ...] = ()
    instances: tuple[ExtensionInstance, ...] = ()

    def list_versions(self) -> tuple[ExtensionVersion, ...]:
        """The versions to choose from, in order."""
        if self.versions or self.subject is None:
            return self.versions
        return (
            ExtensionVersion(
                self.subject.rpartition(".")[2], self.subject, instances=self.instances
            ),
        )


def subject_of(kind: str, extension_id: str, version: str) -> str:
    return f"{SUBJECT_PREFIXES[kind]}{extension_id}.{version}"
