"""What `find` does: the expressions of find(1), GNU findutils and BSD."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.programs.languages.language_data import language_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand


def read_find(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge an expression of find; return no operands, since all are judged."""
    starts, rest = _starts(parsed.operands)
    index = 0
    while index < len(rest):
        index = _behind_primary(parsed, starts, rest, index)
    for start in starts or [Word(".")]:
        _use(parsed, start, rest)
    return ()


def _starts(words: Sequence[Word]) -> tuple[list[Word], Sequence[Word]]:
    """Return where it starts, and the expression; `-H`, `-L` and the like stand in front."""
    leading = language_data().find.leading
    starts: list[Word] = []
    for index, word in enumerate(words):
        if word.known and word.text in leading:
            continue
        if word.known and (word.text[:1] == "-" or word.text in {"(", "!"}):
            return starts, words[index:]
        starts.append(word)
    return starts, ()


def _behind_primary(
    parsed: ParsedCommand, starts: list[Word], words: Sequence[Word], index: int
) -> int:
    """Judge the primary at *index* of *words*; return the index behind it and its arguments."""
    names, word = language_data().find, words[index]
    argument = words[index + 1] if index + 1 < len(words) else None
    text = word.text
    parsed.options.add(text)
    if not word.known:
        parsed.note(f"what {text} is in an expression of find cannot be known", word)
    elif text in names.valued or text.startswith("-newer"):
        if argument and text == "-f":
            starts.append(argument)
        if argument and argument.several:
            parsed.note("it may become several words, and actions among them", argument)
        return index + 2
    elif text in names.writes:
        if argument:
            parsed.uses.write(argument)
        return index + (3 if text == "-fprintf" else 2)
    elif text in names.runs:
        return _behind_command(words, index + 1)
    elif text not in names.plain and text != "-delete":
        parsed.note(f"what {text} of find does is not known", word)
    return index + 1


def _behind_command(words: Sequence[Word], index: int) -> int:
    while index < len(words):
        if words[index].text == ";" or (words[index].text == "+" and words[index - 1].text == "{}"):
            return index + 1
        index += 1
    return index


def _use(parsed: ParsedCommand, start: Word, rest: Sequence[Word]) -> None:
    """Judge what is done with all below *start*; what is run there is a command of its own."""
    uses, names = parsed.uses, language_data().find
    if not start.known:
        parsed.note(f"it is not known whether {start.text} is an action of find", start)
    if "-delete" in parsed.options:
        uses.destroy(start)
    if not names.runs.isdisjoint(parsed.options):
        texts = [word.text for word in rest]
        if names.branches.isdisjoint(texts) and "-name" in texts[:-1]:
            uses.take(rest[texts.index("-name") + 1], "include")
        uses.tree(start)
    elif "-delete" not in parsed.options:
        uses.name(start)
