"""Mistakes of a policy's file, and warnings of one that can be read: rules that never decide.

A rule never decides if an earlier-ranking one speaks of all that it does: deny outranks ask, ask
outranks allow. That is told of rules that say the same, or more, in the same words; that two
patterns mean the same is not found out.
"""

from __future__ import annotations

import re
from copy import deepcopy
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolbus.errors import ConfigurationError
from toolbus.events.subjects import matches
from toolbus.policy.rules.call_conditions import NamedTools, ValuesAt
from toolbus.policy.rules.command_patterns import CommandPattern
from toolbus.policy.rules.documents import misplaced_path, read_table
from toolbus.policy.rules.judging import RANKS
from toolbus.policy.rules.part_conditions import RESOURCES
from toolbus.policy.rules.tables import NO_TOOL_FACTS, texts
from toolbus.policy.rules.values import EVERY, read_path
from toolbus.policy.shell.syntax import SyntaxRefusedError, find_shfmt
from toolbus.settings.hints import hint
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.events.catalogue import ToolSpec
    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.rules.documents import PolicyFile
    from toolbus.policy.rules.records import PolicyRule
    from toolbus.policy.rules.tables import RuleTable
    from toolbus.policy.rules.values import ValueTest

_SHELL = re.compile(r"sh\b|shell|bash|exec|run|term|cmd|command|console|process", re.IGNORECASE)
_BRANCH = re.compile(r"\bma(in|ster)\b|:|\S \S")
_JSON_TYPES = {
    "text": ("string",),
    "number": ("number", "integer"),
    "boolean": ("boolean",),
    "list": ("array",),
    "table": ("object",),
}
_MOST_MISTAKES = 100
"""Mistakes that are looked for."""


class Remark(NamedTuple):
    """What is wrong in a *line* of a policy, or None if that is not known."""

    line: int | None
    kind: Literal["error", "warning"]
    text: str


def check_policy(file: PolicyFile, tools: Sequence[ToolSpec] | None = None) -> list[Remark]:
    """Return what is wrong with *file*, and, if *tools* are given, with what it says of them.

    Raises `ConfigurationError` for what cannot be read at all.
    """
    rules = file.read()
    remarks = [
        *_of_rules(file, rules.programs),
        *_of_pairs(file, rules.rules),
        *_of_shell(file),
        *_of_project(file),
    ]
    if tools is not None:
        remarks += _of_tools(file, rules.rules, {tool.name: tool for tool in tools})
    return sorted(remarks, key=lambda remark: remark.line or 0)


def _of_rules(file: PolicyFile, programs: Programs | None) -> Iterator[Remark]:
    for index, rule in enumerate(file.tables.rule):
        line = file.line("rule", index)
        allows = rule.verdict == "allow"
        if not _conditions(rule) and rule.verdict in {"allow", "deny"}:
            does = "allows" if allows else "denies"
            text = f"rule {rule.name!r} has no condition, so it {does} every call"
            yield Remark(line, "warning", text)
        effects = texts(rule.effects)
        if allows and effects and "read" not in effects:
            text = f"rule {rule.name!r} allows nothing that also reads; add 'read' to `effects`"
            yield Remark(file.line("rule", index, "effects"), "warning", text)
        elif allows:
            for text in _reach(rule):
                yield Remark(line, "warning", f"rule {rule.name!r} {text}")
        for text in _of_commands(rule, programs):
            yield Remark(file.line("rule", index, "command"), "warning", text)
        yield from _of_shells(file, index, rule)


def _of_commands(rule: RuleTable, programs: Programs | None) -> Iterator[str]:
    """Yield what the commands of *rule* do not mean, or mean and hardly anybody wants."""
    for pattern in [CommandPattern(text, programs) for text in texts(rule.command)]:
        if unknown := pattern.unknown:
            is_exact = rule.verdict == "allow"
            so = "allows exactly these words" if is_exact else "speaks of what is written so"
            yield f"command {pattern.text!r} {so}, for {unknown}"
        for text in _of_words(rule, pattern):
            yield f"rule {rule.name!r}: {pattern.text!r} {text}"


def _conditions(rule: RuleTable) -> set[str]:
    """Return the keys of *rule* that are conditions or limits."""
    return {*rule.keys()} - {"name", "verdict", "reason", "hint", "prompt"}


def _reach(rule: RuleTable) -> Iterator[str]:
    """Yield what a *rule* that allows leaves open, or what it names and cannot allow."""
    effects, keys = texts(rule.effects), _conditions(rule)
    files = {"touches", "arguments", "when"}
    for effect, key, does, others in (
        ("read", "reads", "reads any file", files),
        ("write", "writes", "writes any file", {*files, "pushes"}),
        ("network", "hosts", "reaches any host", {"arguments", "when"}),
    ):
        if effect not in effects or key in keys or others & keys:
            continue
        if not RESOURCES & keys:
            anywhere = '["/**"]' if key != "hosts" else '["*"]'
            yield f"{does}; name them in `{key}`, with {anywhere} if all are meant"
        elif effect != "read":
            yield f"has the effect {effect!r} without `{key}`, so it allows nothing that has it"


