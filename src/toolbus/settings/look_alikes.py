"""Characters that a reader takes for others: letters of other scripts, signs like those of ASCII.

What Unicode writes in two ways, as é in one character and in two, looks the same: of a word that is
not in the composed form (NFC, UAX 15) the characters that make it another one are told as well.

**Limit.** Letters of one script that look alike, such as l and I, are not told apart, and of other
scripts than Latin none is looked for that looks like them. What looks alike depends on the font.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias
from unicodedata import category, combining, decomposition, is_normalized, name, normalize

if TYPE_CHECKING:
    from collections.abc import Iterator

Word: TypeAlias = list[tuple[int, str]]
"""The letters, digits and marks of a word, each with its index in the text."""

# Letters of other alphabets and digits that look like a Latin letter: Unicode's confusables
# (UTS 39), as far as names are concerned; the first one of each word stands for the others.
_ALIKE = (
    *("aаɑα", "bЬьв", "cсϲ", "dԁ", "eеҽє", "gɡց", "hһհн", "jјϳ", "kкκ", "lіıι|!1iӏǀ∣ł", "mм"),
    *("nոпη", "oоο0օσ", "pрρ", "qԛզ", "rгᴦ", "sѕꜱ", "tтτ", "uսυʋ", "vνѵ", "wԝա", "xхχ", "yуγү"),
    *("zᴢ", "_-‐‑‒–—―./: "),
)
LATIN_LETTERS = {ord(char): word[0] for word in _ALIKE for char in word}
"""What each character looks like, as `str.translate` takes it."""

# Like signs of ASCII, and no compatibility characters: division and fraction slash, box drawings
# diagonal, big solidus, ratio, modifier letter colon, set minus.
_LIKE_SIGNS = frozenset("\u2215\u2044\u2571\u29f8\u2236\ua789\u2216")

# By the first word of their names; together they write one language.
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})
# Letters by their category that are used as signs beside any script.
_SIGNS = frozenset({"MICRO", "FEMININE", "MASCULINE", "SUPERSCRIPT", "MODIFIER"})

_MOST_MARKS = 3
"""Combining marks on one letter; no script needs more, and more cover the row above."""

_NAMELESS = "WITHOUT A NAME"
_TOKEN, _LATIN = re.compile(r"\S+"), re.compile("[A-Za-z]")


def name_of(char: str) -> str:
    """Return the name of *char*, also of one of which Python has none, as of Tangut."""
    return name(char, _NAMELESS)


def alike_places(text: str) -> set[int]:
    """Return the indexes of what looks like something else, and of marks out of place.

    A word whose letters all look like Latin ones is among them beside Latin letters, as in an
    address, and where no other word shows which script it is.
    """
    if text.isascii():
        return set()
    # Told once for each character: there are few of them, and the text may be long.
    alike = {char for char in set(text) if _is_like_ascii(char) or not is_normalized("NFC", char)}
    places = {index for index, char in enumerate(text) if char in alike} if alike else set()
    disguised: dict[str, set[int]] = defaultdict(set)
    known_scripts: set[str] = set()
    for is_beside_latin, word in _words(text):
        places.update(_stray_marks(word))
        places.update(_decomposed(word))
        scripts = {index: _script(char) for index, char in word if char.isalpha()}
        if foreign := _foreign_letters(scripts):
            places.update(foreign)
        elif scripts and not all(_looks_latin(char) for _, char in word if char.isalpha()):
            known_scripts.update(scripts.values())
        elif is_beside_latin:
            places.update(scripts)
        else:
            for index, script in scripts.items():
                disguised[script].add(index)
    for script in disguised.keys() - known_scripts:
        places |= disguised[script]
    return places


def _is_like_ascii(char: str) -> bool:
    """Tell whether *char* is another form of one of ASCII, or looks like one."""
    if char.isascii():
        return False
    form = normalize("NFKC", char)
    is_raised = decomposition(char).startswith(("<super>", "<sub>"))
    return char in _LIKE_SIGNS or (len(form) == 1 and form.isascii() and not is_raised)


def _words(text: str) -> Iterator[tuple[bool, Word]]:
    """Give each word with others than ASCII, and whether Latin letters are beside it."""
    letters = {char for char in set(text) if char.isalnum() or category(char).startswith("M")}
    for token in _TOKEN.finditer(text):
        if token[0].isascii():
            continue
        is_beside_latin = _LATIN.search(token[0]) is not None
        numbered = enumerate(token[0], token.start())
        for is_word, group in groupby(numbered, lambda item: item[1] in letters):
            word = list(group)
            if is_word and not all(char.isascii() for _, char in word):
                yield is_beside_latin, word


def _foreign_letters(scripts: dict[int, str]) -> list[int]:
    """Return the indexes of the letters of a word that are not of its script.

    That is Latin where one letter is: with letters that look like them it is read as such.
    """
    counts = Counter([script for script in scripts.values() if script])
    if len(counts) <= 1:
        return []
    main = "LATIN" if "LATIN" in counts else max(counts, key=lambda script: counts[script])
    return [index for index, script in scripts.items() if script not in {main, ""}]


@lru_cache(4_096)
def _script(char: str) -> str:
    """Return the first word of the name of a letter, "" for a sign that any script has."""
    script = "LATIN" if char.isascii() else name(char, _NAMELESS).partition(" ")[0]
    return "EAST ASIAN" if script in _EAST_ASIAN else "" if script in _SIGNS else script


def _looks_latin(char: str) -> bool:
    """Tell whether a letter is of another script and looks like a Latin one."""
    return _script(char) not in {"LATIN", ""} and ord(char.casefold()[0]) in LATIN_LETTERS


def _decomposed(word: Word) -> list[int]:
    """Return the indexes of what the composed form of *word* joins with the characters before it.

    Where no mark is to blame, as between the parts of a Korean syllable, that is all of the word.
    """
    if is_normalized("NFC", "".join([char for _, char in word])):
        return []
    places: list[int] = []
    cluster = ""
    for index, char in word:
        cluster = cluster + char if combining(char) else char
        if combining(char) and not is_normalized("NFC", cluster):
            places.append(index)
    return places or [index for index, char in word if not char.isascii()]


def _stray_marks(word: Word) -> Iterator[int]:
    """Give the indexes of marks that follow no letter, are too many, or cover their letter."""
    count, has_letter = 0, False
    for index, char in word:
        if not category(char).startswith("M"):
            count, has_letter = 0, char.isalpha()
            continue
        count += 1
        covers = "OVERLAY" in name(char, "") or category(char) == "Me"
        if covers or not has_letter or count > _MOST_MARKS:
            yield index
