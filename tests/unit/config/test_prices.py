import pytest

from toolbus.config.documents import read_document
from toolbus.config.prices import Price, find_price, read_prices
from toolbus.errors import ConfigurationError

PRICE = Price(input=2.0, output=10.0, cache_read=1.0)


@pytest.mark.parametrize(
    ("usage", "cost", "unknown"),
    [
        ({"input_tokens": 25, "cache_read_tokens": 5, "output_tokens": 7}, 115, ()),
        ({"input_tokens": 25, "cache_write_tokens": 5}, 40, ("cache_write",)),
        ({"cache_read_tokens": 5}, 5, ()),
        ({}, 0, ()),
    ],
)
def test_what_concerns_the_cache_is_not_counted_twice(usage, cost, unknown):
    assert PRICE.cost(usage) == (pytest.approx(cost / 1e6), unknown)


def read(tmp_path, text):
    file = tmp_path / "toolbus.toml"
    file.write_text(text)
    return read_prices(read_document(file))


def test_the_first_price_of_a_model_counts(tmp_path):
    tables = [
        f'[[price]]\nmodel = "{model}"\ninput = {number}\noutput = 1'
        for number, model in enumerate(("openai:a", "openai:*", "*b"))
    ]
    prices = read(tmp_path, "\n".join(tables))

    chosen = [find_price(prices, name) for name in ("openai:a", "openai:b", "b", "c")]
    assert [price and price.input for price in chosen] == [0.0, 1.0, 2.0, None]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("input = 1\noutput = 1", "the price has no `model`"),
        ('model = "m"\ninput = 1', "needs `input` and `output`"),
        ('model = "m"\noutput = 1\ninput = inf', ":4: key 'input': expected a price"),
        ('model = "m"\noutput = true\ninput = 1', ":3: "),
        ('model = "m"\noutput = 1\ninput = 1\nimput = 1', "did you mean 'input'?"),
    ],
)
def test_a_price_that_is_none_is_named_with_its_line(tmp_path, lines, reason):
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, f"[[price]]\n{lines}")

    assert reason in str(error.value)


def test_prices_are_an_array_of_tables(tmp_path):
    with pytest.raises(ConfigurationError, match=r"write \[\[price\]\]"):
        read(tmp_path, "[price]\ninput = 1")
