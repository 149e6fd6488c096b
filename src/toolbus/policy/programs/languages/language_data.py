"""Words of the languages that the readers here know, from `_languages.toml`."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[1] / "_languages.toml"


@cache
def language_words(language: str, key: str) -> frozenset[str]:
    """Return the words that the file has for *language* under *key*."""
    return frozenset(_tables()[language][key])


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads(_FILE.read_text("utf-8"))
