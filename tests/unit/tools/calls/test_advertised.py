"""What our own package offers by name."""

import tomllib
from importlib import import_module
from pathlib import Path

from toolbus import AgentComponent

PROJECT = Path(__file__).parents[4] / "pyproject.toml"


def test_every_offer_is_a_component():
    offers = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["toolbus.components"]

    for target in offers.values():
        module, _, name = target.partition(":")
        assert issubclass(getattr(import_module(module), name), AgentComponent)
    assert list(offers) == sorted(offers)
