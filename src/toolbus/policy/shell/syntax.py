"""The syntax tree of a text, parsed by shfmt in one short process per text.

The nodes are those of shfmt's `--to-json` for bash, documented in ``mvdan.cc/sh/v3/syntax``; an
unlisted kind of node makes a text unreadable.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import DecodeError, Struct, field
from msgspec.json import Decoder

from toolbus.errors import ToolbusError
from toolbus.settings.extras import needs_extra

MAX_BYTES = 64 * 1024
_SECONDS = 5.0
# shfmt joins the line after such a comment to the comment; bash runs the line.
_CONTINUED_COMMENT = re.compile(rb'"Text": *"(?:[^"\\]|\\.)*?\\\\\\n')
# shfmt does not join a continued line inside an operator: `"$\` + `(rm x)"`.
_SPLIT_SIGN = re.compile(r"\$\\\n(?!\s)|[&|<>;(]\\\n[&|<>;(]")
# Words without special characters, separated by single blanks, need no parser; this covers half of
# the commands that people run, and most nested commands.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+(?: [A-Za-z0-9_./:@%+,=-]+)*")
_NOT_PLAIN = frozenset(
    """case coproc declare do done elif else esac export fi for function if in let local nameref
    readonly select then time typeset until while""".split()
)

# Only the words inside arithmetic, tests, slices and replacements are used.
Expression: TypeAlias = dict[str, Any]


class TextOffset(Struct):
    """A position in the text; *offset* counts bytes of UTF-8."""

    offset: int = field(name="Offset", default=0)


class Node(Struct, rename="pascal", tag_field="Type"):
    """The start and end of a node."""

    pos: TextOffset = field(default_factory=TextOffset)
    end: TextOffset = field(default_factory=TextOffset)


class Literal(Node, tag="Lit"):
    """Unquoted text, or text inside of double quotes; backslashes are as written."""

    value: str = ""


class SingleQuoted(Node, tag="SglQuoted"):
    """``'…'``, or ``$'…'`` if *dollar*."""

    value: str = ""
    dollar: bool = False


class DoubleQuoted(Node, tag="DblQuoted"):
    """``"…"``, or ``$"…"`` if *dollar*."""

    parts: tuple[Part, ...] = ()
    dollar: bool = False


class Substitution(Node, tag="CmdSubst"):
    """``$(…)``, or with *backquotes*."""

    stmts: tuple[Statement, ...] = ()
    backquotes: bool = False


class ProcessSubstitution(Node, tag="ProcSubst"):
    """``<(…)`` or ``>(…)``."""

    op: str = ""
    stmts: tuple[Statement, ...] = ()


class ExtendedGlob(Node, tag="ExtGlob"):
    """``@(…)``, ``!(…)`` …; its contents are not parsed."""


class ArithmeticExpansion(Node, tag="ArithmExp"):
    """``$((…))`` or ``$[…]``."""

    x: Expression | None = None


class Operation(Node, tag="Expansion"):
    """``:-word``, ``##pattern``, ``@P`` … of a parameter."""

    op: str = ""
    word: WordNode | None = None


class Parameter(Node, tag="ParamExp"):
    """``$x`` if *short*, else ``${…}``; in arithmetic also ``x[…]``."""

    param: Literal | None = None
    short: bool = False
    excl: bool = False
    length: bool = False
    index: Expression | None = None
    slice: Expression | None = None
    repl: Expression | None = None
    names: str = ""
    exp: Operation | None = None

    @property
    def name(self) -> str:
        """The name of the parameter: ``x``, ``1``, ``@``."""
        return self.param.value if self.param else ""

    @property
    def is_plain(self) -> bool:
        """Whether it is only a name: ``$x`` or ``${x}``."""
        operators = self.length, self.index, self.slice, self.repl, self.names, self.exp
        return not (self.excl or any(operators))


