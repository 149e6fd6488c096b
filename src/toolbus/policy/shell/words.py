"""The words that a program is given, from the words as they stand in a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.arithmetic import Arithmetic
from toolbus.policy.shell.fields import Fields
from toolbus.policy.shell.parameters import expand_parameter
from toolbus.policy.shell.printed import printed_by
from toolbus.policy.shell.tree import (
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
    from toolbus.policy.shell.tree import Part

_SPECIAL = re.compile(r"[\\*?\[{~]")
_TILDE = re.compile(r"~[A-Za-z0-9_.-]*(?=/|\Z)")
_TILDE_BEHIND_COLON = re.compile(r"~[A-Za-z0-9_.-]*(?=[/:]|\Z)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=(?=~)")
# Where bash expands a tilde behind each colon, too: not known here.
_SET_LIKE = re.compile(r"[A-Za-z_]\w*\+?=")
_UNQUOTED = re.compile(r"\\(?s:(.))|[^\\]+|\\\Z")
_IN_QUOTES = re.compile(r'\\([$`"\\])|\\\n')
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
_IN_DOCUMENT = re.compile(r"\\([$`\\])|\\\n")


class WordExpander:
    """Expands the words of the text of *shell*; what stands in them is read as it comes by."""

    def __init__(self, shell: Interpreter) -> None:
        self._shell = shell
        self.arithmetic = Arithmetic(shell)

    def expand(self, nodes: Iterable[WordNode]) -> list[Word]:
        """Return what *nodes* become as words of a command or a loop."""
        words: list[Word] = []
        for node in nodes:
            parts = node.parts
            if len(parts) == 1 and isinstance(parts[0], Literal):
                text = parts[0].value
                if not _SPECIAL.search(text):
                    words.append(Word(text))
                    continue
            words += self._expanded(node)
        return words

    def single(self, node: WordNode | None, *, assigned: bool = False) -> Word:
        """Return what *node* becomes where it stays one word: a value, a here-string."""
        if node is None or not node.parts:
            return Word("")
        fields = Fields(self._shell.source(node), splits=True, globs=True)
        self._parts(node.parts, fields, single=True, assigned=assigned)
        fields.several = False
        return (fields.result() or [Word("")])[0]

    def document(self, node: WordNode | None, *, verbatim: bool, indented: bool) -> str | None:
        """Return the text of a here-document, or None if it can't be known."""
        if node is None:
            return ""
        parts = node.parts
        if not _is_read_alike(parts, verbatim=verbatim):
            self._shell.refuse("a here-document whose end or text shfmt misreads", node)
        fields = Fields("", splits=True, globs=True)
        for part in parts:
            if isinstance(part, Literal):
                fields.quoted(part.value if verbatim else _IN_DOCUMENT.sub(r"\1", part.value))
            else:
                self._quoted_part(part, fields)
        # A line that a backslash continues is two literals; whose tabs count is bash's secret.
        if fields.is_unknown or (indented and len(parts) > 1):
            return None
        return re.sub(r"(?m)^\t+", "", fields.plain) if indented else fields.plain

    def _expanded(self, node: WordNode) -> list[Word]:
        state = self._shell.state
        fields = Fields(self._shell.source(node), splits=state.splits, globs=state.globs)
        if _has_braces(node.parts):
            fields.unknown(several=True)
        self._parts(node.parts, fields)
        return fields.result()

    def _parts(
        self,
        parts: tuple[Part, ...],
        fields: Fields,
        *,
        single: bool = False,
        assigned: bool = False,
    ) -> None:
        first = parts[0] if parts else None
        set_like = isinstance(first, Literal) and _SET_LIKE.match(first.value)
        for index, part in enumerate(parts):
            if isinstance(part, Literal):
                text = part.value
                if not index:
                    ends = len(parts) == 1
                    text = self._leading_tilde(text, fields, ends=ends, assigned=assigned)
                if (assigned or set_like) and re.search(
                    "[:=]~" if index == 0 else "[:=]~|^~", text
                ):
                    fields.unknown(several=False)
                self._unquoted(text, fields, single=single)
            elif isinstance(part, SingleQuoted):
                self._single_quoted(part, fields)
            elif isinstance(part, DoubleQuoted):
                self._double_quoted(part, fields)
            elif isinstance(part, ExtendedGlob):
                if not single or re.search(r"[$`<>]", self._shell.source(part)):
                    self._shell.refuse("an extended pattern, which shells read differently", part)
                fields.unknown(several=True)
            else:
                self._dynamic(part, fields, quoted=single)

    def _double_quoted(self, part: DoubleQuoted, fields: Fields) -> None:
        fields.quoted("")
        if part.dollar and any(
            name.startswith("TEXTDOMAIN") for name in self._shell.state.variables
        ):
            fields.unknown(several=False)  # The translation may be anything.
        for inner in part.parts:
            if isinstance(inner, Literal):
                fields.quoted(_IN_QUOTES.sub(r"\1", inner.value))
            else:
                self._quoted_part(inner, fields)

    def _unquoted(self, text: str, fields: Fields, *, single: bool) -> None:
        for match in _UNQUOTED.finditer(text):
            if match[1] is not None:
                # shfmt leaves a continued line in what has other backslashes.
                fields.quoted(match[1] if match[1] != "\n" else "")
            elif single:
                fields.quoted(match[0])
            else:
                # Behind a `$` that stands alone bash does not split what it expanded before.
                fields.literal(match[0], unsplit="$" in match[0])

    def _leading_tilde(self, text: str, fields: Fields, *, ends: bool, assigned: bool) -> str:
        prefix = "" if assigned else (m[0] if (m := _ASSIGNMENT.match(text)) else "")
        rest = text[len(prefix) :]
        if not rest.startswith("~"):
            return text
        match = (_TILDE_BEHIND_COLON if assigned or prefix else _TILDE).match(rest)
        if not match or (match.end() == len(rest) and not ends):
            fields.unknown(several=False)
            return text
        home = self._shell.state.variables.get("HOME")
        if home is not None and match[0] == "~":
            if not home.word.known or home.word.pattern:
                fields.unknown(several=False)
            fields.quoted(prefix + home.word.text)
        elif re.fullmatch(r"~[+-]|~\d+", match[0]):
            fields.unknown(several=False)
        else:
            fields.tilde(prefix + match[0])
        return rest[match.end() :]

    def _single_quoted(self, part: SingleQuoted, fields: Fields) -> None:
        if part.dollar and "\\'" in part.value:
            self._shell.refuse("a quote in $'…', which ends it in other shells", part)
        if part.dollar and "\\" in part.value:
            fields.unknown(several=False)
        else:
            fields.quoted(part.value)

    def _quoted_part(self, part: Part, fields: Fields) -> None:
        if isinstance(part, SingleQuoted | DoubleQuoted | ExtendedGlob | Literal):
            self._shell.refuse("quotes in quotes", part)
            fields.unknown(several=False)
        else:
            self._dynamic(part, fields, quoted=True)

    def _dynamic(self, part: Part, fields: Fields, *, quoted: bool) -> None:
        shell = self._shell
        if isinstance(part, Parameter):
            expand_parameter(part, fields, shell, quoted=quoted)
        elif isinstance(part, Substitution):
            self._substitution(part, fields, quoted=quoted)
        elif isinstance(part, ProcessSubstitution):
            start = len(shell.commands)
            with shell.subshell(f"{part.op}…)"):
                shell.statements.read_list(part.stmts)
            shell.unsettle(start)
            fields.unknown(several=not part.stmts)
        elif isinstance(part, ArithmeticExpansion):
            self.arithmetic.check(part.x)
            fields.unknown(several=not quoted and not shell.state.splits)

    def _substitution(self, part: Substitution, fields: Fields, *, quoted: bool) -> None:
        shell = self._shell
        if part.backquotes and re.search(r'\\[\\`"$\n]', shell.source(part)):
            shell.refuse("backslashes in backquotes, which shfmt misreads", part)
        printed = printed_by(part.stmts, shell)
        scope = replace(shell.scope, redirections=()).through("$(…)")
        with shell.using(state=shell.state.copy(), scope=scope):
            shell.statements.read_list(part.stmts)
        if printed is None:
            fields.unknown(several=not quoted)
        elif quoted:
            fields.quoted(printed.rstrip("\n"))
        else:
            fields.expanded(printed.rstrip("\n"))


def _has_braces(parts: tuple[Part, ...]) -> bool:
    """Return whether *parts* may become several words: ``a{b,c}``, and not ``{owner}/{repo}``."""
    texts = [part.value if isinstance(part, Literal) else "\0" for part in parts]
    return bool(_BRACES.search(re.sub(r"\\(?s:.)", "", "".join(texts))))


def _is_read_alike(parts: tuple[Part, ...], *, verbatim: bool) -> bool:
    """Return whether shfmt sees in a here-document what bash sees, expansions or none."""
    if verbatim:
        return all(isinstance(part, Literal) for part in parts)
    texts = [re.sub(r"\\(?s:.)", "", part.value) for part in parts if isinstance(part, Literal)]
    return not any(re.search(r"`|\$[({\[A-Za-z_]", text) for text in texts)
