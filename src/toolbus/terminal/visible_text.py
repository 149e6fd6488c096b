r"""Texts of strangers on a terminal: every character visible, every row marked as theirs.

Written with escapes, such as `\x1b` or `\u202e`, and then each backslash twice, is what a reader
does not see or takes for something else: control, bidirectional and other characters that show
nothing; blanks and newlines at the ends, and blanks at the ends of lines; marks that belong to no
letter or strike one out; a letter of another script than its word's; and what looks like a sign
of ASCII, as a fullwidth slash.

**Limit.** A whole word in one script that looks like a word of another stays as it is.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import category, decomposition, east_asian_width, name, normalize

if TYPE_CHECKING:
    from collections.abc import Iterator

ESCAPED = "written with escapes"
_MARK, _GOES_ON = "│ ", "│…"
_NARROWEST, _BRIEF = 6, 48
_MOST_MARKS = 3
"""Combining marks on one letter; no script needs more, and more cover the row above."""

_NAMED = 3
"""How many of the characters that look like others are named."""

_NAMELESS = "WITHOUT A NAME"
"""What stands for the name of a letter that Python has none of, as of Tangut."""

_BLANK = (
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0000, 0xE1000),
)
"""Shown as nothing though Python calls them printable: Unicode's Default_Ignorable_Code_Point, and
the empty pattern of Braille."""

_INVISIBLE = frozenset(map(chr, _BLANK))
# Like signs of ASCII, and no compatibility characters: division and fraction slash, box drawings
# diagonal, big solidus, ratio, modifier letter colon, set minus.
_LIKE_SIGNS = frozenset("\u2215\u2044\u2571\u29f8\u2236\ua789\u2216")

# By the first word of their names; together they write one language.
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})
# Letters by their category that are used as signs beside any script.
_SIGNS = frozenset({"MICRO", "FEMININE", "MASCULINE", "SUPERSCRIPT", "MODIFIER"})


class VisibleText(NamedTuple):
    r"""How a text is shown, and *notes* on that: none if it stands as it is.

    They say that it is written with escapes, and name what looks like something else: "\u0430 is
    CYRILLIC SMALL LETTER A".
    """

    text: str
    notes: tuple[str, ...] = ()


def is_visible(char: str) -> bool:
    """Tell whether *char* shows something, or is the plain space."""
    return char.isprintable() and char not in _INVISIBLE


def make_visible(text: str, *, one_line: bool = False) -> VisibleText:
    """Return how *text* is shown; newlines within it stay, but not in *one_line*."""
    hidden, alike = _hidden_places(text), _alike_places(text)
    if one_line and "\n" in text:
        hidden |= {index for index, char in enumerate(text) if char == "\n"}
    places = hidden | alike
    if not places:
        return VisibleText(text)
    shown = "".join(
        [
            _escape(char) if index in places else "\\\\" if char == "\\" else char
            for index, char in enumerate(text)
        ]
    )
    chars = dict.fromkeys([text[index] for index in sorted(alike - hidden)])
    named = [f"{_escape(char)} is {name(char, _NAMELESS)}" for char in [*chars][:_NAMED]]
    rest = [f"and {len(chars) - _NAMED:,} more like these"] if len(chars) > _NAMED else []
    return VisibleText(shown, (ESCAPED, *named, *rest))


def brief(text: str) -> str:
    """Return *text* in one line, and cut if it is long: then it says so."""
    line = make_visible(text, one_line=True).text
    return line if len(line) <= _BRIEF else f"{line[:_BRIEF]}… ({len(line):,} characters)"


def quote_rows(text: str, width: int) -> list[str]:
    """Return *text*, which is visible, in rows of at most *width* cells, marked as a quotation.

    They are wrapped here, for a terminal would do so without a mark: "│ " begins a line, "│…"
    goes on with one, so that no text looks as if it were ours.
    """
    cells = max(width - len(_MARK), _NARROWEST)
    return [
        f"{_GOES_ON if index else _MARK}{row}"
        for line in text.split("\n")
        for index, row in enumerate(_wrapped(line, cells))
    ]


def _hidden_places(text: str) -> set[int]:
    """Return the indexes of what shows nothing, but for newlines within the text."""
    end = len(text.rstrip(" \n"))
    places = {*range(len(text) - len(text.lstrip(" \n"))), *range(end, len(text))}
    start = 0
    for line in text.split("\n"):
        places.update(range(start + len(line.rstrip(" ")), start + len(line)))
        if not line.isprintable() or not line.isascii():
            shows = map(is_visible, line)
            places.update([start + index for index, is_shown in enumerate(shows) if not is_shown])
        start += len(line) + 1
    return places


def _alike_places(text: str) -> set[int]:
    """Return the indexes of what looks like something else, and of marks out of place."""
    if text.isascii():
        return set()
    # Told once for each character: there are few of them, and the text may be long.
    alphabet = set(text)
    alike = {char for char in alphabet if _is_like_ascii(char)}
    in_words = {char: _is_of_word(char) for char in alphabet}
    places = {index for index, char in enumerate(text) if char in alike} if alike else set()
    for is_word, group in groupby(enumerate(text), lambda item: in_words[item[1]]):
        chars = list(group)
        if is_word and not all(char.isascii() for _, char in chars):
            places.update(_foreign_letters(chars))
            places.update(_stray_marks(chars))
    return places


def _is_like_ascii(char: str) -> bool:
    """Tell whether *char* is another form of a visible one of ASCII, or looks like one."""
    if char.isascii() or not is_visible(char):
        return False
    form = normalize("NFKC", char)
    is_raised = decomposition(char).startswith(("<super>", "<sub>"))
    return char in _LIKE_SIGNS or (len(form) == 1 and form.isascii() and not is_raised)


def _is_of_word(char: str) -> bool:
    return char.isalnum() or category(char).startswith("M")


def _foreign_letters(word: list[tuple[int, str]]) -> list[int]:
    """Return the indexes of the letters in *word* that are not of its script.

    That is Latin where one letter is: with letters that look like them it is read as such.
    """
    scripts = {index: _script(char) for index, char in word if char.isalpha()}
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


def _stray_marks(word: list[tuple[int, str]]) -> Iterator[int]:
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


def _escape(char: str) -> str:
    return "\\x20" if char == " " else char.encode("unicode_escape").decode()


def _wrapped(line: str, cells: int) -> Iterator[str]:
    """Give *line* in rows of at most *cells* cells; an empty line is one row."""
    row, used = "", 0
    for char in line:
        width = 2 if east_asian_width(char) in "WFA" else 1
        if used + width > cells:
            yield row
            row, used = "", 0
        row, used = row + char, used + width
    yield row
