"""The expansion of the words in a text to the arguments of a program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.arithmetic import Arithmetic, words_in
from toolbus.policy.shell.state import NUMBER, UNKNOWN
from toolbus.policy.shell.syntax import (
    ArithmeticExpansion,
    DoubleQuoted,
    ExtendedGlob,
    Literal,
    Parameter,
    ProcessSubstitution,
    SingleQuoted,
    Substitution,
    WordNode,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.policy.shell.interpreter import Interpreter
    from toolbus.policy.shell.syntax import Part

_ALL = frozenset("@*")
_GLOB_SIGN = re.compile(r"[*?\[\]\\]")
_BLANKS = " \t\n"
_SPECIAL = re.compile(r"[\\*?\[{~]")
_TILDE = re.compile(r"~[A-Za-z0-9_.-]*(?=/|\Z)")
_TILDE_BEHIND_COLON = re.compile(r"~[A-Za-z0-9_.-]*(?=[/:]|\Z)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=(?=~)")
# Words in which bash also expands a tilde after each colon: unknown here.
_SET_LIKE = re.compile(r"[A-Za-z_]\w*\+?=")
_UNQUOTED = re.compile(r"\\(?s:(.))|[^\\]+|\\\Z")
_IN_QUOTES = re.compile(r'\\([$`"\\])|\\\n')
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
_IN_DOCUMENT = re.compile(r"\\([$`\\])|\\\n")


class Fields:
    """The pieces of one written word, from left to right, and the arguments they expand to.

    *source* is the word as written, used for unknown arguments.
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
        """Add *text* without special characters."""
        escaped = _GLOB_SIGN.sub(r"\\\g<0>", text) if _GLOB_SIGN.search(text) else text
        if not self.plain and text.startswith("~") and not self.has_tilde:
            escaped = "\\" + escaped
        self._add(text, escaped)

    def literal(self, text: str, *, unsplit: bool = False) -> None:
        """Add unquoted *text*: it may be a pattern, but is not split.

        If *unsplit*, bash does not split the word at all.
        """
        self.is_unsplit = self.is_unsplit or unsplit
        if "*" in text or "?" in text or "[" in text:
            self.is_pattern = True
        self._add(text, text)

    def expanded(self, text: str) -> None:
        """Add *text*, the value of an unquoted variable: it is split, and may be a pattern."""
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
        """Add *text*, which begins with ``~`` or ``~name`` and expands to a home folder."""
        # The quotes of `"$HOME/x"` have begun a word that is still empty.
        if self.plain or self.is_unknown:
            self.unknown(several=False)
            return
        self.has_tilde = True
        self._add(text, text)

    def matching(self, pattern: str) -> None:
        """Add the matches of *pattern*, quoted."""
        if pattern.startswith("~") and self.started:
            self.unknown(several=False)
            return
        self.is_pattern = True
        self.has_tilde = self.has_tilde or pattern.startswith("~")
        self._add(pattern, pattern)

    def unknown(self, *, several: bool) -> None:
        """Add an unknown piece; *several* if it may also split the word."""
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
        """Return the certain beginning of the word."""
        return "" if self.is_pattern or self.has_tilde else self.plain

    def result(self) -> list[Word]:
        """Return the words, after all pieces are added."""
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


