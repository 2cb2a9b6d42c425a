"""How many tokens a text has: by a documented ratio, or by what a provider told of texts before.

    told of whole texts ──> TokenRatio of (tenant, provider, model), input and output apart
                               tokens of a kind of character    least squares
                               tokens of a piece                what came in pieces
    a text that was cut ──> the one of the two that was nearer so far
                            before MIN_SAMPLES: the documented ratio

A provider and model have one tokenizer for all tenants, and yet each tenant has a ratio of its own:
a tenant chooses its texts, and so could move the ratio that another one is billed by. A sample and
an estimate stay within half and eight times the documented count: downwards the payer gains,
upwards lies what a provider counts and does not show, as reasoning
(docs/reference/prices.md#learned).

A tenant could teach a low ratio with odd texts, and have its cut streams estimated by it. So an
estimate below the documented count takes from a room, of tokens that were told below it and billed:
such texts cost the tenant at least what they save.

What a process has learned itself is kept apart until it is shared, so that instances can add it up.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from router.budgets.model.prices.ratio_sums import KINDS, RatioSums, weigh
from router.core.bounded_cache import BoundedCache

MIN_SAMPLES = 8
MIN_PIECES = 4  # below it pieces say nothing
MAX_RATIOS = 1024  # then the least recently used goes, of a tenant above its share first
LEAST, MOST = 0.5, 8.0  # of the documented count
ONE_A_PIECE = 0.8, 1.25  # of the documented count: so many pieces are tokens, without samples
# Factors are solved anew after an eighth of the samples that there are, after 16 at most.
_FRESH, _MOST_STALE = 8, 16


class TokenRatio:
    """Of one direction.

    A sample costs some microseconds, and is taken only where a provider told its tokens.
    """

    __slots__ = ("_factors", "_solved_at", "known", "unshared")

    def __init__(self) -> None:
        self.known = RatioSums()
        self.unshared: RatioSums | None = None  # what of `known` no other instance knows
        self._factors: list[float] = []  # solved when they are needed
        self._solved_at = 0  # samples

    @property
    def version(self) -> tuple[int, float]:
        """It changes with each estimate that changes."""
        return self.known.samples, self.known.room

    def learn(self, counts: Sequence[int], pieces: int, tokens: int) -> None:
        """Take what was told of a whole text; `pieces`: 0 where it came at once."""
        documented = weigh(counts)
        if not documented or not tokens:
            return
        errors = self._find_errors(counts, pieces, tokens)
        told = min(max(tokens / documented, LEAST), MOST)
        shares = [(place, part / documented) for place, part in _weigh_kinds(counts)]
        for sums in self._open_sums():
            if errors is not None:
                sums.add_errors(*errors)
            sums.add_sample(shares, told)
            if pieces >= MIN_PIECES:
                sums.add_pieces(tokens, pieces)

    def add_room(self, counts: Sequence[int], tokens: int) -> None:
        """Take the tokens of a whole text that were told and billed."""
        below = tokens if tokens < weigh(counts) else 0
        for sums in self._open_sums():
            sums.add_room(below)

    def take_room(self, counts: Sequence[int], pieces: int) -> None:
        """Take what an estimate needs that is billed: nothing where it is not below the documented
        count.
        """
        documented = weigh(counts)
        if documented and self._find(documented, counts, pieces) < documented:
            for sums in self._open_sums():
                sums.room -= documented

    def estimate(self, counts: Sequence[int], pieces: int) -> int:
        """Estimate the tokens: at least one for any text. `pieces`: 0 where it came at once."""
        documented = weigh(counts)
        if not documented:
            return 0
        return max(1, math.floor(self._find(documented, counts, pieces) + 0.5))

    def take_unshared(self) -> RatioSums | None:
        """What this process has learned since the last call; None: nothing."""
        sums, self.unshared = self.unshared, None
        return sums

    def give_back(self, sums: RatioSums) -> None:
        """Put it back: it was not shared."""
        if self.unshared is not None:
            sums.add(self.unshared)
        self.unshared = sums

    def replace(self, shared: RatioSums) -> None:
        """Know what all instances share, and after it what is unshared here."""
        if self.unshared is not None:
            shared.add(self.unshared)
        self.known = shared
        self._factors = []

    def _open_sums(self) -> Sequence[RatioSums]:
        if self.unshared is None:
            self.unshared = RatioSums()
        return self.known, self.unshared

    def _find(self, documented: float, counts: Sequence[int], pieces: int) -> float:
        sums = self.known
        if sums.samples < MIN_SAMPLES:
            return _guess(documented, pieces)
        if self._has_pieces(pieces) and sums.piece_error <= sums.text_error:
            estimate = self._estimate_by_pieces(pieces)
        else:
            estimate = self._estimate_by_text(counts)
        least = LEAST * documented if sums.room >= documented else documented
        return min(max(estimate, least), MOST * documented)

    def _has_pieces(self, pieces: int) -> bool:
        return pieces >= MIN_PIECES and self.known.pieces > 0

    def _estimate_by_pieces(self, pieces: int) -> float:
        return pieces * self.known.tokens / self.known.pieces

    def _estimate_by_text(self, counts: Sequence[int]) -> float:
        samples = self.known.samples
        if not self._factors or samples - self._solved_at >= min(
            max(samples // _FRESH, 1), _MOST_STALE
        ):
            self._factors, self._solved_at = self.known.solve(), samples
        factors = self._factors
        return sum(part * factors[place] for place, part in _weigh_kinds(counts))

    def _find_errors(
        self, counts: Sequence[int], pieces: int, tokens: int
    ) -> tuple[float, float] | None:
        """Of both ways, before they learn the truth."""
        if self.known.samples < MIN_SAMPLES or not self._has_pieces(pieces):
            return None
        return _find_error(self._estimate_by_text(counts), tokens), _find_error(
            self._estimate_by_pieces(pieces), tokens
        )


class TokenRatios:
    """Of one tenant, provider and model."""

    __slots__ = ("input", "output")

    def __init__(self) -> None:
        self.input = TokenRatio()
        self.output = TokenRatio()


class LearnedRatios:
    """The ratios that this process knows. `changed`: tenants of which something is unshared."""

    def __init__(self) -> None:
        self._ratios: BoundedCache[tuple[str, str, str], TokenRatios] = BoundedCache(MAX_RATIOS)
        self.changed: dict[str, None] = {}

    def find(self, tenant_id: str, provider_id: str, model: str | None) -> TokenRatios:
        """What was learned; new ones, which are not kept, where nothing was."""
        return self._ratios.get((tenant_id, provider_id, model or ""), 0.0) or TokenRatios()

    def open(self, tenant_id: str, provider_id: str, model: str | None) -> TokenRatios:
        """Return those that are kept."""
        key = tenant_id, provider_id, model or ""
        ratios = self._ratios.get(key, 0.0)
        if ratios is None:
            ratios = TokenRatios()
            self._ratios.put(key, ratios, math.inf, 0.0, owner=tenant_id)
        return ratios

    def mark_changed(self, tenant_id: str) -> None:
        """Something of this tenant is unshared now."""
        if len(self.changed) < MAX_RATIOS:
            self.changed[tenant_id] = None

    def list_of(self, tenants: Collection[str]) -> dict[str, dict[tuple[str, str], TokenRatios]]:
        """By tenant, then by provider and model: the least recently used first. It takes
        milliseconds.
        """
        by_tenant: dict[str, dict[tuple[str, str], TokenRatios]] = {
            tenant: {} for tenant in tenants
        }
        for key in self._ratios.keys():  # noqa: SIM118 - a cache is no mapping
            if (of_tenant := by_tenant.get(key[0])) is not None and (
                ratios := self._ratios.peek(key, 0.0)
            ) is not None:
                of_tenant[key[1:]] = ratios
        return by_tenant

    def __len__(self) -> int:
        return len(self._ratios)


def _guess(documented: float, pieces: int) -> float:
    """Most models send one token a piece: about as many pieces as there should be tokens are
    tokens.
    """
    low, high = ONE_A_PIECE
    return (
        float(pieces)
        if pieces >= MIN_PIECES and low * documented <= pieces <= high * documented
        else documented
    )


def _find_error(estimated: float, tokens: int) -> float:
    return abs(math.log(max(estimated, 1.0) / tokens))


def _weigh_kinds(counts: Sequence[int]) -> list[tuple[int, float]]:
    """The documented tokens of each kind that is there."""
    return [
        (place, weight / 1000 * count)
        for place, ((_, weight), count) in enumerate(zip(KINDS, counts, strict=True))
        if count
    ]
