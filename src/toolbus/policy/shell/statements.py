"""The walk through lists, pipes, loops and branches, down to single commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.policy.commands import Redirection, Word
from toolbus.policy.shell.arithmetic import check_arithmetic, check_test
from toolbus.policy.shell.assignments import declare, read_call
from toolbus.policy.shell.loops import read_for, read_while
from toolbus.policy.shell.printed import printed_by, stdin_of
from toolbus.policy.shell.runs import Run, run_nothing
from toolbus.policy.shell.shell_state import UNKNOWN
from toolbus.policy.shell.tree import (
    ArithmeticCommand,
    Binary,
    Block,
    CallNode,
    Case,
    Coprocess,
    Declaration,
    For,
    FunctionNode,
    If,
    Let,
    Literal,
    Statement,
    Subshell,
    TestCommand,
    Time,
    While,
)
from toolbus.policy.shell.words import WordExpander

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.tree import CommandNode, RedirectNode
    from toolbus.policy.shell.walk import ShellScope, TextWalk

_NOWHERE = Word("/dev/null")


def read_list(
    statements: tuple[Statement, ...], walk: TextWalk, state: ShellState, scope: ShellScope
) -> None:
    """Read *statements*, which run one after the other; *state* becomes the one behind them."""
    with walk.deeper():
        background, folder, failed = None, state.folder, state.failed
        for statement in statements:
            if statement.background and background is None:
                background = len(walk.commands)
            failure = _read(statement, walk, state, scope)
            if failure is not state:
                state.merge(failure)
            state.failed = failed if state.folder == folder else None
        if background is not None:
            walk.unsettle(background)


def _read(statement: Statement, walk: TextWalk, state: ShellState, scope: ShellScope) -> ShellState:
    """Read one statement; *state* becomes what holds if it succeeds; return it for a failure."""
    if statement.background:
        scope = replace(scope, stdin=None, piped=False)
        _read(replace(statement, background=False), walk, state.copy(), scope)
        return state
    place = len(walk.commands)
    expander = WordExpander(walk, state, scope)
    redirections = _redirections(statement.redirs, expander)
    stdin = stdin_of(statement, expander)
    command = statement.cmd
    run = Run(
        source=walk.source(statement),
        redirections=redirections,
        stdin=stdin,
        has_stdin=any(_is_stdin(redirect) for redirect in statement.redirs),
        place=place,
        scope=scope,
    )
    # Where a file can't be opened, the command is not run.
    fallible = any(redirection.target != _NOWHERE for redirection in redirections)
    before = state.copy() if fallible else state
    if isinstance(command, CallNode):
        failure = read_call(command, run, walk, state)
    elif isinstance(command, Declaration):
        failure = declare(command, run, walk, state)
    elif command is None:
        failure = run_nothing(run, walk, state)
    else:
        failure = _read_compound(command, run, walk, state)
        if redirections and len(walk.commands) == place:
            run_nothing(run, walk, state)
    if fallible:
        failure = state.copy() if failure is state else failure
        failure.merge(before)
    if statement.negated and failure is not state:
        succeeded = state.copy()
        state.become(failure)
        return succeeded
    return failure


def _read_compound(command: CommandNode, run: Run, walk: TextWalk, state: ShellState) -> ShellState:
    scope = run.inner_scope()
    match command:
        case Binary(op="&&" | "||"):
            return _read_conditional(command, walk, state, scope)
        case Time(stmt=stmt):
            return _read(stmt, walk, state, scope) if stmt else state
        case FunctionNode():
            # What stands behind its body and an operator, bash runs at once.
            if not isinstance(command.body.cmd, _COMPOUND):
                walk.refuse(command, "a function whose end shfmt misreads")
            walk.define(command, state)
        case ArithmeticCommand() | TestCommand() | Let():
            _read_computation(command, WordExpander(walk, state, scope))
        case Coprocess():
            _read_coprocess(command, walk, state, scope)
        case _:
            _READERS[type(command)](command, walk, state, scope)
    return state


def _read_coprocess(
    command: Coprocess, walk: TextWalk, state: ShellState, scope: ShellScope
) -> None:
    place = len(walk.commands)
    if scope.inside or not isinstance(command.stmt.cmd, _COMPOUND):
        walk.refuse(command, "a coprocess whose name or words shfmt misreads")
    _read(command.stmt, walk, state.copy(), replace(scope, piped=True).through("coproc"))
    walk.unsettle(place)
    name = command.name.parts[0] if command.name else None
    state.assign(name.value if isinstance(name, Literal) else "COPROC", UNKNOWN)


def _read_block(command: Block, walk: TextWalk, state: ShellState, scope: ShellScope) -> None:
    read_list(command.stmts, walk, state, scope)


def _read_subshell(command: Subshell, walk: TextWalk, state: ShellState, scope: ShellScope) -> None:
    read_list(command.stmts, walk, state.copy(), scope)


def _read_computation(command: CommandNode, expander: WordExpander) -> None:
    if isinstance(command, ArithmeticCommand):
        check_arithmetic(command.x, expander)
    elif isinstance(command, TestCommand):
        check_test(command.x, expander)
    elif isinstance(command, Let):
        for expression in command.exprs:
            check_arithmetic(expression, expander)


def _read_conditional(
    command: Binary, walk: TextWalk, state: ShellState, scope: ShellScope
) -> ShellState:
    failure = _read(command.x, walk, state, scope)
    if failure is state:
        failure = state.copy()
    if command.op == "&&":
        second = _read(command.y, walk, state, scope)
        failure.merge(second)
        return failure
    second = _read(command.y, walk, failure, scope)
    state.merge(failure)
    return second


def _read_pipe(command: Binary, walk: TextWalk, state: ShellState, scope: ShellScope) -> None:
    place = len(walk.commands)
    printed = printed_by((command.x,), WordExpander(walk, state, scope))
    _read(command.x, walk, state.copy(), scope)
    after = state.copy()
    inner = replace(scope, piped=True, stdin=printed, redirections=scope.redirections)
    _read(command.y, walk, after, inner)
    walk.unsettle(place)
    # Some shells run the last part of a pipe themselves: then it changes what they know.
    state.merge(after)


def _read_if(command: If, walk: TextWalk, state: ShellState, scope: ShellScope) -> None:
    read_list(command.cond, walk, state, scope)
    otherwise = state.copy()
    read_list(command.then, walk, state, scope)
    if command.else_ is not None:
        _read_if(command.else_, walk, otherwise, scope)
    state.merge(otherwise)


def _read_case(command: Case, walk: TextWalk, state: ShellState, scope: ShellScope) -> None:
    expander = WordExpander(walk, state, scope)
    expander.single(command.word)
    ends: list[ShellState] = []
    falls: ShellState | None = None
    for item in command.items:
        for pattern in item.patterns:
            expander.single(pattern)
        branch = state.copy()
        if falls is not None:
            branch.merge(falls)
        read_list(item.stmts, walk, branch, scope)
        ends.append(branch)
        falls = branch if item.op in {";&", ";;&"} else None
    for end in ends:
        state.merge(end)


def _redirections(
    redirects: tuple[RedirectNode, ...], expander: WordExpander
) -> tuple[Redirection, ...]:
    made = []
    for redirect in redirects:
        if redirect.op.startswith("<<") or redirect.word is None:
            continue
        words = expander.words((redirect.word,))
        target = (
            words[0] if len(words) == 1 else Word(expander.walk.source(redirect.word), known=False)
        )
        if redirect.op in {">&", "<&"} and re.match(
            "-.", expander.walk.source(redirect.word), re.DOTALL
        ):
            expander.walk.refuse(redirect, "a closed file for bash, which begins a word behind it")
        duplicates = redirect.op in {">&", "<&"} and target.known
        if duplicates and (target.text.rstrip("-").isdigit() or target.text == "-"):
            continue
        made.append(Redirection(redirect.op, target))
        if redirect.n is not None and redirect.n.value.startswith("{"):
            expander.state.assign(redirect.n.value.strip("{}"), UNKNOWN)
    return tuple(made)


def _is_stdin(redirect: RedirectNode) -> bool:
    number = redirect.n.value if redirect.n else "0"
    return redirect.op.startswith("<") and redirect.op != "<>" and number == "0"


_COMPOUND = (Block, Subshell, If, While, For, Case, ArithmeticCommand, TestCommand)
_READERS: dict[type[CommandNode], Callable[[Any, TextWalk, ShellState, ShellScope], None]] = {
    Binary: _read_pipe,
    Block: _read_block,
    Case: _read_case,
    For: read_for,
    If: _read_if,
    Subshell: _read_subshell,
    While: read_while,
}
