"""What a configuration says of the prices of models, for what a run tells of its cost.

[[price]]
model = "anthropic:NAME"        # as it is given to `--model`; a glob pattern for several
input = 3.0                     # for a million tokens
output = 15.0
cache_read = 0.3                # of the input, what was read from a cache, or written to it
cache_write = 3.75
currency = "EUR"                # USD if not given
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.settings.hints import unknown_key
from toolbus.toml.values import MisfitError, fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toolbus.config.documents import Document

PRICES = "price"
_MILLION = 1_000_000
_KINDS: dict[str, Any] = {
    "model": str,
    "input": float,
    "output": float,
    "cache_read": float,
    "cache_write": float,
    "currency": str,
}


class Price(Struct, frozen=True, kw_only=True):
    """What a million tokens of the models that fit *model* cost; None where nobody said."""

    model: str = "*"
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    currency: str = "USD"

    def cost(self, usage: Mapping[str, int]) -> tuple[float, tuple[str, ...]]:
        """Return what *usage* costs, and the kinds of tokens in it that have no price.

        The counts are those of `toolbus.formats.usage`: what concerns the cache is in the input.
        """
        read, written = usage.get("cache_read_tokens", 0), usage.get("cache_write_tokens", 0)
        counts = {
            "input": max(usage.get("input_tokens", 0) - read - written, 0),
            "cache_read": read,
            "cache_write": written,
            "output": usage.get("output_tokens", 0),
        }
        amount, unknown = 0.0, list[str]()
        for kind, count in counts.items():
            price: float | None = getattr(self, kind)
            if price is not None:
                amount += price * count / _MILLION
            elif count:
                unknown.append(kind)
        return amount, tuple(unknown)


def make_price(values: Mapping[str, Any]) -> Price:
    """Return the price that *values* say; raises `MisfitError`."""
    for key in values:
        if key not in _KINDS:
            raise MisfitError(unknown_key(key, _KINDS), key)
    for key, value in values.items():
        if _KINDS[key] is float and not (isfinite(value) and value >= 0):
            raise MisfitError(f"key {key!r}: expected a price, not {value!r}", key)
    if not ("input" in values and "output" in values):
        raise MisfitError("a price needs `input` and `output`, for a million tokens")
    if not values.get("currency", "USD").isalpha():
        reason = f"key 'currency': expected letters such as USD, not {values['currency']!r}"
        raise MisfitError(reason, "currency")
    return Price(**values)


def read_prices(document: Document) -> tuple[Price, ...]:
    """Return the prices that *document* gives, in its order; raises `ConfigurationError`."""
    tables = document.table.get(PRICES, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise document.error(f"{PRICES!r} is no array of tables; write [[{PRICES}]]", PRICES)
    return tuple([_price(document, index, table) for index, table in enumerate(tables)])


def find_price(prices: Iterable[Price], model: str) -> Price | None:
    """Return the first of *prices* that is for the model *model*, None if there is none."""
    return next((price for price in prices if fnmatchcase(model, price.model)), None)


def _price(document: Document, index: int, table: dict[str, Any]) -> Price:
    if "model" not in table:
        reason = "the price has no `model`; it says whose: PROVIDER:NAME, or a pattern"
        raise document.error(reason, PRICES, index)
    values: dict[str, Any] = {}
    for key, value in table.items():
        try:
            values[key] = fit(value, _KINDS.get(key, object), document.file.parent)
        except MisfitError as error:
            raise document.error(f"key {key!r}: {error.reason}", PRICES, index, key) from None
    try:
        return make_price(values)
    except MisfitError as error:
        raise document.error(error.reason, PRICES, index, *error.path) from None
