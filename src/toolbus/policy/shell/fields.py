"""The words that one word of a text becomes, as its pieces come in: splitting and patterns."""

from __future__ import annotations

import re

from toolbus.policy.commands import Word

_SPECIAL = re.compile(r"[*?\[\]\\]")
_BLANKS = " \t\n"


class Fields:
    """Pieces of one word, from left to right, that become the words of which a program is given.

    *source* is the word as written, for what is not known of it.
    """

    def __init__(self, source: str, *, splits: bool, globs: bool) -> None:
        self.source = source
        self.splits = splits
        self.globs = globs
        self.words: list[Word] = []
        self.several = self.is_unsplit = self.is_split = False
        self._begin()

    def _begin(self) -> None:
        self.plain = self.pattern = ""
        self.started = self.is_pattern = self.is_unknown = self.has_tilde = False

    def quoted(self, text: str) -> None:
        """Add *text*, of which nothing is special."""
        escaped = _SPECIAL.sub(r"\\\g<0>", text) if _SPECIAL.search(text) else text
        if not self.plain and text.startswith("~") and not self.has_tilde:
            escaped = "\\" + escaped
        self._add(text, escaped)

    def literal(self, text: str, *, unsplit: bool = False) -> None:
        """Add *text* that stands there unquoted: it may be a pattern, but is not split.

        If it is *unsplit*, bash splits nothing of the word.
        """
        self.is_unsplit = self.is_unsplit or unsplit
        if "*" in text or "?" in text or "[" in text:
            self.is_pattern = True
        self._add(text, text)

    def expanded(self, text: str) -> None:
        """Add *text* that an unquoted variable held: it is split, and may be a pattern."""
        if not self.splits:
            self.unknown(several=True)
            return
        pieces = re.split(f"[{_BLANKS}]+", text)
        self.is_split = self.is_split or len(pieces) > 1
        for index, part in enumerate(pieces):
            if index and self.started:
                self.finish()
            if part:
                self.literal(part)

    def tilde(self, text: str) -> None:
        """Add *text*, which begins with ``~`` or ``~name`` and becomes a folder of the system's."""
        # The quotes of `"$HOME/x"` have begun a word, in which there is nothing yet.
        if self.plain or self.is_unknown:
            self.unknown(several=False)
            return
        self.has_tilde = True
        self._add(text, text)

    def matching(self, pattern: str) -> None:
        """Add what matches *pattern*, quoted."""
        if pattern.startswith("~") and self.started:
            self.unknown(several=False)
            return
        self.is_pattern = True
        self.has_tilde = self.has_tilde or pattern.startswith("~")
        self._add(pattern, pattern)

    def unknown(self, *, several: bool) -> None:
        """Add what nobody can know; *several* if it may also split the word."""
        self.is_unknown = self.started = True
        self.several = self.several or several

    def finish(self) -> None:
        """End a word."""
        if self.is_unknown:
            self.words.append(Word(self.source, known=False, start=self.plain_start()))
        elif self.started:
            self.words.append(self._word())
        self._begin()

    def plain_start(self) -> str:
        """Return what the word certainly begins with."""
        return "" if self.is_pattern or self.has_tilde else self.plain

    def result(self) -> list[Word]:
        """Return the words, once all pieces are in."""
        self.finish()
        if self.several or (self.is_split and self.is_unsplit):
            return [Word(self.source, known=False, several=True)]
        return self.words

    def _add(self, text: str, pattern: str) -> None:
        self.started = True
        if not self.is_unknown:
            self.plain += text
            self.pattern += pattern

    def _word(self) -> Word:
        globbing = self.is_pattern and ("*" in self.plain or "?" in self.plain or "]" in self.plain)
        if not globbing and not self.has_tilde:
            return Word(self.plain)
        if globbing and not self.globs:
            return Word(self.source, known=False, several=True)
        return Word(self.pattern, pattern=True)
