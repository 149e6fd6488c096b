"""The interpretation of lists, pipes, loops and branches, down to single commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Redirection, Word
from toolbus.policy.shell.arithmetic import is_number
from toolbus.policy.shell.builtins import assign, declare
from toolbus.policy.shell.state import NUMBER, SPECIAL_BUILTINS, UNKNOWN, ProgramStart
from toolbus.policy.shell.syntax import (
    ArithmeticCommand,
    Binary,
    Block,
    CallNode,
    Case,
    Coprocess,
    CounterLoop,
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

if TYPE_CHECKING:
    from toolbus.policy.shell.interpreter import Interpreter
    from toolbus.policy.shell.state import ShellState
    from toolbus.policy.shell.syntax import CommandNode, Node, RedirectNode, WordLoop, WordNode

# With more items, the loop variable counts as unknown, which is true for each of them.
_MAX_ITEMS = 12
_COMPUTED = re.compile(r"(?:\b\w+=\$)?\(\(.*?\)\)")
_MOVES = re.compile(r"\b(?:cd|pushd|popd|eval)\b")
_NOWHERE = Word("/dev/null")
_KNOWN_OUTPUTS = frozenset({"1", "2", _NOWHERE.text})
_COMPOUND = (Block, Subshell, If, While, For, Case, ArithmeticCommand, TestCommand)


class StatementReader:
    """Interprets the statements of the text of *shell*."""

    def __init__(self, shell: Interpreter) -> None:
        self._shell = shell

    def read_list(self, statements: tuple[Statement, ...]) -> None:
        """Interpret *statements* in sequence."""
        shell, state = self._shell, self._shell.state
        with shell.deeper():
            background, folder, failed = None, state.folder, state.failed
            for statement in statements:
                if statement.background and background is None:
                    background = len(shell.commands)
                failure = self.read(statement)
                if failure is not state:
                    state.merge(failure)
                state.failed = failed if state.folder == folder else None
            if background is not None:
                shell.mark_unstable(background)

    def read(self, statement: Statement) -> ShellState:
        """Interpret one statement; return the state after its failure."""
        shell, state = self._shell, self._shell.state
        if statement.background:
            # Inside of a group bash leaves it the input, dash does not.
            scope = replace(shell.scope, stdin=None, piped=False, rewired=_may_have_input(shell))
            with shell.using(state=state.copy(), scope=scope):
                self.read(replace(statement, background=False))
            return state
        place = len(shell.commands)
        redirections = self._redirections(statement.redirs)
        stdin = _stdin_of(statement, shell)
        run = ProgramStart(
            source=shell.source(statement),
            redirections=redirections,
            stdin=stdin,
            has_stdin=any(_is_stdin(redirect) for redirect in statement.redirs),
            redirected=bool(statement.redirs),
            rewired=any(_rewires(each, stdin, shell) for each in statement.redirs),
            place=place,
        )
        # If a file cannot be opened, the command does not run.
        fallible = any(redirection.target != _NOWHERE for redirection in redirections)
        before = state.copy() if fallible else state
        with shell.using(run=run):
            failure = self._read_command(statement.cmd)
        if fallible:
            failure = state.copy() if failure is state else failure
            failure.merge(before)
        if statement.negated and failure is not state:
            succeeded = state.copy()
            state.replace_with(failure)
            return succeeded
        return failure

    def _read_command(self, command: CommandNode | None) -> ShellState:
        shell = self._shell
        if isinstance(command, CallNode):
            return _read_call(command, shell)
        if isinstance(command, Declaration):
            return declare(command, shell)
        if command is None:
            return shell.run_nothing()
        with shell.using(scope=shell.inner_scope()):
            failure = self._read_compound(command)
        if shell.run.redirections and len(shell.commands) == shell.run.place:
            shell.run_nothing()
        return failure

    def _read_compound(self, command: CommandNode) -> ShellState:
        match command:
            case Binary(op="&&" | "||"):
                return self._read_conditional(command)
            case Time(stmt=stmt) if stmt is not None:
                return self.read(stmt)
            case Binary():
                self._read_pipe(command)
            case If():
                self._read_if(command)
            case Case():
                self._read_case(command)
            case For():
                _read_for(command, self._shell)
            case While():
                _read_while(command, self._shell)
            case _:
                self._read_simple(command)
        return self._shell.state

    def _read_simple(self, command: CommandNode) -> None:
        """Interpret a compound command with a single path through it."""
        shell = self._shell
        match command:
            case Block():
                self.read_list(command.stmts)
            case Subshell():
                with shell.subshell():
                    self.read_list(command.stmts)
            case FunctionNode():
                # Bash runs text after the body and an operator at once.
                if not isinstance(command.body.cmd, _COMPOUND):
                    shell.refuse("shfmt misreads the end of this function", command)
                shell.define(command)
            case Coprocess(stmt=stmt):
                place = len(shell.commands)
                shell.refuse("shfmt may misread the name or words of this coprocess", command)
                with shell.subshell("coproc"):
                    self.read(stmt)
                shell.mark_unstable(place)
            case ArithmeticCommand():
                shell.words.arithmetic.check(command.x)
            case Let():
                shell.refuse("shfmt may misread the words of let", command)
                for expression in command.exprs:
                    shell.words.arithmetic.check(expression)
            case TestCommand():
                shell.words.arithmetic.check_test(command.x)

    def _read_conditional(self, command: Binary) -> ShellState:
        shell, state = self._shell, self._shell.state
        failure = self.read(command.x)
        if failure is state:
            failure = state.copy()
        if command.op == "&&":
            failure.merge(self.read(command.y))
            return failure
        with shell.using(state=failure):
            second = self.read(command.y)
        state.merge(failure)
        return second

    def _read_pipe(self, command: Binary) -> None:
        shell = self._shell
        place = len(shell.commands)
        with shell.subshell():
            self.read(command.x)
        after = shell.state.copy()
        scope = replace(shell.scope, piped=True, stdin=None)
        with shell.using(state=after, scope=scope):
            self.read(command.y)
        shell.mark_unstable(place)
        # Some shells run the last part of a pipe themselves, which changes their state.
        shell.state.merge(after)

    def _read_if(self, command: If) -> None:
        shell = self._shell
        self.read_list(command.cond)
        otherwise = shell.state.copy()
        self.read_list(command.then)
        if command.else_ is not None:
            with shell.using(state=otherwise):
                self._read_if(command.else_)
        shell.state.merge(otherwise)

    def _read_case(self, command: Case) -> None:
        shell = self._shell
        shell.words.single(command.word)
        ends: list[ShellState] = []
        falls: ShellState | None = None
        for item in command.items:
            for pattern in item.patterns:
                shell.words.single(pattern)
            branch = shell.state.copy()
            if falls is not None:
                branch.merge(falls)
            with shell.using(state=branch):
                self.read_list(item.stmts)
            ends.append(branch)
            falls = branch if item.op in {";&", ";;&"} else None
        for end in ends:
            shell.state.merge(end)

    def _redirections(self, redirects: tuple[RedirectNode, ...]) -> tuple[Redirection, ...]:
        made = []
        for redirect in redirects:
            if redirect.op.startswith("<<") or redirect.word is None:
                continue
            target = self._target(redirect, redirect.word)
            if target is None:
                continue
            made.append(Redirection(redirect.op, target))
            if redirect.n is not None and redirect.n.value.startswith("{"):
                self._shell.state.assign(redirect.n.value.strip("{}"), UNKNOWN)
        return tuple(made)

    def _target(self, redirect: RedirectNode, node: WordNode) -> Word | None:
        """Return the file that *redirect* opens, None if it copies or closes a descriptor."""
        shell = self._shell
        words, source = shell.words.expand((node,)), shell.source(node)
        target = words[0] if len(words) == 1 else Word(source, known=False)
        if redirect.op not in {">&", "<&"}:
            return target
        if re.match("-.", source, re.DOTALL):
            shell.refuse("bash closes the descriptor and reads the rest as a word", redirect)
        is_number = target.text == "-" or target.text.rstrip("-").isdigit()
        return None if target.known and is_number else target


def _stdin_of(statement: Statement, shell: Interpreter) -> str | None:
    """Return the text of the last here-document or here-string of *statement*."""
    text = None
    for redirect in statement.redirs:
        document = _given_text(redirect, shell)
        is_input = redirect.n is None or redirect.n.value == "0"
        if is_input and redirect.op.startswith("<"):
            text = document
    return text


def _given_text(redirect: RedirectNode, shell: Interpreter) -> str | None:
    """Return the inline text of *redirect*, None for a file or an unknown text."""
    if redirect.op == "<<<":
        word = shell.words.single(redirect.word)
        return word.text + "\n" if word.known and not word.pattern else None
    if redirect.op not in {"<<", "<<-"}:
        return None
    delimiter = redirect.word.parts if redirect.word else ()
    verbatim = not all(isinstance(part, Literal) and "\\" not in part.value for part in delimiter)
    indented = redirect.op == "<<-"
    return shell.words.document(redirect.hdoc, verbatim=verbatim, indented=indented)


def _is_stdin(redirect: RedirectNode) -> bool:
    number = redirect.n.value if redirect.n else "0"
    return redirect.op.startswith("<") and redirect.op != "<>" and number == "0"


def _rewires(redirect: RedirectNode, stdin: str | None, shell: Interpreter) -> bool:
    """Return whether *redirect* may connect the command with a file that it does not name.

    *stdin* is the input of the statement, None if its text is unknown.
    """
    number = redirect.n.value if redirect.n else ""
    if redirect.op.startswith("<<"):
        return number not in {"", "0"} or stdin is None
    if redirect.op == ">&" and redirect.word is not None:
        return number not in {"", "1", "2"} or shell.source(redirect.word) not in _KNOWN_OUTPUTS
    return redirect.op == "<&" or number not in {"", "0", "1", "2"}


def _may_have_input(shell: Interpreter) -> bool:
    scope = shell.scope
    return scope.rewired or scope.piped or scope.stdin is not None


def _read_call(call: CallNode, shell: Interpreter) -> ShellState:
    """Interpret a simple command; return the state after its failure."""
    words = tuple(shell.words.expand(call.args))
    if not words:
        for assignment in call.assigns:
            assign(assignment, shell)
        return shell.run_nothing()
    if not call.assigns:
        return shell.run_words(words)
    state = shell.state
    inner = state.copy()
    with shell.using(state=inner):
        settings = tuple([assign(assignment, shell) for assignment in call.assigns])
    run, name = replace(shell.run, settings=settings), words[0].text
    if name not in SPECIAL_BUILTINS and name not in state.functions:
        with shell.using(run=run):
            return shell.run_words(words)
    with shell.using(run=run, state=inner):
        failure = shell.run_words(words)
    for setting, _ in settings:
        inner.assign(setting, UNKNOWN)
        failure.assign(setting, UNKNOWN)
    if failure is inner:
        failure = state
    state.replace_with(inner)
    return failure


def _read_while(command: While, shell: Interpreter) -> None:
    """Interpret a ``while`` or an ``until``."""
    place = len(shell.commands)
    entry = _begin_loop(command, shell)
    shell.statements.read_list(command.cond)
    _read_body(command, entry, shell)
    shell.mark_unstable(place, itself=True)


def _read_for(command: For, shell: Interpreter) -> None:
    """Interpret a ``for`` or a ``select``."""
    place, loop = len(shell.commands), command.loop
    if isinstance(loop, CounterLoop):
        shell.words.arithmetic.check(loop.init)
        entry = _begin_loop(command, shell)
        shell.words.arithmetic.check(loop.cond)
        shell.words.arithmetic.check(loop.post)
        _read_body(command, entry, shell)
    else:
        items = _loop_items(loop, shell)
        if command.select or items is None or len(items) > _MAX_ITEMS:
            entry = _begin_loop(command, shell)
            _read_body(command, entry, shell, loop.name.value)
        else:
            for word in items:
                shell.state.assign(loop.name.value, word)
                shell.statements.read_list(command.do)
    shell.mark_unstable(place, itself=True)


def _loop_items(loop: WordLoop, shell: Interpreter) -> tuple[Word, ...] | None:
    if loop.in_pos is None:
        return shell.state.positional
    words = shell.words.expand(loop.items)
    return None if any(not word.known for word in words) else tuple(words)


def _read_body(
    command: For | While, entry: ShellState, shell: Interpreter, variable: str = ""
) -> None:
    """Interpret the body once for all iterations, with an unknown loop *variable*."""
    with shell.subshell():
        inside = shell.state
        if variable:
            inside.assign(variable, UNKNOWN)
        shell.statements.read_list(command.do)
    changed = any(inside.variables.get(name) != value for name, value in entry.variables.items())
    if (
        changed
        or inside.folder != entry.folder
        or inside.functions.keys() != entry.functions.keys()
    ):
        shell.refuse("a loop whose later iterations may have another meaning", command)
    shell.state.merge(inside)


def _begin_loop(command: Node, shell: Interpreter) -> ShellState:
    """Mark everything that an earlier iteration may have changed as unknown; return a copy."""
    source, state = shell.source(command), shell.state
    plain = _COMPUTED.sub("", source)
    for name, value in state.variables.items():
        mentioned = re.compile(rf"(?<![\w${{]){name}\b")
        if state.functions or mentioned.search(plain):
            state.variables[name] = UNKNOWN
        elif mentioned.search(source):
            state.variables[name] = NUMBER if is_number(value) else UNKNOWN
    if state.functions or _MOVES.search(source):
        state.folder, state.failed, state.assumed = None, None, ()
    return state.copy()
