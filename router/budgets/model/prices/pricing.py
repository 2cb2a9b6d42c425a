"""The prices of this process at work, one attempt after the other.

    open(request) ── take(piece) ── take(piece) ── … ── conclude() ──> PricedUsage, for the usage event
                        └── estimate_so_far(): is the reservation spent?

An attempt has the price that was in force when it began. A whole answer with told tokens teaches
the ratio of its tenant, provider and model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from msgspec.structs import replace

from router.budgets.model.prices.cost import (
    CostLimits,
    PricedUsage,
    add_up_cost,
    compute_cost,
    estimate_so_far,
)
from router.budgets.model.prices.passed_by import PassedBy
from router.budgets.model.prices.price import Price, PriceTable
from router.budgets.model.prices.ratios import LearnedRatios, TokenRatios
from router.contracts.money import round_to_nanos
from router.contracts.provider_request import ProviderRequest
from router.core import ids

# So many characters of text in parameters or context are options, more of them a part of the
# prompt.
OPTIONS = 512
NAME = 64  # characters of a name that is only a name
_SEPARATOR = "\n"


class Pricing:
    """In the currency of the prices: no attempt is billed above `max_cost`, and no told cost
    without a price above `unpriced`.

    `factor`, `floor`: how far above what may be expected a provider's word is believed.
    """

    def __init__(
        self, table: PriceTable, *, max_cost: float, unpriced: float, factor: float, floor: float
    ) -> None:
        self.table = table
        self.ratios = LearnedRatios()
        most = round_to_nanos(Decimal(max_cost))
        self.limits = CostLimits(
            most,
            min(most, round_to_nanos(Decimal(unpriced))),
            Decimal(str(factor)),
            min(most, round_to_nanos(Decimal(str(floor)))),
        )

    def open(
        self, request: ProviderRequest, *, at: float, model: str | None = None, expected: int = 0
    ) -> PricedAttempt:
        """Begin an attempt. `at`: seconds since the epoch, by the server's clock.

        `model`: the registry's, until one is told. `expected`: what it is expected to cost, in
        nanos.
        """
        return PricedAttempt(
            self,
            request,
            at,
            model if model is not None and ids.is_opaque(model) else None,
            expected,
        )


class PricedAttempt:
    """One call of a provider."""

    __slots__ = (
        "_at",
        "_expected",
        "_found",
        "_model",
        "_passed",
        "_pricing",
        "_provider_id",
        "_tenant_id",
    )

    def __init__(
        self,
        pricing: Pricing,
        request: ProviderRequest,
        at: float,
        model: str | None,
        expected: int,
    ) -> None:
        self._pricing = pricing
        self._expected = expected
        self._tenant_id, self._provider_id = request.tenant_id, request.provider_id
        self._at = at
        self._model = model
        self._passed = PassedBy(*list_prompts(request))
        self._found: tuple[str | None, Price | None, TokenRatios] | None = None

    def take(self, data: str | bytes, metadata: Mapping[str, object]) -> None:
        """Take what the provider sent: a piece of a stream, the last one too, or a whole answer."""
        self._passed.take(data, metadata)

    def estimate_so_far(self, seconds: float = 0.0) -> int:
        """What it has cost after these seconds, in nanos; before anything came back: the least that
        it costs.
        """
        _, price, ratios = self._find()
        return estimate_so_far(price, self._passed, ratios, seconds)

    def conclude(self, seconds: float, *, is_complete: bool) -> PricedUsage:
        """The cost of an attempt that may have reached its provider.

        `is_complete`: it ended well.
        """
        self._found = None  # other instances may have told a ratio since it began
        model, price, ratios = self._find()
        usage = compute_cost(
            price, self._passed, seconds, ratios, self._pricing.limits, self._expected
        )
        if price is not None and price.characters_per_token is None:
            is_by_token = not (price.is_told and self._passed.told.cost is not None)
            self._take_room(ratios, is_by_token=is_by_token)
            if is_complete:
                self._teach(model, is_by_token=is_by_token)
            self._pricing.ratios.mark_changed(self._tenant_id)
        return replace(usage, model=model)

    def expect(self, output_tokens: int, seconds: float) -> PricedUsage | None:
        """What it would cost with so many tokens of output, after these seconds; None without a
        price. No ratio is moved by it.
        """
        model, price, ratios = self._find()
        if price is None:
            return None
        self._passed.take("", {"completion_tokens": str(output_tokens)})
        usage = add_up_cost(price, self._passed, seconds, ratios, self._pricing.limits.most)
        return replace(usage, model=model, estimated=True)

    def _find(self) -> tuple[str | None, Price | None, TokenRatios]:
        """The model that the provider told, else the registry's, with its price and ratios."""
        model = self._passed.told.model or self._model
        if self._found is None or self._found[0] != model:
            price = self._pricing.table.find(self._provider_id, model, self._at)
            self._found = (
                model,
                price,
                self._pricing.ratios.find(self._tenant_id, self._provider_id, model),
            )
        return self._found

    def _take_room(self, ratios: TokenRatios, *, is_by_token: bool) -> None:
        """What was estimated and is billed. `is_by_token`: the cost is of tokens, and not the
        provider's word.
        """
        passed = self._passed
        if is_by_token and passed.told.input_tokens is None:
            ratios.input.take_room(passed.input_counts, 0)
        rest = passed.since_tokens if is_by_token else passed.since_cost
        if rest.characters:
            ratios.output.take_room(rest.counts, rest.pieces)

    def _teach(self, model: str | None, *, is_by_token: bool) -> None:
        """What was told of a whole text; of it makes room what was billed at the full price of a
        token.
        """
        passed = self._passed
        told = passed.told
        if told.input_tokens is None and told.output_tokens is None:
            return
        ratios = self._pricing.ratios.open(self._tenant_id, self._provider_id, model)
        if told.input_tokens is not None:
            ratios.input.learn(passed.input_counts, 0, told.input_tokens)
            if is_by_token and not told.cached_tokens:
                ratios.input.add_room(passed.input_counts, told.input_tokens)
        if told.output_tokens is not None and not passed.since_tokens.characters:
            ratios.output.learn(passed.output_counts, passed.output_pieces, told.output_tokens)
            if is_by_token:
                ratios.output.add_room(passed.output_counts, told.output_tokens)


def list_prompts(request: ProviderRequest) -> list[str | bytes]:
    """What the provider reads: the prompt, and long texts beside it.

    So a text costs the same wherever it stands.
    """
    texts: list[str | bytes] = [request.body]
    for part in (request.parameters, request.metadata):
        part_texts = list(_find_texts(part)) if part else []
        if sum(map(len, part_texts)) > OPTIONS:
            texts += part_texts
    return texts


def _find_texts(part: Mapping[str, object]) -> Iterator[str]:
    """Every text and number in it, and every long name, at any depth; a request's depth and size
    are bounded.
    """
    waiting: list[object] = [part]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value + _SEPARATOR
        elif isinstance(value, Mapping):
            yield from (name + _SEPARATOR for name in value if len(name) > NAME)
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{value}{_SEPARATOR}"
