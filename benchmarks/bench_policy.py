"""What is known of commands that others labelled, and what it costs to know it.

The commands are read from a file that `--commands` names: JSON lines with `program`, `command` and
`read_only`. It is not part of this repository; without it the first table is empty. The rule is
"allow what only reads, ask about the rest". Where we think that a label is wrong,
`policy/disagreements.toml` names the command by its digest, with the reason and a source.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.harness import OURS, Contender, Rig, table
from benchmarks.policy import commands
from toolbus.policy.programs.effects import effects_of
from toolbus.policy.shell import reading

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
        parsed = reading.read_command(line).commands

        def read(line: str = line) -> Contender:
            return Contender("reading it", "read(line, '.')", {"read": reading._read, "line": line})  # noqa: SLF001

        def judge(parsed: object = parsed) -> Contender:
            names = {"effects_of": effects_of, "parsed": parsed}
            return Contender("what it does", "for c in parsed: effects_of(c)", names)

        rig.race(line, [("reading it", read), (OURS, judge)], rounds=5)
