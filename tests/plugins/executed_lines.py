"""Lines that a policy judges, and that run in a jail if they only read for the policy."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hostile_homes import furnish
from hostile_lines import Grammar
from jails import Jail
from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.policy_file import read_policy
from toolbus.policy.shared_facts import StatedFacts

RECORDED = Path(__file__).parents[1] / "data/policy/changing_lines.jsonl"
"""Lines that changed something in a jail, with the first of their changes."""

SHOWN = 4
READING = """
default = "deny"
folder = "home/shop"
[[rule]]
name = "reading"
verdict = "allow"
effects = ["read"]
"""


class Found(NamedTuple):
    """A line that is said to only read, of a *seed*, and what it changed."""

    seed: int
    line: str
    changes: tuple[str, ...]


class ReadingJudge:
    """Tells of lines whether they only read, in the home that is furnished in *folder*."""

    def __init__(self, folder: Path) -> None:
        policy = folder / "policy.toml"
        policy.write_text(READING)
        rules = read_policy(policy)
        self._home = folder / "home"
        self._reader, self._judge = CallReader(rules, LineCache()), CallJudge(rules)

    def only_reads(self, line: str) -> bool:
        """Return whether a policy allows *line* that allows reading and nothing else."""
        call = ToolCall(id="1", name="shell", arguments={"command": line})
        persons, os.environ["HOME"] = os.environ["HOME"], str(self._home)
        try:
            facts = self._reader.facts(
                call, None, Scope(), str(self._home / "shop"), origins=StatedFacts()
            )
            return self._judge.judge(facts).verdict == "allow"
        finally:
            os.environ["HOME"] = persons


class Hunt:
    """A jail in *folder*, and lines for it; *ran* counts the lines that ran in it."""

    def __init__(self, folder: Path) -> None:
        self.jail = Jail(folder, furnish)
        self._grammar = Grammar(self.jail.read)
        self._judge = ReadingJudge(folder)
        self.ran = 0

    def search(self, first: int, count: int) -> Iterator[Found]:
        """Yield what changed anything, until *count* lines ran; they begin at the seed *first*."""
        seed, end = first, self.ran + count
        while self.ran < end:
            line = self._grammar.line(seed)
            if self._judge.only_reads(line):
                self.ran += 1
                if self.jail.run(line).changes:
                    line = minimal(line, lambda part: bool(self._wrongly_allowed(part)))
                    yield Found(seed, line, self._wrongly_allowed(line))
            seed += 1

    def _wrongly_allowed(self, line: str) -> tuple[str, ...]:
        return self.jail.run(line).changes if self._judge.only_reads(line) else ()


def minimal(line: str, is_bad: Callable[[str], bool]) -> str:
    """Return what is left of *line* if every piece goes without which it is bad all the same."""
    pieces = re.findall(r"\s+|[;|&()]+|[^\s;|&()]+", line)
    size = len(pieces)
    while size:
        start = 0
        while start < len(pieces):
            shorter = [*pieces[:start], *pieces[start + size :]]
            if shorter and is_bad("".join(shorter)):
                pieces = shorter
            else:
                start += size
        size //= 2
    return "".join(pieces)


def recorded() -> list[tuple[str, list[str]]]:
    """Return the recorded lines, each with the changes that it made."""
    rows = [json.loads(text) for text in RECORDED.read_text("utf-8").splitlines()]
    return [(row["line"], row["changes"]) for row in rows]


def record(jail: Jail, lines: list[str]) -> list[str]:
    """Run *lines* in *jail* and record their changes; return the lines that made none."""
    changes = {line: jail.run(line).changes for line in lines}
    rows = [{"line": line, "changes": made[:SHOWN]} for line, made in changes.items() if made]
    RECORDED.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8"
    )
    return [line for line, made in changes.items() if not made]