def _of_words(rule: RuleTable, pattern: CommandPattern) -> Iterator[str]:
    """Yield what a *pattern* of a command covers that hardly anybody means, or does not cover."""
    if rule.verdict != "allow":
        words = pattern.text.split()
        if words[:2] == ["git", "push"] and _BRANCH.search(" ".join(words[2:])):
            yield "misses `HEAD:main`, `+main` and a bare push; name the branch in `pushes`"
        return
    is_open = not _conditions(rule) & {*RESOURCES, "effects", "arguments", "when"}
    # What git is given is in its repository, but for options that are no part of the plain words.
    if is_open and pattern.program != "git" and pattern.reads_any:
        yield 'reads any file; name them in `reads`, with ["/**"] if all are meant'


def _of_shells(file: PolicyFile, index: int, rule: RuleTable) -> Iterator[Remark]:
    """Warn of a rule for commands of tools that are not shells: it never applies."""
    if rule.command is None and rule.pushes is None:
        return
    for tool in texts(rule.tools):
        declared = file.tables.tools.get(tool, NO_TOOL_FACTS)
        is_shell = declared.command is not None or _SHELL.search(tool) or set("*?[") & set(tool)
        if declared.effects is not None or not is_shell:
            text = f"rule {rule.name!r} never applies: {tool!r} is not known as a shell"
            way_out = f"name its argument in [tools.{tool}] with `command` if it is one"
            line = file.line("rule", index, "tools")
            yield Remark(line, "warning", f"{text}; {way_out}")


def _of_shell(file: PolicyFile) -> Iterator[Remark]:
    """Warn of rules for commands where nothing is installed that can read these."""
    if any(rule.command is not None for rule in file.tables.rule):
        try:
            find_shfmt()
        except SyntaxRefusedError as error:
            yield Remark(None, "warning", f"{error}; until then most commands are asked about")


def _of_project(file: PolicyFile) -> Iterator[Remark]:
    """Warn of paths that a person's own policy means, most likely, from a project on."""
    path = misplaced_path(file.file, file.tables)
    if path is not None:
        name = file.tables.rule[path.position].name
        line = file.line("rule", path.position, path.key)
        yield Remark(line, "warning", f"rule {name!r}: {path.text}")


def _of_pairs(file: PolicyFile, rules: Sequence[PolicyRule]) -> Iterator[Remark]:
    """Yield rules that another one makes needless, or says the opposite of."""
    judged = [rule for rule in rules if rule.verdict != "audit"]
    for rule in judged:
        for other in judged:
            if other is rule or not other.covers(rule):
                continue
            is_same = rule.covers(other)
            text = _of_pair(file, rule, other, is_same=is_same)
            if text:
                is_opposite = is_same and RANKS[other.verdict] > RANKS[rule.verdict]
                line = file.line("rule", rule.number)
                yield Remark(line, "error" if is_opposite else "warning", text)
                break


def _of_pair(file: PolicyFile, rule: PolicyRule, other: PolicyRule, *, is_same: bool) -> str:
    """Return what *other*, which speaks of all that *rule* does, makes of it, "" if nothing."""
    where = f"{other.name!r} (line {file.line('rule', other.number)})"
    rank, outranking = RANKS[rule.verdict], RANKS[other.verdict]
    if outranking > rank:
        how = "says the opposite" if is_same else "speaks of all that it does"
        beats = f"{other.verdict} beats {rule.verdict}"
        return f"rule {rule.name!r} never decides: {where} {how}, and {beats}"
    if outranking == rank and (not is_same or other.number < rule.number):
        return f"rule {rule.name!r} adds nothing to {where}"
    return ""


def _of_tools(
    file: PolicyFile, rules: Sequence[PolicyRule], tools: Mapping[str, ToolSpec]
) -> Iterator[Remark]:
    for name, declared in file.tables.tools.items():
        chosen = _chosen((name,), tools)
        if not chosen:
            text = f"no tool is called {name!r}{hint(name, tools)}"
            yield Remark(file.line("tools", name), "error", text)
        for key in ("command", "folder_argument", "reads", "writes", "trees", "urls", "ignore"):
            for tool, path in product(chosen, texts(getattr(declared, key))):
                if problem := _problem_of_path(tool, read_path(path)):
                    line = file.line("tools", name, key)
                    yield Remark(line, "error", f"tool {tool.name!r} {problem}")
    for rule in rules:
        for condition in rule.call_conditions:
            if isinstance(condition, NamedTools):
                yield from _of_names(file, rule, condition.patterns, tools)
                yield from _of_arguments(file, rule, _chosen(condition.patterns, tools))


def _of_names(
    file: PolicyFile, rule: PolicyRule, patterns: Sequence[str], tools: Mapping[str, ToolSpec]
) -> Iterator[Remark]:
    for pattern in patterns:
        if not _chosen((pattern,), tools):
            text = f"rule {rule.name!r}: no tool is called {pattern!r}{hint(pattern, tools)}"
            yield Remark(file.line("rule", rule.number, "tools"), "error", text)


