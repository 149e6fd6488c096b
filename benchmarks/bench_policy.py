"""What is known of commands that others labelled, and what it costs to know it.

The commands are read from a file that `--commands` names: JSON lines with `program`, `command` and
`read_only`. It is not part of this repository; without it the first table is empty. The rule is
"allow what only reads, ask about the rest". Where we think that a label is wrong,
`policy/disagreements.toml` names the command by its digest, with the reason and a source.
"""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import OURS, Contender, Rig, table
from benchmarks.policy import commands
from toolbus import Scope, ToolCall
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.policy_file import read_table
from toolbus.policy.shared_facts import StatedFacts
from toolbus.policy.shell import command_reader, syntax

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = "TOOLBUS_COMMANDS"
"""The variable that names the file for the processes that measure."""
_LEAST_ROWS = 30
_LINES = (
    "git -C web log --oneline -20 -- src | head",
    "grep -rn --include='*.py' 'def main' . | sort | head -20",
    "cd web && npm test 2>&1 | tail -30",
)


@table("of 100", ours="allowed, of those that only read", baseline=None)
def bench_commands(rig: Rig) -> None:
    """None that does more is allowed, of those that only read at least 85 of 100."""
    file = os.environ.get(COMMANDS, "")
    rows = commands.load(Path(file)) if file else []
    listed = commands.disagreements()
    for row in commands.wrongly_allowed(rows):
        rig.put(f"not listed: {row.command[:60]!r}", "allowed, of those that do more", 1)
    by_program = commands.shares(rows)
    total = commands.Share(*map(sum, zip(*by_program.values(), strict=True))) if rows else None
    for program, share in [("all", total), *by_program.items()]:
        if share is None:
            continue
        if share.reading:
            value = 100 * share.reading_allowed / share.reading
            rig.put(program, "allowed, of those that only read", value)
        if program == "all" or share.reading + share.others > _LEAST_ROWS:
            rig.put(program, "rows", share.reading + share.others)
    disagreeing = [row for row in rows if commands.digest(row.command) in listed]
    rig.put("all", "listed disagreements", len(disagreeing) if rows else None)


@table("ns", ours="what it does", baseline="reading it")
def bench_command_cost(rig: Rig) -> None:
    """What a command does costs less than a tenth of reading it with shfmt."""
    for line in _LINES:
        parsed = command_reader.read_command(line).commands

        def read(line: str = line) -> Contender:
            names = {"read": command_reader._read, "line": line}  # noqa: SLF001
            return Contender("reading it", "read(line, '.')", names)

        def judge(parsed: object = parsed) -> Contender:
            names = {"effects_of": effects_of, "parsed": parsed}
            return Contender("what it does", "for c in parsed: effects_of(c)", names)

        rig.race(line, [("reading it", read), (OURS, judge)], rounds=5)


@table("ns", ours="a new line, 1 rule", baseline="shfmt alone")
def bench_verdict_cost(rig: Rig) -> None:
    """A new line costs at most 1.5 times shfmt, a known one a twentieth; 100 rules twice one.

    The first looks for files: what walks through folders, such as `grep -r`, costs the walk.
    """
    number = itertools.count()

    def new(line: str) -> str:
        return f"{line} 'x{next(number)}'"

    for line in (*_LINES[1:], "cat README.md | sort"):
        contenders = [("shfmt alone", lambda line=line: _shfmt(line, new))]
        for count in (1, 100):
            for is_new in (True, False):
                name = f"a {'new' if is_new else 'known'} line, {count} rule{'s' * (count > 1)}"
                judge = partial(_judged, count, line, new if is_new else str, name)
                contenders.append((name, judge))
        rig.race(line, contenders, rounds=5)


def _shfmt(line: str, new: Callable[[str], str]) -> Contender:
    names = {"run": syntax._run, "new": new, "line": line}  # noqa: SLF001
    return Contender("shfmt alone", "run(new(line).encode())", names)


def _judged(count: int, line: str, text_of: Callable[[str], str], name: str) -> Contender:
    """Return the verdict of *count* rules, of every kind in turn, on a line."""
    rules = [
        {"name": f"r{n}", "verdict": "deny", **_RULES[n % len(_RULES)](n)} for n in range(count)
    ]
    judge = CallJudge(read_table({"default": "allow", "rule": rules}, Path.cwd()))
    reader = CallReader(judge.rules, LineCache())
    folder = str(Path.cwd())

    def verdict() -> object:
        call = ToolCall(id="c", name="shell", arguments={"command": text_of(line)})
        return judge.judge(reader.facts(call, None, Scope(), folder, origins=StatedFacts()))

    return Contender(name, "verdict()", {"verdict": verdict})


_RULES: tuple[Callable[[int], dict[str, Any]], ...] = (
    lambda n: {"touches": [f"**/secret{n}.key"]},
    lambda n: {"command": f"git push{n}"},
    lambda n: {"tools": f"tool{n}"},
    lambda n: {"arguments": {f"argument{n}": n}},
    lambda n: {"hosts": f"host{n}.example.com"},
    lambda n: {"command": ["rm -r", f"program{n}"]},
    lambda n: {"writes": [f"~/folder{n}/**"]},
)