class WordReader:
    """Expands the parts of one word into *fields*, and interprets commands inside them.

    A *single* word is not split; in an *assigned* word a tilde is expanded after each colon.
    """

    def __init__(
        self, shell: Interpreter, fields: Fields, *, single: bool = False, assigned: bool = False
    ) -> None:
        self._shell, self._fields, self._single, self._assigned = shell, fields, single, assigned

    def read(self, parts: tuple[Part, ...]) -> None:
        """Expand *parts* into the fields."""
        for index, part in enumerate(parts):
            if isinstance(part, Literal):
                self._literal(part.value, parts, is_first=not index)
            elif isinstance(part, SingleQuoted):
                self._single_quoted(part)
            elif isinstance(part, DoubleQuoted):
                self._double_quoted(part)
            elif isinstance(part, ExtendedGlob):
                if not self._single or re.search(r"[$`<>]", self._shell.source(part)):
                    self._shell.refuse("shells read this extended pattern differently", part)
                self._fields.unknown(several=True)
            else:
                self._dynamic(part, quoted=self._single)

    def _literal(self, text: str, parts: tuple[Part, ...], *, is_first: bool) -> None:
        """Add unquoted *text*, one of *parts*."""
        if is_first:
            text = self._leading_tilde(text, ends=len(parts) == 1)
        sets = isinstance(parts[0], Literal) and _SET_LIKE.match(parts[0].value)
        if (self._assigned or sets) and re.search("[:=]~" if is_first else "[:=]~|^~", text):
            self._fields.unknown(several=False)
        self._unquoted(text)

    def _double_quoted(self, part: DoubleQuoted) -> None:
        self._fields.quoted("")
        if part.dollar and any(
            name.startswith("TEXTDOMAIN") for name in self._shell.state.variables
        ):
            self._fields.unknown(several=False)  # The translation may be any text.
        for inner in part.parts:
            if isinstance(inner, Literal):
                self._fields.quoted(_IN_QUOTES.sub(r"\1", inner.value))
            else:
                self.read_quoted(inner)

    def _unquoted(self, text: str) -> None:
        for match in _UNQUOTED.finditer(text):
            if match[1] is not None:
                # shfmt keeps a line continuation next to other backslashes.
                self._fields.quoted(match[1] if match[1] != "\n" else "")
            elif self._single:
                self._fields.quoted(match[0])
            else:
                # After a lone `$` bash does not split earlier expansions.
                self._fields.literal(match[0], unsplit="$" in match[0])

    def _leading_tilde(self, text: str, *, ends: bool) -> str:
        prefix = "" if self._assigned else (m[0] if (m := _ASSIGNMENT.match(text)) else "")
        rest = text[len(prefix) :]
        if not rest.startswith("~"):
            return text
        match = (_TILDE_BEHIND_COLON if self._assigned or prefix else _TILDE).match(rest)
        if not match or (match.end() == len(rest) and not ends):
            self._fields.unknown(several=False)
            return text
        self._add_home(prefix, match[0])
        return rest[match.end() :]

    def _add_home(self, prefix: str, written: str) -> None:
        """Add the folder of *written*: ``~`` or ``~name``."""
        home = self._shell.state.variables.get("HOME")
        if home is not None and written == "~":
            if not home.known or home.pattern:
                self._fields.unknown(several=False)
            self._fields.quoted(prefix + home.text)
        elif re.fullmatch(r"~[+-]|~\d+", written):
            self._fields.unknown(several=False)
        else:
            self._fields.tilde(prefix + written)

    def _single_quoted(self, part: SingleQuoted) -> None:
        if part.dollar and "\\'" in part.value:
            self._shell.refuse("a quote in $'…' ends it in other shells", part)
        if part.dollar and "\\" in part.value:
            self._fields.unknown(several=False)
        else:
            self._fields.quoted(part.value)

    def read_quoted(self, part: Part) -> None:
        """Expand *part*, a part other than plain text, in double quotes."""
        if isinstance(part, SingleQuoted | DoubleQuoted | ExtendedGlob | Literal):
            self._shell.refuse("nested quotes", part)
            self._fields.unknown(several=False)
        else:
            self._dynamic(part, quoted=True)

    def _dynamic(self, part: Part, *, quoted: bool) -> None:
        shell = self._shell
        if isinstance(part, Parameter):
            self._parameter(part, quoted=quoted)
        elif isinstance(part, Substitution):
            self._substitution(part, quoted=quoted)
        elif isinstance(part, ProcessSubstitution):
            start = len(shell.commands)
            is_fed = part.op == ">("
            scope = replace(shell.scope, piped=True, stdin=None) if is_fed else shell.scope
            with shell.using(scope=scope), shell.subshell(f"{part.op}…)"):
                shell.statements.read_list(part.stmts)
            shell.mark_unstable(start)
            self._fields.unknown(several=not part.stmts)
        elif isinstance(part, ArithmeticExpansion):
            shell.words.arithmetic.check(part.x)
            self._add_number(quoted=quoted)

    def _substitution(self, part: Substitution, *, quoted: bool) -> None:
        shell = self._shell
        if part.backquotes and re.search(r'\\[\\`"$\n]', shell.source(part)):
            shell.refuse("shfmt misreads backslashes in backquotes", part)
        # Its output is a word, and its input that of the enclosing command.
        outer = shell.scope
        has_file = any(each.operator.startswith("<") for each in outer.redirections)
        scope = replace(outer, redirections=(), rewired=outer.rewired or has_file).through("$(…)")
        with shell.using(state=shell.state.copy(), scope=scope):
            shell.statements.read_list(part.stmts)
        self._fields.unknown(several=not quoted)

    def _parameter(self, part: Parameter, *, quoted: bool) -> None:
        """Expand *part*, and interpret commands inside it."""
        # Complex because it follows the cases of bash's manual, "Shell Parameter Expansion".
        name, index = part.name, self._index(part)
        self._read_operands(part, quoted=quoted)
        if part.excl and not part.names and index not in _ALL:
            self._shell.refuse("a variable that names another variable", part)
        if part.exp and part.exp.op in {"=", ":="}:
            self._shell.state.assign(name, UNKNOWN)
        if part.is_plain:
            self._add_plain(name, quoted=quoted)
        elif part.length:
            self._add_number(quoted=quoted or not _ALL.isdisjoint((name, index)))
        else:
            self._fields.unknown(several=not quoted or "@" in {name, index})

    def _add_plain(self, name: str, *, quoted: bool) -> None:
        value = self._shell.state.value(name)
        if name in _ALL:
            self._add_all(name, quoted=quoted)
        elif value == NUMBER:
            self._add_number(quoted=quoted)
        elif value is None:
            self._fields.unknown(several=not quoted)
        else:
            self._add_word(value, quoted=quoted)

    def _add_number(self, *, quoted: bool) -> None:
        self._fields.unknown(several=not quoted and not self._shell.state.splits)

    def _add_word(self, word: Word, *, quoted: bool) -> None:
        """Add the value of a variable."""
        if word.pattern and (quoted or word.text.startswith("~")):
            if word.text.startswith("~") and not any(sign in word.text for sign in "*?[\\"):
                self._fields.tilde(word.text)
            else:
                self._fields.matching(word.text)
        elif not word.known or word.pattern:
            self._fields.unknown(several=not quoted)
        elif quoted:
            self._fields.quoted(word.text)
        else:
            self._fields.expanded(word.text)

    def _add_all(self, name: str, *, quoted: bool) -> None:
        """Add the positional parameters; ``"$*"`` joins them to one word."""
        words = self._shell.state.positional
        if words is None or (quoted and name == "*"):
            self._fields.unknown(several=not quoted or name == "@")
            return
        if quoted and not words:
            # In bash an empty "$@" expands to no word, despite the quotes.
            self._fields.unknown(several=True)
        for position, word in enumerate(words):
            if position:
                self._fields.finish()
            self._add_word(word, quoted=quoted)

    def _index(self, part: Parameter) -> str:
        """Interpret the subscript; return ``@``, ``*``, ``?`` for any other, or ""."""
        if part.index is None:
            return ""
        text = self._shell.source(part).partition("[")[2]
        if text.startswith(("@]", "*]")):
            return text[0]
        self._shell.words.arithmetic.check(part.index)
        return "?"

    def _read_operands(self, part: Parameter, *, quoted: bool) -> None:
        for bound in ("Offset", "Length"):
            self._shell.words.arithmetic.check((part.slice or {}).get(bound))
        if part.exp and part.exp.op == "@":
            self._shell.refuse("@P runs commands in the value of the variable", part)
        words = [*words_in(part.repl)]
        if part.exp and part.exp.word:
            words.append(part.exp.word)
        for word in words:
            # shfmt reads single quotes there as quotes, and bash mostly as characters.
            if quoted and "'" in self._shell.source(word):
                self._shell.refuse("shells read quotes in a quoted ${…} differently", part)
            self._shell.words.single(word)