class WordNode(Node, tag="Word"):
    """One word, before any expansion."""

    parts: tuple[Part, ...] = ()

    @property
    def literal(self) -> str | None:
        """The text of a word without quotes and expansions, else None."""
        first = self.parts[0] if len(self.parts) == 1 else None
        return first.value if isinstance(first, Literal) else None


class Assignment(Node, tag="Assign"):
    """``name=value``; a *naked* one is an operand of ``declare``, ``export`` …."""

    name: Literal | None = None
    value: WordNode | None = None
    append: bool = False
    naked: bool = False
    index: Expression | None = None
    array: Expression | None = None


class RedirectNode(Node, tag="Redirect"):
    """``<file``, ``2>&1``, ``<<E`` …; *n* is the descriptor or ``{name}``."""

    op: str = ""
    word: WordNode | None = None
    n: Literal | None = None
    hdoc: WordNode | None = None


class Statement(Node, tag="Stmt"):
    """One command with its redirections."""

    cmd: CommandNode | None = None
    redirs: tuple[RedirectNode, ...] = ()
    negated: bool = False
    background: bool = False


class CallNode(Node, tag="CallExpr"):
    """A simple command, or assignments alone."""

    assigns: tuple[Assignment, ...] = ()
    args: tuple[WordNode, ...] = ()


class Declaration(Node, tag="DeclClause", kw_only=True):
    """``declare``, ``local``, ``export``, ``readonly``, ``typeset`` or ``nameref``."""

    variant: Literal
    args: tuple[Assignment, ...] = ()


class ArithmeticCommand(Node, tag="ArithmCmd"):
    """``((…))``."""

    x: Expression | None = None


class TestCommand(Node, tag="TestClause"):
    """``[[ … ]]``."""

    x: Expression | None = None


class Block(Node, tag="Block"):
    """``{ …; }``."""

    stmts: tuple[Statement, ...] = ()


class Subshell(Node, tag="Subshell"):
    """``( … )``."""

    stmts: tuple[Statement, ...] = ()


class Binary(Node, tag="BinaryCmd", kw_only=True):
    """Two statements with ``&&``, ``||``, ``|`` or ``|&`` between them."""

    op: str
    x: Statement
    y: Statement


class If(Node, tag="IfClause"):
    """``if``, ``elif``, or ``else`` (without a condition)."""

    cond: tuple[Statement, ...] = ()
    then: tuple[Statement, ...] = ()
    else_: If | None = field(name="Else", default=None)


class While(Node, tag="WhileClause"):
    """``while`` or ``until``."""

    cond: tuple[Statement, ...] = ()
    do: tuple[Statement, ...] = ()
    until: bool = False


class WordLoop(Node, tag="WordIter", kw_only=True):
    """``name in words``; without *in_pos* the words are the positional parameters."""

    name: Literal
    items: tuple[WordNode, ...] = ()
    in_pos: TextOffset | None = None


class CounterLoop(Node, tag="CStyleLoop"):
    """``((init; cond; post))``."""

    init: Expression | None = None
    cond: Expression | None = None
    post: Expression | None = None


class For(Node, tag="ForClause", kw_only=True):
    """``for`` or ``select``."""

    loop: WordLoop | CounterLoop
    do: tuple[Statement, ...] = ()
    select: bool = False


class CaseItem(Node, tag="CaseItem"):
    """One branch; *op* is how it ends: ``;;``, ``;&`` or ``;;&``."""

    op: str = ""
    patterns: tuple[WordNode, ...] = ()
    stmts: tuple[Statement, ...] = ()


class Case(Node, tag="CaseClause", kw_only=True):
    """``case word in …``."""

    word: WordNode
    items: tuple[CaseItem, ...] = ()


class FunctionNode(Node, tag="FuncDecl", kw_only=True):
    """The definition of a function."""

    name: Literal
    body: Statement


class Time(Node, tag="TimeClause"):
    """``time``, with its statement."""

    stmt: Statement | None = None


class Coprocess(Node, tag="CoprocClause", kw_only=True):
    """``coproc``, with its statement, which runs beside the shell."""

    stmt: Statement


