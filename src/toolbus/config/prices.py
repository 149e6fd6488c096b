"""The `[[price]]` tables of a configuration: prices of models, for the cost of a run.

[[price]]
model = "anthropic:NAME"        # as for `--model`; a glob pattern for several
input = 3.0                     # for a million tokens
output = 15.0
cache_read = 0.3                # for the input read from a cache, or written to it
cache_write = 3.75
currency = "EUR"                # by default USD
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import isfinite
from typing import TYPE_CHECKING, Any

from toolbus.config.tables import PRICE, PriceTable, key_types, read_array, read_values
from toolbus.settings.hints import unknown_key
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toolbus.config.documents import Document

_MILLION = 1_000_000


class Price(PriceTable, frozen=True, kw_only=True):
    """The prices of a million tokens of the models that match *model*; None for unknown ones."""

    model: str = "*"

    def cost(self, usage: Mapping[str, int]) -> tuple[float, tuple[str, ...]]:
        """Return the cost of *usage*, and its kinds of tokens without a price.

        The counts are those of `toolbus.formats.usage`: input tokens include those of the cache.
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
    """Return the price of *values*; raises `MisfitError`."""
    types = key_types(PriceTable)
    for key in values:
        if key not in types:
            raise MisfitError(unknown_key(key, types), key)
    for key, value in values.items():
        if isinstance(value, float) and not (isfinite(value) and value >= 0):
            raise MisfitError(f"key {key!r}: expected a price, got {value!r}", key)
    if not ("input" in values and "output" in values):
        raise MisfitError("a price needs `input` and `output`, for a million tokens")
    if not values.get("currency", "USD").isalpha():
        reason = f"key 'currency': expected letters such as USD, got {values['currency']!r}"
        raise MisfitError(reason, "currency")
    return Price(**values)


def read_prices(document: Document) -> tuple[Price, ...]:
    """Return the prices of *document*, in its order; raises `ConfigurationError`."""
    tables = enumerate(read_array(document, PRICE))
    return tuple([_price(document, index, table) for index, table in tables])


def find_price(prices: Iterable[Price], model: str) -> Price | None:
    """Return the first of *prices* that matches *model*, None without any."""
    return next((price for price in prices if fnmatchcase(model, price.model)), None)


def _price(document: Document, index: int, table: dict[str, Any]) -> Price:
    values = read_values(document, PriceTable, table, PRICE, index)
    if "model" not in values:
        reason = "the price has no `model`; add `model`, PROVIDER:NAME or a pattern"
        raise document.error(reason, PRICE, index)
    try:
        return make_price(values)
    except MisfitError as error:
        raise document.error(error.reason, PRICE, index, *error.path) from None
