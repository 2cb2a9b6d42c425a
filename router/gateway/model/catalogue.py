"""What a tenant's requests may be answered by: its policies, their candidates, and the models and
APIs that the registry says of these.

    policy ── providers[], fallbacks ──> names ── registry ──> apis, models
                                          └── the policy's own `model` goes before the registry's

The router decides. What stands here narrows a policy's candidates and never adds one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from router.contracts.decision import MAX_NAMED_PROVIDERS
from router.core.ids import is_opaque
from router.extensions.model.entry import PROVIDER, ExtensionEntry
from router.gateway.model.apis import OF_PLAIN_TEXT, POLICY_PREFIX
from router.gateway.model.refusal import MODEL_NOT_FOUND, GatewayRefusal
from router.policies.model.policy import SHARED, Policy

MAX_MODELS = 256  # of one entry


class PolicySource(Protocol):
    """The policies of this process."""

    def find(self, tenant_id: str, policy_id: str) -> Policy | None: ...

    def get_all(self) -> Mapping[tuple[str, str], Policy]: ...


class EntrySource(Protocol):
    """The registry of this process."""

    def get_all(self) -> Mapping[str, ExtensionEntry]: ...


class ServedApis(Struct, frozen=True):
    """What an entry says of its service. No `apis`: it takes a text and answers one."""

    apis: frozenset[str]
    models: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        return not self.apis

    def can_serve(self, api: str) -> bool:
        return api in (self.apis or OF_PLAIN_TEXT)


class Narrowing(Struct, frozen=True):
    """The candidates of a policy that may take a request; `providers` None: all of them."""

    providers: tuple[str, ...] | None = None


def read_served(entry: ExtensionEntry) -> ServedApis:
    """Read an entry's metadata. What is not legal there counts as absent."""
    models = list(_list_texts(entry.metadata.get("models")))[:MAX_MODELS]
    if not models and isinstance(model := entry.config.get("model"), str) and is_opaque(model):
        models = [model]
    return ServedApis(frozenset(_list_texts(entry.metadata.get("apis"))), tuple(models))


def _list_texts(value: object) -> Iterator[str]:
    if isinstance(value, list):
        yield from (text for text in value if isinstance(text, str) and is_opaque(text))


class ModelCatalogue:
    """Over the policies and the registry of this process, which are kept equal to their buckets."""

    def __init__(self, policies: PolicySource, registry: EntrySource) -> None:
        self._policies = policies
        self._registry = registry

    def find_served(self, provider_id: str) -> ServedApis | None:
        """None: it is in no entry, or disabled."""
        entry = self._registry.get_all().get(provider_id)
        if entry is None or not entry.enabled or entry.kind != PROVIDER:
            return None
        return read_served(entry)

    def narrow(self, tenant_id: str, policy_id: str, api: str, model: str | None) -> Narrowing:
        """Who of the policy may take this request. Raises GatewayRefusal where no candidate can."""
        policy = self._policies.find(tenant_id, policy_id)
        if policy is None:
            return Narrowing()  # the router says so, in its own words
        able = {
            name: own_model
            for name, own_model in _list_candidates(policy)
            if (served := self.find_served(name)) is not None and served.can_serve(api)
        }
        chosen = [
            name
            for name, own_model in able.items()
            if model is None or model in (name, own_model, *self._list_models(name, own_model))
        ]
        if not chosen:
            raise _make_unknown(policy_id, api, model)
        if len(chosen) == len(dict(_list_candidates(policy))):
            return Narrowing()
        return Narrowing(tuple(chosen[:MAX_NAMED_PROVIDERS]))

    def choose_model(self, provider_id: str, told: str | None, asked: str | None) -> str | None:
        """The model that the provider is asked for: the policy's, else the client's, else the
        first that the registry names. None: the provider's own choice.
        """
        if told is not None:
            return told
        models = self._list_models(provider_id, None)
        if asked is not None and asked in models:
            return asked
        return models[0] if models else None

    def list_models(
        self, tenant_id: str, usual: str, policies: Iterable[str] = ()
    ) -> Sequence[str]:
        """What the tenant may name as `model`: its policies, and the models of the usual one.
        `policies`: those that its key may name; none: all.
        """
        allowed = frozenset(policies)
        names = [
            policy.policy_id
            for policy in self._list_policies(tenant_id)
            if not allowed or policy.policy_id in allowed
        ]
        of_usual = self._policies.find(tenant_id, usual) if usual in names else None
        candidates = [] if of_usual is None else _list_candidates(of_usual)
        models = [model for named in candidates for model in self._list_models(*named)]
        return list(dict.fromkeys([*(f"{POLICY_PREFIX}{name}" for name in names), *models]))

    def _list_policies(self, tenant_id: str) -> Iterator[Policy]:
        """Its own go before the shared ones of their name."""
        for (owner, policy_id), policy in sorted(self._policies.get_all().items()):
            if owner == tenant_id or (
                owner == SHARED and self._policies.find(tenant_id, policy_id) is policy
            ):
                yield policy

    def _list_models(self, name: str, own_model: str | None) -> Sequence[str]:
        if own_model is not None:
            return (own_model,)
        served = self.find_served(name)
        return () if served is None else served.models


def _list_candidates(policy: Policy) -> Iterator[tuple[str, str | None]]:
    """The providers that the policy may choose, in either arm of a canary, with its own model."""
    seen: set[str] = set()
    arms = [policy] if policy.canary is None else [policy, policy.canary.candidate]
    for arm in arms:
        named = [(provider.name, provider.model) for provider in arm.providers if provider.enabled]
        for name, model in (*named, *((rule.to, None) for rule in arm.fallbacks)):
            if name not in seen:
                seen.add(name)
                yield name, model


def _make_unknown(policy_id: str, api: str, model: str | None) -> GatewayRefusal:
    if model is not None:
        text = f"No provider of the policy {policy_id} has the model {model} for {api}"
    else:
        text = f"No provider of the policy {policy_id} serves {api}"
    return GatewayRefusal(MODEL_NOT_FOUND, text, param="model")
