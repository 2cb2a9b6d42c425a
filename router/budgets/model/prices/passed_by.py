"""What passed by of one attempt: its prompt, what came back, what its provider told of it so far.

A provider may tell what it used in any chunk, for the whole so far. What comes after that is
estimated, until it tells again. The memory of an attempt is the same however long it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from router.budgets.model.prices.ratio_sums import TextCount
from router.budgets.model.prices.ratios import TokenRatio
from router.contracts.told_usage import NOTHING_TOLD, ToldUsage, read_told_usage

_NOTHING: Sequence[int] = TextCount().counts


class PassedBy:
    """`told`: the last word on each figure."""

    __slots__ = (
        "_at_cost",
        "_at_tokens",
        "_estimated_by",
        "_estimated_input",
        "_input",
        "_output",
        "output_pieces",
        "told",
    )

    def __init__(self, *prompts: str | bytes) -> None:
        self.told: ToldUsage = NOTHING_TOLD
        self.output_pieces = 0
        self._input = TextCount()
        self._output = TextCount()
        self._at_tokens: OutputMark = NO_OUTPUT
        self._at_cost: OutputMark = NO_OUTPUT
        self._estimated_by: tuple[TokenRatio, int, float] | None = None
        self._estimated_input = 0
        for prompt in prompts:
            self._input.add(prompt)

    def estimate_input(self, ratio: TokenRatio) -> int:
        """The tokens of the prompt: once for a stream, and again after the ratio has changed."""
        by = ratio, *ratio.version
        if self._estimated_by != by:
            self._estimated_by, self._estimated_input = by, ratio.estimate(self._input.counts, 0)
        return self._estimated_input

    def take(self, data: str | bytes, metadata: Mapping[str, object]) -> None:
        """Take one piece of a stream, or a whole answer."""
        if data:
            self._output.add(data)
            self.output_pieces += 1
        if metadata:
            self._hear(read_told_usage(metadata))

    @property
    def input_characters(self) -> int:
        return self._input.characters

    @property
    def output_characters(self) -> int:
        return self._output.characters

    @property
    def input_counts(self) -> Sequence[int]:
        return self._input.counts

    @property
    def output_counts(self) -> Sequence[int]:
        return self._output.counts

    @property
    def since_tokens(self) -> OutputMark:
        """What came back after the provider told its output tokens."""
        return self._mark().subtract(self._at_tokens)

    @property
    def since_cost(self) -> OutputMark:
        """What came back after the provider told its cost."""
        return self._mark().subtract(self._at_cost)

    def _hear(self, told: ToldUsage) -> None:
        if told is NOTHING_TOLD:
            return
        given = {
            name: value
            for name in told.__struct_fields__
            if (value := getattr(told, name)) is not None
        }
        if self.output_characters and given.get("output_tokens") == 0:
            del given["output_tokens"]  # a text has at least one token
        if self.input_characters and given.get("input_tokens") == 0:
            del given["input_tokens"]
        self.told = _drop_cached(replace(self.told, **given))
        if "output_tokens" in given:
            self._at_tokens = self._mark()
        if "cost" in given:
            self._at_cost = self._mark()

    def _mark(self) -> OutputMark:
        return OutputMark(self._output.counts, self._output.characters, self.output_pieces)


def _drop_cached(told: ToldUsage) -> ToldUsage:
    """Without cached tokens that a later word on the input made more than it: they would take money
    off the bill.
    """
    is_more = (told.cached_tokens or 0) > (told.input_tokens or 0)
    return replace(told, cached_tokens=None) if is_more else told


class OutputMark:
    """An amount of text."""

    __slots__ = ("characters", "counts", "pieces")

    def __init__(self, counts: Sequence[int], characters: int, pieces: int) -> None:
        self.counts = tuple(counts)
        self.characters = characters
        self.pieces = pieces

    def subtract(self, earlier: OutputMark) -> OutputMark:
        if earlier is NO_OUTPUT:
            return self
        rest = [now - before for now, before in zip(self.counts, earlier.counts, strict=True)]
        return OutputMark(rest, self.characters - earlier.characters, self.pieces - earlier.pieces)


NO_OUTPUT = OutputMark(_NOTHING, 0, 0)