def _chosen(patterns: tuple[str, ...], tools: Mapping[str, ToolSpec]) -> list[ToolSpec]:
    return [tool for tool in tools.values() if matches(patterns, tool.name)]


def _of_arguments(
    file: PolicyFile, rule: PolicyRule, chosen: Sequence[ToolSpec]
) -> Iterator[Remark]:
    conditions = [each for each in rule.call_conditions if isinstance(each, ValuesAt)]
    tests = [test for each in conditions if each.source == "arguments" for test in each.tests]
    for (name, path, wanted), tool in product(tests, chosen):
        problem = _problem_of_path(tool, path) or _problem_of_tests(tool, path, name, wanted)
        if problem:
            line = file.line("rule", rule.number, "arguments", name)
            yield Remark(line, "error", f"rule {rule.name!r}: tool {tool.name!r} {problem}")


def _problem_of_path(tool: ToolSpec, path: Sequence[str]) -> str | None:
    """Return what *path* names and the tool's schema does not have, None if it may have it."""
    schema = _schema_at(tool, path)
    return schema if isinstance(schema, str) else None


def _problem_of_tests(
    tool: ToolSpec, path: Sequence[str], name: str, tests: Sequence[ValueTest]
) -> str | None:
    """Return how *tests* are for another type than the schema's, None if they may be right."""
    schema = _schema_at(tool, path)
    kind = schema.get("type") if isinstance(schema, dict) else None
    wanted = sorted({each for test in tests for each in test.kinds})
    known = {each for word in wanted for each in _JSON_TYPES.get(word, (word,))}
    if not isinstance(kind, str) or kind in known:
        return None
    return f"has {name!r} of type {kind}, and the test is for a {' or '.join(wanted)}"


def _schema_at(tool: ToolSpec, path: Sequence[str]) -> Any:
    """Return the schema at *path*, None if nobody knows it, or what is wrong in words."""
    schema: Any = tool.input_schema
    for key in path:
        schema = _below(schema, key)
        if schema is None or isinstance(schema, str):
            return schema
    return schema


def _below(schema: Any, key: str) -> Any:
    """Return the schema of *key*, None if nobody knows it, or what is wrong in words."""
    if not isinstance(schema, dict) or "$ref" in schema or "anyOf" in schema or "oneOf" in schema:
        return None
    if key == EVERY or key.isdigit():
        return schema.get("items") or schema.get("additionalProperties") or None
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    if key in properties:
        return properties[key]
    is_open = schema.get("additionalProperties") not in {None, False}
    return None if is_open else f"has no argument {key!r}{hint(key, properties)}"


def find_mistakes(file: PolicyFile) -> list[ConfigurationError]:
    """Return why *file* cannot be read, in the order of its lines; none if it can."""
    rest = deepcopy(file.table)
    mistakes: list[ConfigurationError] = []
    while len(mistakes) < _MOST_MISTAKES:
        try:
            read_table(rest, file.file.absolute().parent)
        except MisfitError as error:
            line = file.line(*error.path)
            mistakes.append(ConfigurationError(error.reason, str(file.file), line))
            if not error.path or not _take_out(rest, error.path):
                break
        except ConfigurationError as error:
            mistakes.append(error)
            if rest.pop("programs", None) is None:
                break
        else:
            break
    return sorted(mistakes, key=lambda error: error.line or 0)


def _take_out(table: dict[str, Any], path: Sequence[str | int]) -> bool:
    """Take what *path* leads to out of *table*, and leave the places of other rules and calls."""
    match path:
        case ["rule" | "call" as kind, int() as index, *inner]:
            return _take_out_of_row(table, kind, index, inner[0] if inner else None)
        case ["tools", str() as name, str() as key, *_] if key in table["tools"][name]:
            del table["tools"][name][key]
            return True
        case ["tools", str() as name, *_] if isinstance(table["tools"], dict):
            return table["tools"].pop(name, None) is not None
        case [str() as key, *_]:
            return table.pop(key, None) is not None
    return False


def _take_out_of_row(table: dict[str, Any], kind: str, index: int, key: object) -> bool:
    """Take *key* out of a rule or call of *table*, or put a row that says nothing in its place."""
    written = table[kind][index]
    row: dict[Any, Any] = written if isinstance(written, dict) else {}
    if key == "verdict" and key in row:
        # Nothing is told of a prompt, which depends on the verdict.
        row.update(verdict="audit")
        row.pop("prompt", None)
        return True
    if key in row and key != "name":
        del row[key]
        return True
    # A call keeps its name, for rules ask for it.
    name = row.get("name") if kind == "call" and key != "name" else None
    name = name if isinstance(name, str) and name else f"{kind} {index + 1}"
    stub = {"name": name} | ({"verdict": "audit"} if kind == "rule" else {})
    table[kind][index] = stub
    return bool(written != stub)
