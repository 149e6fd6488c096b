"""Names that a reader takes for each other."""

from __future__ import annotations

from unicodedata import combining, normalize

from toolbus.policy.pins.visible_characters import is_visible

# Letters of other alphabets and digits that look like a Latin letter: Unicode's confusables
# (UTS 39), as far as names are concerned; the first one of each word stands for the others.
_ALIKE = (
    *("aаɑα", "bЬьв", "cсϲ", "dԁ", "eеҽє", "gɡց", "hһհн", "jјϳ", "kкκ", "lіıι|!1iӏǀ∣ł", "mм"),
    *("nոпη", "oоο0օσ", "pрρ", "qԛզ", "rгᴦ", "sѕꜱ", "tтτ", "uսυʋ", "vνѵ", "wԝա", "xхχ", "yуγү"),
    *("zᴢ", "_-‐‑‒–—―./: "),
)
_LETTERS = {ord(char): word[0] for word in _ALIKE for char in word}
_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))


def skeleton(name: str) -> str:
    """Return what is equal for two names if a reader takes them for each other.

    Case, accents, invisible characters, and which of the signs between words is used do not count.
    """
    shown = [char for char in normalize("NFKD", name) if is_visible(char) and not combining(char)]
    text = "".join(shown).casefold().translate(_LETTERS)
    for pair, letter in _PAIRS:
        text = text.replace(pair, letter)
    return text
