"""One price: its document, read and checked (docs/reference/prices.md#document). And the table of
the prices in force, which a mirror of the bucket fills.

{provider, model?, input?, cached_input?, output?, per_request?, per_second?, currency, valid_from?,
trust?, characters_per_token?}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from msgspec import Struct

from router.contracts.money import format_nanos, round_to_nanos
from router.core import ids
from router.core.errors import RouterError

MAX_AMOUNT = 1_000_000
COMPUTED, TOLD = "computed", "told"
TOKEN_AMOUNTS = ("input", "cached_input", "output")  # of one million tokens
AMOUNTS = (*TOKEN_AMOUNTS, "per_request", "per_second")
ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)  # of a price that names no time
_KEYS = frozenset(
    {
        "provider",
        "model",
        *AMOUNTS,
        "currency",
        "valid_from",
        "trust",
        "characters_per_token",
        "version",
    }
)
_MAX_NUMBER_TEXT = 32
_MAX_TIME_TEXT = 40
_MIN_CHARACTERS, _MAX_CHARACTERS = Decimal("0.1"), Decimal(100)  # of one token


class PriceError(RouterError):
    """The document is no price; the text says where, and what is legal."""

    code = "invalid_price"


class Price(Struct, frozen=True, kw_only=True):
    """Amounts in 1e-9 of the currency; those of tokens for a million.

    `valid_from`: seconds since the epoch. `is_told`: `trust: told`.
    """

    provider_id: str
    model: str | None = None
    input: int = 0
    cached_input: int = 0
    output: int = 0
    per_request: int = 0
    per_second: int = 0
    currency: str
    valid_from: int = 0
    is_told: bool = False
    characters_per_token: str | None = None
    version: int = 0  # of the document that it was written with

    @property
    def label(self) -> str:
        """As usage events name it: `openai/gpt-4o#3`, at most 256 characters."""
        return f"{name_price(self.provider_id, self.model)}#{self.version}"

    @property
    def is_free(self) -> bool:
        return not any(
            (self.input, self.cached_input, self.output, self.per_request, self.per_second)
        )


class PriceList(Struct, frozen=True):
    """The prices of one provider and model, the earliest first; never empty."""

    prices: tuple[Price, ...]

    @property
    def name(self) -> tuple[str, str | None]:
        return self.prices[0].provider_id, self.prices[0].model

    def find(self, at: float) -> Price | None:
        """The newest that is valid at this time."""
        return next((price for price in reversed(self.prices) if price.valid_from <= at), None)


def name_price(provider_id: str, model: str | None) -> str:
    return provider_id if model is None else f"{provider_id}/{model}"


def parse_price(document: object, path: str = "") -> Price:
    """`path`: where the document stands in its file. Raises PriceError, which names the place."""
    if not isinstance(document, Mapping):
        raise _refuse(path, "", "should be an object")
    if unknown := document.keys() - _KEYS:
        raise _refuse(path, str(min(unknown)), "there is no such key")
    amounts = {
        name: _read_amount(document[name], path, name) for name in AMOUNTS if name in document
    }
    if not amounts:
        raise _refuse(path, "", f"should have at least one of {', '.join(AMOUNTS)}")
    return Price(
        provider_id=_read_provider(document.get("provider"), path),
        model=_read_model(document.get("model"), path),
        **{**amounts, "cached_input": amounts.get("cached_input", amounts.get("input", 0))},
        currency=_read_currency(document.get("currency"), path),
        valid_from=read_time(document["valid_from"], path)
        if document.get("valid_from") is not None
        else 0,
        is_told=_read_trust(document.get("trust", COMPUTED), path),
        characters_per_token=_read_characters(document.get("characters_per_token"), path),
        version=_read_version(document.get("version", 0), path),
    )


def parse_prices(document: object) -> Sequence[Price]:
    """Read the prices of a file: one, a list of them, or `{prices: [...]}`.

    Raises PriceError, which names the place.
    """
    if isinstance(document, Mapping) and set(document) == {"prices"}:
        document = document["prices"]
    if not isinstance(document, list):
        return [parse_price(document)]
    if not document:
        raise PriceError("the file has no price")
    prices = [parse_price(item, f"[{place}]") for place, item in enumerate(document)]
    seen: dict[tuple[str, str | None, int], int] = {}
    for place, price in enumerate(prices):
        first = seen.setdefault((price.provider_id, price.model, price.valid_from), place)
        if first != place:
            raise PriceError(
                f"[{place}]: is the price of the same provider, model and time as [{first}]"
            )
    return prices


def price_document(price: Price) -> dict[str, object]:
    """As `parse_price` reads it; the version goes with the record."""
    amounts = {name: format_nanos(getattr(price, name)) for name in AMOUNTS if getattr(price, name)}
    return {
        "provider": price.provider_id,
        **({"model": price.model} if price.model is not None else {}),
        **(
            {**amounts, "cached_input": format_nanos(price.cached_input)}
            if price.input
            else amounts or {"input": "0"}
        ),
        "currency": price.currency,
        "valid_from": format_time(price.valid_from),
        "trust": TOLD if price.is_told else COMPUTED,
        **(
            {"characters_per_token": price.characters_per_token}
            if price.characters_per_token is not None
            else {}
        ),
    }


def format_time(seconds: int) -> str:
    """ISO 8601 in UTC: `2026-01-01T00:00:00Z`."""
    return (ALWAYS + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def _refuse(path: str, name: str, legal: str) -> PriceError:
    place = f"{path}.{name}" if path and name else path or name
    return PriceError(f"{place}: {legal}" if place else legal)


def _read_provider(value: object, path: str) -> str:
    if not isinstance(value, str) or not ids.is_token(value):
        raise _refuse(path, "provider", "should be 1..64 of A-Z a-z 0-9 _ -")
    return value


def _read_model(value: object, path: str) -> str | None:
    if value is not None and not (isinstance(value, str) and ids.is_opaque(value)):
        raise _refuse(
            path, "model", "should be 1..128 printable characters of ASCII without a space"
        )
    return value


def _read_currency(value: object, path: str) -> str:
    if not isinstance(value, str) or not (
        len(value) == 3 and value.isascii() and value.isalpha() and value.isupper()
    ):
        raise _refuse(
            path, "currency", "should be three capital letters, as ISO 4217 has them: USD"
        )
    return value


def _read_trust(value: object, path: str) -> bool:
    if value not in (COMPUTED, TOLD):
        raise _refuse(path, "trust", f"should be {COMPUTED} or {TOLD}")
    return value == TOLD


def _read_amount(value: object, path: str, name: str) -> int:
    """Text or an integer: a float would be another number than the one in the file."""
    legal = (
        f"should be text or a whole number, from 0 to {MAX_AMOUNT}, with at most nine decimal "
        "places"
    )
    amount = _read_decimal(value)
    if amount is None or not 0 <= amount <= MAX_AMOUNT:
        raise _refuse(path, name, legal)
    nanos = round_to_nanos(amount)
    if amount != Decimal(nanos).scaleb(-9):
        raise _refuse(path, name, legal)
    return nanos


def _read_characters(value: object, path: str) -> str | None:
    if value is None:
        return None
    characters = _read_decimal(value)
    if characters is None or not _MIN_CHARACTERS <= characters <= _MAX_CHARACTERS:
        raise _refuse(
            path,
            "characters_per_token",
            f"should be text or a whole number, from {_MIN_CHARACTERS} to {_MAX_CHARACTERS}",
        )
    return str(value)


def _read_decimal(value: object) -> Decimal | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | str)
        or len(text := str(value)) > _MAX_NUMBER_TEXT
        or not text.isascii()
    ):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def read_time(value: object, path: str = "") -> int:
    """Seconds since the epoch. Raises PriceError."""
    legal = (
        "should be a time of ISO 8601 in UTC from 1970 on, in whole seconds: 2026-01-01T00:00:00Z"
    )
    try:
        at = (
            datetime.fromisoformat(value)
            if isinstance(value, str) and len(value) <= _MAX_TIME_TEXT
            else None
        )
    except ValueError:
        at = None
    if at is None or at.utcoffset() != timedelta(0) or at < ALWAYS or at.microsecond:
        raise _refuse(path, "valid_from", legal)
    return (at - ALWAYS) // timedelta(seconds=1)


def _read_version(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise _refuse(path, "version", "should be the number of a version")
    return value


# -- The prices in force in this instance, by provider and model.
#
# Pure: a mirror of the bucket fills it.


ByModel = dict[str | None, PriceList]


class PriceTable:
    """Empty until it is filled: then no provider has a price."""

    def __init__(self) -> None:
        self._providers: dict[str, ByModel] = {}

    def replace(self, lists: Iterable[PriceList]) -> None:
        """All prices."""
        providers: dict[str, ByModel] = {}
        for price_list in lists:
            provider_id, model = price_list.name
            providers.setdefault(provider_id, {})[model] = price_list
        self._providers = providers

    def find(self, provider_id: str, model: str | None, at: float) -> Price | None:
        """The price of the model, else the provider's, else the provider's dearest.

        So no name of a model makes an attempt free. Of each the newest that is valid at this time.
        `at`: seconds since the epoch.
        """
        models = self._providers.get(provider_id)
        if models is None:
            return None
        for price_list in (models.get(model), models.get(None)):
            price = price_list.find(at) if price_list is not None else None
            if price is not None:
                return price
        return max(
            (price for price_list in models.values() if (price := price_list.find(at)) is not None),
            key=_order,
            default=None,
        )


def _order(price: Price) -> tuple[int, ...]:
    """The dearest is the last."""
    return price.output, price.input, price.per_request, price.per_second
