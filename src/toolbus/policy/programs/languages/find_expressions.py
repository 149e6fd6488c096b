"""The effects of `find` expressions: find(1), GNU findutils and BSD."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.programs.parsed_command import may_be_sign
from toolbus.policy.programs.program_files import language_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand


def read_find(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge an expression of find; return no operands."""
    starts, rest = _starts(parsed.operands)
    index = 0
    while index < len(rest):
        index = _behind_primary(parsed, starts, rest, index)
    for start in starts or [Word(".")]:
        _use(parsed, start, rest)
    return ()


def _starts(words: Sequence[Word]) -> tuple[list[Word], Sequence[Word]]:
    """Return the starting points, and the expression; options such as `-L` come first."""
    leading = language_words("find", "leading")
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
    """Judge the primary at *index* of *words*; return the index after its arguments."""
    # Complex because each kind of primary in find(1) has its own branch.
    word, arguments = words[index], words[index + 1 : index + 2]
    text = word.text
    parsed.options.add(text)
    if not word.known:
        parsed.note(f"{text} may be any action of find", word)
    elif text in language_words("find", "valued") or text.startswith("-newer"):
        starts += arguments if text == "-f" else ()
        for argument in filter(lambda argument: argument.several, arguments):
            parsed.note("it may expand to several words, including actions", argument)
        return index + 2
    elif text in language_words("find", "writes"):
        for argument in arguments:
            parsed.builder.write(argument)
        return index + (3 if text == "-fprintf" else 2)
    elif text in language_words("find", "runs"):
        return _behind_command(parsed, words, index + 1)
    elif text not in language_words("find", "plain") and text != "-delete":
        parsed.note(f"{text} is an unknown action of find", word)
    return index + 1


def _behind_command(parsed: ParsedCommand, words: Sequence[Word], start: int) -> int:
    end = end_of_command(words, start)
    for word in words[start:end]:
        if may_be_sign(word):
            parsed.note("it may end the command, with actions after it", word)
    return end + 1


def end_of_command(words: Sequence[Word], start: int) -> int:
    """Return the end of the command in *words* that begins at *start*, after ``-exec``."""
    for index in range(start, len(words)):
        is_plus = words[index].text == "+" and index > start and words[index - 1].text == "{}"
        if words[index].text == ";" or is_plus:
            return index
    return len(words)


def _use(parsed: ParsedCommand, start: Word, rest: Sequence[Word]) -> None:
    """Judge the effects on files below *start*; commands run there are judged separately."""
    builder = parsed.builder
    if not start.known:
        parsed.note(f"{start.text} may be an action of find", start)
    if "-delete" in parsed.options:
        builder.destroy(start)
    if not language_words("find", "runs").isdisjoint(parsed.options):
        texts = [word.text for word in rest]
        if language_words("find", "branches").isdisjoint(texts) and "-name" in texts[:-1]:
            builder.take(rest[texts.index("-name") + 1], "include")
        builder.tree(start)
    elif "-delete" not in parsed.options:
        builder.name(start)
