"""Programs that run another one for each file or line: `xargs`, `find`, `parallel` …."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.nested_shells import read_string
from toolbus.policy.shell.wrappers import Wrapper, joined, parse_words

if TYPE_CHECKING:
    from toolbus.policy.shell.runs import Run
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.walk import TextWalk

    Words = tuple[Word, ...]

_SOME = Word("…", known=False, several=True)
_XARGS = Wrapper(
    flags="0oprtx",
    values="aEILnPsdJRS",
    long_flags="null open-tty interactive no-run-if-empty verbose exit show-limits",
    long_values="arg-file delimiter max-lines max-args max-procs max-chars",
)
_PARALLEL = Wrapper(
    flags="k0tvu",
    values="jn",
    long_flags="keep-order null verbose ungroup bar progress line-buffer will-cite halt-on-error",
    long_values="jobs max-args delay timeout retries",
)


def read_xargs(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read what xargs runs with the words that it reads."""
    parsed = parse_words(name, _XARGS, tuple(map(_split_optional, words)), run, walk)
    if parsed is None or not parsed.rest:
        return
    rest = words[-len(parsed.rest) :]
    options = dict(parsed.options)
    inner = replace(run.wrapped(name, len(walk.commands)), stdin=None, has_stdin=True)
    place = options.get("-I") or options.get("-J") or options.get("--replace")
    if place is None:
        walk.run_words((*rest, _SOME), inner, walk, state.copy())
        return
    filled = tuple(_with_unknown(word, place.text) for word in rest)
    walk.run_words(filled, inner, walk, state.copy())


def _split_optional(word: Word) -> Word:
    """Make the options of xargs whose value is optional ones that have it joined."""
    if word.text in {"-i", "--replace"} and word.known:
        return Word("-I{}")
    if word.known and word.text.startswith("-i"):
        return Word("-I" + word.text[2:])
    if word.known and word.text.startswith("--replace="):
        return Word("-I" + word.text.partition("=")[2])
    if word.known and re.fullmatch(r"-[le]\d*|--(max-lines|eof)(=\d+)?", word.text):
        return Word("-x")
    return word


def _with_unknown(word: Word, place: str) -> Word:
    if place and place in word.text:
        start = word.text.partition(place)[0] if not word.pattern else ""
        return Word(word.text, known=False, start=start)
    return word


def read_find(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read what stands behind ``-exec`` and the like."""
    start = _first_folder(words)
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.text not in {"-exec", "-execdir", "-ok", "-okdir"} or not word.known:
            continue
        end = position
        while end < len(words) and words[end].text not in {";", "+"}:
            end += 1
        inner = run.wrapped(f"find {word.text}", len(walk.commands))
        where = state.copy()
        begin = start
        if word.text.endswith("dir"):
            where.folder, begin = None, "./"
        several = end < len(words) and words[end].text == "+"
        filled = tuple(_filled(item, begin, several=several) for item in words[position:end])
        if filled:
            walk.run_words(filled, inner, walk, where)
        position = end + 1


def _first_folder(words: Words) -> str:
    """Return what all names that find prints begin with, if that is certain."""
    roots = []
    for word in words:
        if not word.known or word.pattern:
            return ""
        if word.text.startswith(("-", "(", "!")):
            break
        roots.append(word.text)
    if len(roots) > 1:
        return ""
    root = roots[0] if roots else "."
    return root if root.endswith("/") else root + "/" if root == "." else root


def _filled(word: Word, start: str, *, several: bool) -> Word:
    if "{}" not in word.text or not word.known:
        return word
    before = word.text.partition("{}")[0]
    return Word(word.text, known=False, several=several, start="" if several else before + start)


def read_fd(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read what stands behind ``-x`` and ``-X``."""
    for position, word in enumerate(words):
        option, _, value = word.text.partition("=")
        if not word.known or option not in {"-x", "-X", "--exec", "--exec-batch"}:
            continue
        rest = words[position + 1 :]
        if value:
            walk.refuse(run.source, f"{option} of {name} with its command in the same word")
            return
        filled = tuple(
            Word(item.text, known=False) if re.search(r"\{[/.]{0,2}\}", item.text) else item
            for item in rest
            if item.text != ";"
        )
        if not filled:
            return
        if not any(not item.known for item in filled):
            filled = (*filled, _SOME)
        walk.run_words(
            filled, run.wrapped(f"{name} {option}", len(walk.commands)), walk, state.copy()
        )
        return
    if any(
        word.text.startswith(("-x", "-X")) or re.match(r"-[a-zA-Z]+[xX]\Z", word.text)
        for word in words
    ):
        walk.refuse(run.source, f"what {name} runs isn't known here")


def read_parallel(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read what parallel has a shell run."""
    parsed = parse_words(name, _PARALLEL, words, run, walk)
    if parsed is None:
        return
    rest: list[Word] = []
    for word in parsed.rest:
        if word.known and re.match(r":::", word.text):
            break
        rest.append(word)
    text = joined(tuple(rest))
    if not rest or not text.known or re.search(r"\{[^}\s]+\}|['\"\\]", text.text):
        walk.refuse(run.source, "what parallel runs is known only when it runs")
        return
    # Its arguments come to it from elsewhere: a variable that nobody sets stands for them.
    argument = '"$PARALLEL_ARGUMENT"'
    filled = text.text.replace("{}", argument)
    if filled == text.text:
        filled = f"{filled} {argument}"
    read_string(Word(filled), name, run, walk, state)


def read_entr(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read what entr runs when a file changes."""
    flags = ""
    while words and words[0].known and re.fullmatch(r"-[acdnprsxz]+", words[0].text):
        flags += words[0].text
        words = words[1:]
    if not words:
        return
    inner = run.wrapped(name, len(walk.commands))
    words = tuple(_with_unknown(word, "/_") for word in words)
    if "s" in flags:
        read_string(words[0], "", inner, walk, state)
    else:
        walk.run_words(words, inner, walk, state.copy())
