"""Characters that look like other characters: letters of other scripts, signs like ASCII's.

A character with two spellings in Unicode, such as é, looks the same in both: in a word outside the
composed form (NFC, UAX 15) the characters that differ from it are found as well.

**Limit.** Similar letters of one script, such as l and I, are not found, nor letters that look like
those of a script other than Latin. Similarity depends on the font.
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
# (UTS 39) that occur in names; the first character of each word is the Latin letter.
_ALIKE = (
    *("aаɑα", "bЬьв", "cсϲ", "dԁ", "eеҽє", "gɡց", "hһհн", "jјϳ", "kкκ", "lіıι|!1iӏǀ∣ł", "mм"),
    *("nոпη", "oоο0օσ", "pрρ", "qԛզ", "rгᴦ", "sѕꜱ", "tтτ", "uսυʋ", "vνѵ", "wԝա", "xхχ", "yуγү"),
    *("zᴢ", "_-‐‑‒–—―./: "),
)
LATIN_LETTERS = {ord(char): word[0] for word in _ALIKE for char in word}
"""The Latin letter that each character looks like, as a table for `str.translate`."""

# Signs that look like ASCII's without being compatibility characters: division and fraction slash,
# box drawings diagonal, big solidus, ratio, modifier letter colon, set minus.
_LIKE_SIGNS = frozenset("\u2215\u2044\u2571\u29f8\u2236\ua789\u2216")

# The first words of the names of characters that one language mixes.
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})
# The first words of the names of letters that serve as signs in any script.
_SIGNS = frozenset({"MICRO", "FEMININE", "MASCULINE", "SUPERSCRIPT", "MODIFIER"})

_MOST_MARKS = 3
"""The most combining marks on a letter: no script needs more, and more cover the row above."""

_NAMELESS = "WITHOUT A NAME"
_TOKEN, _LATIN = re.compile(r"\S+"), re.compile("[A-Za-z]")


def name_of(char: str) -> str:
    """Return the name of *char*, also if Python has none for it, as for Tangut."""
    return name(char, _NAMELESS)


def alike_places(text: str) -> set[int]:
    """Return the indexes of look-alike characters, and of misplaced combining marks.

    A whole word of letters that look Latin is included next to Latin letters, as in an address, and
    in a text without another word of its script.
    """
    if text.isascii():
        return set()
    # Checked once for each distinct character, because the text may be long.
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
    """Return whether *char* is another form of an ASCII character, or looks like one."""
    if char.isascii():
        return False
    form = normalize("NFKC", char)
    is_raised = decomposition(char).startswith(("<super>", "<sub>"))
    return char in _LIKE_SIGNS or (len(form) == 1 and form.isascii() and not is_raised)


def _words(text: str) -> Iterator[tuple[bool, Word]]:
    """Yield each word with a character beyond ASCII, after whether Latin letters are next to it."""
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
    """Return the indexes of the letters of a word that belong to another script than the word.

    A word with one Latin letter is Latin: a reader takes its look-alikes for Latin letters.
    """
    counts = Counter([script for script in scripts.values() if script])
    if len(counts) <= 1:
        return []
    main = "LATIN" if "LATIN" in counts else max(counts, key=lambda script: counts[script])
    return [index for index, script in scripts.items() if script not in {main, ""}]


@lru_cache(4_096)
def _script(char: str) -> str:
    """Return the first word of the name of a letter, "" for a sign of any script."""
    script = "LATIN" if char.isascii() else name(char, _NAMELESS).partition(" ")[0]
    return "EAST ASIAN" if script in _EAST_ASIAN else "" if script in _SIGNS else script


def _looks_latin(char: str) -> bool:
    """Return whether *char* is a letter of another script that looks Latin."""
    return _script(char) not in {"LATIN", ""} and ord(char.casefold()[0]) in LATIN_LETTERS


def _decomposed(word: Word) -> list[int]:
    """Return the indexes of marks that the composed form of *word* joins with their letters.

    Without such a mark, as between the parts of a Korean syllable, the whole word is returned.
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
    """Yield the indexes of marks that follow no letter, are too many, or cover their letter."""
    count, has_letter = 0, False
    for index, char in word:
        if not category(char).startswith("M"):
            count, has_letter = 0, char.isalpha()
            continue
        count += 1
        covers = "OVERLAY" in name(char, "") or category(char) == "Me"
        if covers or not has_letter or count > _MOST_MARKS:
            yield index
