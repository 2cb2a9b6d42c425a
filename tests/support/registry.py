"""Registry entries, and what is wrong with one."""

from collections.abc import Mapping
from typing import Any

from router.extensions.model import EntryError, ExtensionRegistry, Route, parse_entry, subject_of

Document = dict[str, Any]


def an_entry(extension_id: str = "guard", kind: str = "validator", **fields: object) -> Document:
    """A document; version v1 unless it has versions of its own."""
    subject = {} if "versions" in fields else {"subject": subject_of(kind, extension_id, "v1")}
    return {"id": extension_id, "type": kind, **subject, **fields}


def a_version(
    version: str = "v1", extension_id: str = "guard", kind: str = "validator", **fields: object
) -> Document:
    return {"version": version, "subject": subject_of(kind, extension_id, version), **fields}


def find_mistakes(document: object, stored_as: str | None = None) -> list[tuple[str, str]]:
    """What is wrong with a document; empty if nothing is."""
    try:
        parse_entry(document, stored_as)
    except EntryError as exc:
        return list(exc.errors)
    return []


def find_mistake_paths(document: object, stored_as: str | None = None) -> list[str]:
    return [path for path, _ in find_mistakes(document, stored_as)]


def a_registry(*documents: Mapping[str, object]) -> ExtensionRegistry:
    return ExtensionRegistry(map(parse_entry, documents))


def find_route(
    registry: ExtensionRegistry,
    extension_id: str = "guard",
    kind: str = "validator",
    tenant: str = "acme",
    policy: str = "default",
    **asked: str,
) -> Route | None:
    return registry.find(extension_id, kind=kind, tenant_id=tenant, policy_id=policy, **asked)  # type: ignore[arg-type]


def find_subject(registry: ExtensionRegistry, **asked: str) -> str | None:
    """Where a call goes."""
    route = find_route(registry, **asked)
    return route.subject if route is not None else None
