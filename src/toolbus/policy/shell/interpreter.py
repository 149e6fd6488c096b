"""The abstract interpreter of shell texts: `Interpreter`, with its state and results."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Command, Unreadable, Word
from toolbus.policy.programs.program_files import shipped_programs
from toolbus.policy.shell.builtins import read_builtin
from toolbus.policy.shell.state import (
    RUN_BY_SHELL,
    SPECIAL_BUILTINS,
    UNKNOWN,
    FunctionDefinition,
    ProgramStart,
    ShellScope,
    ShellState,
)
from toolbus.policy.shell.statements import StatementReader
from toolbus.policy.shell.syntax import SyntaxRefusedError, parse
from toolbus.policy.shell.words import WordExpander
from toolbus.policy.shell.wrapped_programs import SHELLS, read_shell, read_wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.shell.syntax import FunctionNode, Node

# A person's text has a few dozen commands; nested function calls could produce thousands.
MAX_COMMANDS = 1000
MAX_DEPTH = 40
# Commands that keep paths stable: they create no link and rename nothing.
_KEEPS_PATHS = frozenset(
    """: [ basename bg cat cd cmp column command comm curl cut date declare df diff dirname dirs
    du echo egrep env exit export expr false fg fgrep file fold getopts grep head hostname id
    jobs join jq kill less local ls md5sum mkdir more nl nproc paste popd printenv printf ps
    pushd pwd read readlink readonly realpath return rg seq set sha1sum sha256sum shift shopt
    sleep sort stat tail tee test times touch tr tree trap true tty type typeset umask uname
    uniq unset wait wc whereis which who whoami yq break
    continue eval getopts hash help history let mapfile readarray shift ulimit""".split()
)
# Subcommands of git that change neither files of the working tree nor links.
_GIT_KEEPS_PATHS = frozenset(
    """add blame branch commit describe diff fetch grep log ls-files ls-remote ls-tree push
    remote reflog rev-list rev-parse shortlog show status tag""".split()
)
# Commands run by find are judged separately.
_FIND_ACTIONS = ("-delete", "-fprint", "-fls")
RUN_BY_SHELL_REASON = "it sets a variable whose value the shell runs"


class TooMuchError(Exception):
    """The text is too deep or runs too many commands."""


class Interpreter:
    """Interprets a text, and texts inside its strings, as bash would run them.

    At each point *state* is the knowledge of the shell, *scope* the enclosing context, and *run*
    the program being started. Results are collected in *commands* and *unreadable*. For commands
    that may fail, readers return the state after failure and leave the state after success in
    *state*; without a difference both are the same object.
    """

    def __init__(self, text: str, state: ShellState, programs: Programs | None = None) -> None:
        self.data, self.programs = text.encode(), programs
        self.state: ShellState = state
        self.scope, self.run = ShellScope(), ProgramStart("", 0)
        self.words, self.statements = WordExpander(self), StatementReader(self)
        self.commands: list[Command] = []
        self.unreadable: list[Unreadable] = []
        self.uncalled: dict[int, FunctionDefinition] = {}
        """The functions that have not been called, by the identity of their node."""
        self.is_rewired = False
        """Whether an `exec` may have opened files for the commands of the shell itself."""
        self._changing: list[bool] = []
        """For each command, whether it may change the targets of paths."""
        self._depth = 0

    @contextmanager
    def using(
        self,
        *,
        state: ShellState | None = None,
        scope: ShellScope | None = None,
        run: ProgramStart | None = None,
    ) -> Iterator[None]:
        """Use another *state*, *scope* or *run* inside the block."""
        before = self.state, self.scope, self.run
        self.state, self.scope, self.run = state or before[0], scope or before[1], run or before[2]
        try:
            yield
        finally:
            self.state, self.scope, self.run = before

    @contextmanager
    def subshell(self, wrapper: str = "") -> Iterator[None]:
        """Interpret a subshell, inside of *wrapper*, whose changes do not affect this shell."""
        scope = self.scope.through(wrapper) if wrapper else self.scope
        with self.using(state=self.state.copy(), scope=scope):
            yield

    @contextmanager
    def wrapped(self, wrapper: str, **changes: Any) -> Iterator[None]:
        """Interpret a program run by *wrapper*; *changes* override fields of its run."""
        run = replace(self.run, place=len(self.commands), functions=False, shell=False)
        with self.using(scope=self.scope.through(wrapper), run=replace(run, **changes)):
            yield

    @contextmanager
    def nested(self, data: bytes) -> Iterator[None]:
        """Interpret the nodes of another text, *data* in UTF-8, inside the block."""
        outer, self.data = self.data, data
        try:
            yield
        finally:
            self.data = outer

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Add one level of nesting inside the block."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooMuchError
        try:
            yield
        finally:
            self._depth -= 1

    def inner_scope(self) -> ShellScope:
        """Return the scope inside a compound command or a function."""
        run, scope = self.run, self.scope
        return replace(
            scope,
            redirections=(*scope.redirections, *run.redirections),
            stdin=run.stdin if run.has_stdin else scope.stdin,
            piped=scope.piped and not run.has_stdin,
            rewired=scope.rewired or run.rewired,
        )

    def source(self, node: Node) -> str:
        """Return the source text of *node*."""
        return self.data[node.pos.offset : node.end.offset].decode(errors="replace")

    def refuse(self, reason: str, part: Node | str | None = None) -> None:
        """Mark *part*, by default the program being started, as unreadable."""
        source = part if isinstance(part, str) else self.source(part) if part else self.run.source
        entry = Unreadable(source, reason)
        if entry not in self.unreadable[-8:]:
            self.unreadable.append(entry)
        if len(self.unreadable) >= MAX_COMMANDS:
            raise TooMuchError

    def mark_unstable(self, start: int, *, itself: bool = False) -> None:
        """Mark paths as unstable for the commands from *start*, which run in parallel or in a loop.

        With *itself*, a command may change the paths of its own next iteration.
        """
        changers = [i for i in range(start, len(self._changing)) if self._changing[i]]
        for index in range(start, len(self.commands)):
            if changers and (itself or changers != [index]):
                self.commands[index] = replace(self.commands[index], paths_stable=False)

    def define(self, node: FunctionNode) -> None:
        """Store the definition of a function."""
        definition = FunctionDefinition(node, self.data)
        if node.name.value in SPECIAL_BUILTINS:
            self.refuse("a function with the name of a builtin that POSIX calls instead", node)
        self.uncalled.setdefault(id(node), definition)
        self.state.functions[node.name.value] = definition

    def read_text(self, text: str, source: str) -> None:
        """Interpret *text* as commands of this shell; *source* is the enclosing source text."""
        with self.deeper():
            try:
                tree = parse(text)
            except SyntaxRefusedError as error:
                self.refuse(str(error), source)
                return
            with self.nested(text.encode()):
                self.statements.read_list(tree.stmts)

    def read_uncalled(self) -> None:
        """Interpret functions without a call: a persistent shell may call them later."""
        while self.uncalled:
            definition = self.uncalled.pop(next(iter(self.uncalled)))
            name = definition.node.name.value
            scope = replace(ShellScope().through(f"{name}()"), calls=(name,))
            with (
                self.nested(definition.data),
                self.using(scope=scope, state=ShellState(folder=None)),
            ):
                self.statements.read_list((definition.node.body,))

    def all_commands(self) -> tuple[Command, ...]:
        """Return the commands; an `exec` that opens files counts for all, as loops run again."""
        if self.is_rewired:
            return tuple([replace(each, rewired=True) for each in self.commands])
        return tuple(self.commands)

    def run_words(self, words: tuple[Word, ...]) -> ShellState:
        """Interpret a command of *words*: a function, a builtin, a wrapper or a program."""
        program = words[0]
        if not program.known or program.pattern or program.several:
            self.refuse("the program is known only at run time")
            self.add_command(words)
            return self.state
        name = program.text
        if self.run.functions and name in self.state.functions:
            definition = self.state.functions[name]
            if definition is not None:
                return self._call(definition, words[1:])
            self.refuse("the function has several possible definitions")
        self.add_command(words)
        with self.deeper():
            return self._read_inside(name, words[1:])

    def run_nothing(self) -> ShellState:
        """Add a command without a program, which sets variables or opens files."""
        self.add_command((Word(""),))
        return self.state

    def add_command(self, words: tuple[Word, ...]) -> None:
        """Add the command of *words*, beginning with its program."""
        scope, state = self.inner_scope(), self.state
        settings = tuple(state.variables.items())
        settings += self.run.settings
        if any(name in RUN_BY_SHELL or name.startswith("BASH_FUNC_") for name, _ in settings):
            self.refuse(RUN_BY_SHELL_REASON)
        if len(self.commands) >= MAX_COMMANDS:
            raise TooMuchError
        command = Command(
            program=words[0],
            words=words[1:],
            settings=(*scope.settings, *settings),
            redirections=scope.redirections,
            stdin=scope.stdin,
            piped=scope.piped,
            rewired=scope.rewired,
            folder=state.folder,
            assumed=state.assumed,
            paths_stable=not any(self._changing),
            inside=scope.inside,
            source=self.run.source,
        )
        self.is_rewired |= words[0].text == "exec" and self.run.redirected
        self.commands.insert(self.run.place, command)
        self._changing.insert(self.run.place, _may_move_paths(command))

    def _read_inside(self, name: str, words: tuple[Word, ...]) -> ShellState:
        """Interpret the commands run by an added command."""
        if self.run.shell:
            failure = read_builtin(name, words, self)
            if failure is not None:
                return failure
        plain = name.rpartition("/")[2]
        if plain in SHELLS:
            read_shell(plain, words, self)
        else:
            read_wrapped(plain, words, self)
        return self.state

    def _call(self, definition: FunctionDefinition, words: tuple[Word, ...]) -> ShellState:
        state, name = self.state, definition.node.name.value
        self.uncalled.pop(id(definition.node), None)
        if name in self.scope.calls:
            self.refuse("the function calls itself")
            return state
        before, positional = dict(state.variables), state.positional
        state.positional = None if any(word.several for word in words) else words
        for setting, _ in self.run.settings:
            state.assign(setting, UNKNOWN)
        scope = self.inner_scope().through(f"{name}()")
        scope = replace(scope, calls=(*scope.calls, name))
        with self.nested(definition.data), self.using(scope=scope):
            self.statements.read_list((definition.node.body,))
        state.positional = positional
        # Tracking the function's local variables is not worth the effort.
        for variable, value in state.variables.items():
            if before.get(variable) != value:
                state.variables[variable] = UNKNOWN
        return state


def _may_move_paths(command: Command) -> bool:
    """Return whether *command* may change the targets of paths for later commands."""
    program = command.program
    place, _, name = program.text.rpartition("/")
    if not program.text:
        return False  # It only sets variables or opens files.
    if not program.known or program.pattern or place not in {"", "/bin", "/usr/bin"}:
        return True
    if name in _BY_WORDS:
        return _BY_WORDS[name](command.words)
    return name not in _KEEPS_PATHS and name not in SHELLS and not _only_wraps(name)


def _changes_found(words: tuple[Word, ...]) -> bool:
    return any(not word.known or word.text.startswith(_FIND_ACTIONS) for word in words)


def _changes_tree(words: tuple[Word, ...]) -> bool:
    return not words or words[0].text not in _GIT_KEEPS_PATHS


def _edits(words: tuple[Word, ...]) -> bool:
    return any(word.text.startswith(("-i", "--in-place")) for word in words)


# Programs for which the words decide.
_BY_WORDS: dict[str, Callable[[tuple[Word, ...]], bool]] = {
    "fd": _changes_found,
    "find": _changes_found,
    "git": _changes_tree,
    "sed": _edits,
}


def _only_wraps(name: str) -> bool:
    """Return whether the program *name* only wraps others and changes no paths itself."""
    known = shipped_programs().find(name)
    # A subcommand that wraps a program may install first: `uv run`.
    return known is not None and known[1].wraps and not known[1].has_commands
