import pytest

from toolbus.cli.output.blocks import count_things


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("record",), "0 records"),
        (1, ("record",), "1 record"),
        (2_000, ("more problem",), "2,000 more problems"),
        (1, ("call without result", "calls without result"), "1 call without result"),
        (2, ("call without result", "calls without result"), "2 calls without result"),
    ],
)
def test_things_are_counted_in_singular_and_plural(number, words, text):
    assert count_things(number, *words) == text
