"""The nodes of shfmt's syntax tree for bash, as its `--to-json` writes them.

Source: the documentation of ``mvdan.cc/sh/v3/syntax``. Positions of single signs and comments are
passed over; any other field that is not here makes a text unreadable (see `syntax`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

# Of arithmetic, tests, slices and replacements nobody asks for more than the words in them.
Expression: TypeAlias = dict[str, Any]


class TextOffset(Struct):
    """A place in the text; *offset* counts bytes of UTF-8."""

    offset: int = field(name="Offset", default=0)


class Node(Struct, rename="pascal", tag_field="Type"):
    """What all nodes have: where they begin and end."""

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
    """``@(…)``, ``!(…)`` …; what stands in it is not parsed."""

    op: str = ""
    pattern: Literal | None = None


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
        """Whether there is no more than the name: ``$x`` or ``${x}``."""
        operators = self.length, self.index, self.slice, self.repl, self.names, self.exp
        return not (self.excl or any(operators))


class WordNode(Node, tag="Word"):
    """One word, before any expansion."""

    parts: tuple[Part, ...] = ()

    @property
    def literal(self) -> str | None:
        """The text of a word without quotes and expansions, None of any other."""
        first = self.parts[0] if len(self.parts) == 1 else None
        return first.value if isinstance(first, Literal) else None


class ArrayElement(Node, tag="ArrayElem"):
    """One element of ``(…)``."""

    index: Expression | None = None
    value: WordNode | None = None


class ArrayNode(Node, tag="ArrayExpr"):
    """``(…)`` behind ``name=``."""

    elems: tuple[ArrayElement, ...] = ()


class Assignment(Node, tag="Assign"):
    """``name=value``; a *naked* one is an operand of ``declare``, ``export`` …."""

    name: Literal | None = None
    value: WordNode | None = None
    append: bool = False
    naked: bool = False
    index: Expression | None = None
    array: ArrayNode | None = None


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

    @property
    def call(self) -> CallNode | None:
        """The command, if it is a simple one that sets no variable and is waited for."""
        is_call = isinstance(self.cmd, CallNode) and not (self.cmd.assigns or self.background)
        return self.cmd if isinstance(self.cmd, CallNode) and is_call else None


class CallNode(Node, tag="CallExpr"):
    """A simple command, or assignments alone."""

    assigns: tuple[Assignment, ...] = ()
    args: tuple[WordNode, ...] = ()


class Declaration(Node, tag="DeclClause", kw_only=True):
    """``declare``, ``local``, ``export``, ``readonly``, ``typeset`` or ``nameref``."""

    variant: Literal
    args: tuple[Assignment, ...] = ()


class Let(Node, tag="LetClause"):
    """``let`` with its expressions."""

    exprs: tuple[Expression, ...] = ()


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
    """``time``, with the statement that it measures."""

    stmt: Statement | None = None


class Coprocess(Node, tag="CoprocClause", kw_only=True):
    """``coproc``."""

    stmt: Statement
    name: WordNode | None = None


class File(Node, tag="File"):
    """A whole text."""

    stmts: tuple[Statement, ...] = ()
    name: str = ""


_Clause: TypeAlias = Let | Block | Subshell | Binary | If | While | For | Case | Time | Coprocess
CommandNode: TypeAlias = (
    CallNode | Declaration | ArithmeticCommand | TestCommand | FunctionNode | _Clause
)
_Quoted: TypeAlias = SingleQuoted | DoubleQuoted
_Substituted: TypeAlias = Substitution | ProcessSubstitution | ArithmeticExpansion
Part: TypeAlias = Literal | _Quoted | Parameter | _Substituted | ExtendedGlob