class WordExpander:
    """Expands the words of the text of *shell*, and interprets commands inside them."""

    def __init__(self, shell: Interpreter) -> None:
        self._shell = shell
        self.arithmetic = Arithmetic(shell)

    def expand(self, nodes: Iterable[WordNode]) -> list[Word]:
        """Return the expansion of *nodes* as words of a command or a loop."""
        words: list[Word] = []
        for node in nodes:
            text = node.literal
            if text is None or _SPECIAL.search(text):
                words += self._expanded(node)
            else:
                words.append(Word(text))
        return words

    def single(self, node: WordNode | None, *, assigned: bool = False) -> Word:
        """Return the expansion of *node* as a single word: a value, a here-string."""
        if node is None or not node.parts:
            return Word("")
        fields = Fields(self._shell.source(node), splits=True, globs=True)
        WordReader(self._shell, fields, single=True, assigned=assigned).read(node.parts)
        fields.several = False
        return (fields.result() or [Word("")])[0]

    def document(self, node: WordNode | None, *, verbatim: bool, indented: bool) -> str | None:
        """Return the text of a here-document, or None if it is unknown."""
        if node is None:
            return ""
        parts = node.parts
        if not _is_read_alike(parts, verbatim=verbatim):
            self._shell.refuse("shfmt misreads the end or text of this here-document", node)
        fields = Fields("", splits=True, globs=True)
        for part in parts:
            if isinstance(part, Literal):
                fields.quoted(part.value if verbatim else _IN_DOCUMENT.sub(r"\1", part.value))
            else:
                WordReader(self._shell, fields).read_quoted(part)
        # A continued line is two literals, and it is unclear which tabs bash strips.
        if fields.is_unknown or (indented and len(parts) > 1):
            return None
        return re.sub(r"(?m)^\t+", "", fields.plain) if indented else fields.plain

    def _expanded(self, node: WordNode) -> list[Word]:
        state = self._shell.state
        fields = Fields(self._shell.source(node), splits=state.splits, globs=state.globs)
        if _has_braces(node.parts):
            fields.unknown(several=True)
        WordReader(self._shell, fields).read(node.parts)
        return fields.result()


def _has_braces(parts: tuple[Part, ...]) -> bool:
    """Return whether *parts* may expand to several words: ``a{b,c}``, not ``{owner}/{repo}``."""
    texts = [part.value if isinstance(part, Literal) else "\0" for part in parts]
    return bool(_BRACES.search(re.sub(r"\\(?s:.)", "", "".join(texts))))


def _is_read_alike(parts: tuple[Part, ...], *, verbatim: bool) -> bool:
    """Return whether shfmt and bash read the same expansions in a here-document."""
    if verbatim:
        return all(isinstance(part, Literal) for part in parts)
    texts = [re.sub(r"\\(?s:.)", "", part.value) for part in parts if isinstance(part, Literal)]
    return not any(re.search(r"`|\$[({\[A-Za-z_]", text) for text in texts)