class Let(Node, tag="LetClause"):
    """``let`` with its expressions."""

    exprs: tuple[Expression, ...] = ()


class File(Node, tag="File"):
    """A whole text."""

    stmts: tuple[Statement, ...] = ()


_Clause: TypeAlias = Block | Subshell | Binary | If | While | For | Case | Time | Coprocess
CommandNode: TypeAlias = (
    CallNode | Declaration | ArithmeticCommand | Let | TestCommand | FunctionNode | _Clause
)
_Quoted: TypeAlias = SingleQuoted | DoubleQuoted
_Substituted: TypeAlias = Substitution | ProcessSubstitution | ArithmeticExpansion
Part: TypeAlias = Literal | _Quoted | Parameter | _Substituted | ExtendedGlob


class SyntaxRefusedError(ToolbusError):
    """A text cannot be parsed, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


def parse(text: str) -> File:
    """Return the tree of *text*, read as bash; plain words need no process.

    Raises:
        SyntaxRefusedError: The text is not valid bash or too large, or shfmt is missing.
    """
    if (
        len(text) <= MAX_BYTES
        and _PLAIN.fullmatch(text)
        and text.partition(" ")[0] not in _NOT_PLAIN
    ):
        return _plain_tree(text)
    answer = _run(_checked(text))
    if _CONTINUED_COMMENT.search(answer):
        raise SyntaxRefusedError("shfmt misreads a comment that ends with a backslash")
    try:
        return _decoder().decode(answer)
    except (DecodeError, RecursionError):
        raise SyntaxRefusedError("its syntax tree has an unknown form") from None


def _checked(text: str) -> bytes:
    """Return *text* in UTF-8, if shfmt reads it as bash does."""
    if "\0" in text or "\r" in text:
        raise SyntaxRefusedError("shells read a NUL or a carriage return differently")
    if _SPLIT_SIGN.search(text):
        raise SyntaxRefusedError("shfmt misreads a continued line inside an operator")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise SyntaxRefusedError("it is not valid Unicode") from None
    if len(data) > MAX_BYTES:
        raise SyntaxRefusedError(f"it is longer than {MAX_BYTES} bytes")
    return data


def _plain_tree(text: str) -> File:
    words = []
    for match in re.finditer("[^ ]+", text):
        start, end = TextOffset(match.start()), TextOffset(match.end())
        literal = Literal(value=match[0], pos=start, end=end)
        words.append(WordNode(parts=(literal,), pos=start, end=end))
    start, end = TextOffset(0), TextOffset(len(text))
    call = CallNode(args=tuple(words), pos=start, end=end)
    return File(stmts=(Statement(cmd=call, pos=start, end=end),), pos=start, end=end)


def _run(data: bytes) -> bytes:
    with subprocess.Popen(
        [find_shfmt(), "-ln=bash", "--to-json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={},
        process_group=0,
    ) as process:
        try:
            answer, complaint = process.communicate(data, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise SyntaxRefusedError("shfmt takes too long to parse it") from None
    if process.returncode:
        lines = complaint.decode(errors="replace").splitlines()
        reason = lines[0].removeprefix("<standard input>:")
        raise SyntaxRefusedError(f"it is not valid bash: {reason}")
    return answer


@cache
def find_shfmt() -> str:
    """Return the path of shfmt; raises `SyntaxRefusedError` if it is not installed."""
    # Not from PATH, which the environment controls: this program decides what is allowed.
    # Slow to import, and most commands are plain.
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        package = distribution("shfmt-py")
    except PackageNotFoundError:
        reason = needs_extra("commands are parsed by shfmt, which is not installed", "policy")
        raise SyntaxRefusedError(reason) from None
    for file in package.files or ():
        if file.stem == "shfmt" and file.parent.name in {"bin", "Scripts"}:
            return str(Path(str(package.locate_file(file))).resolve())
    raise SyntaxRefusedError("shfmt is missing; `pip install --force-reinstall shfmt-py`")


@cache
def _decoder() -> Decoder[File]:
    return Decoder(File)
