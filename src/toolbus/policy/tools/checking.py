"""What is wrong with a policy that can be read: rules that never decide, tools that nobody has.

A rule never decides if an earlier-ranking one speaks of all that it does: deny outranks ask, ask
outranks allow. That is told of rules that say the same, or more, in the same words; that two
patterns mean the same is not found out.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolbus.events.subjects import matches
from toolbus.policy.history.limit_tables import LIMIT_KEYS
from toolbus.policy.rules.argument_paths import EVERY, read_path
from toolbus.policy.rules.command_patterns import CommandPattern
from toolbus.policy.rules.misplaced_paths import misplaced_path
from toolbus.policy.rules.part_conditions import RESOURCES
from toolbus.policy.rules.rule_tables import CALL_KEYS, PART_KEYS
from toolbus.policy.rules.value_tests import type_name
from toolbus.policy.shell.syntax import SyntaxRefusedError, find_shfmt
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.events.catalogue import ToolSpec
    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.rules.documents import PolicyFile

_RANKS = {"allow": 0, "ask": 1, "deny": 2}
_ALTERNATIVES = (
    "tools",
    "agent",
    "lineage",
    "command",
    "effects",
    "reads",
    "writes",
    "touches",
    "hosts",
    "pushes",
)
"""Keys whose texts are alternatives of each other."""
_SHELL = re.compile(r"sh\b|shell|bash|exec|run|term|cmd|command|console|process", re.IGNORECASE)
_BRANCH = re.compile(r"\bma(in|ster)\b|:|\S \S")
_JSON_TYPES = {
    "text": ("string",),
    "number": ("number", "integer"),
    "boolean": ("boolean",),
    "list": ("array",),
    "table": ("object",),
}


class Remark(NamedTuple):
    """What is wrong in a *line* of a policy, or None if that is not known."""

    line: int | None
    kind: Literal["error", "warning"]
    text: str


def check_policy(file: PolicyFile, tools: Sequence[ToolSpec] | None = None) -> list[Remark]:
    """Return what is wrong with *file*, and, if *tools* are given, with what it says of them.

    Raises `ConfigurationError` for what cannot be read at all.
    """
    programs = file.read().programs
    remarks = [*_of_rules(file, programs), *_of_pairs(file), *_of_shell(file), *_of_project(file)]
    if tools is not None:
        remarks += _of_tools(file, {tool.name: tool for tool in tools})
    return sorted(remarks, key=lambda remark: remark.line or 0)


def _rules(file: PolicyFile) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = file.table.get("rule", [])
    return rules


def _of_rules(file: PolicyFile, programs: Programs | None) -> Iterator[Remark]:
    for index, rule in enumerate(_rules(file)):
        line, name = file.line("rule", index), rule["name"]
        allows = rule["verdict"] == "allow"
        conditions = [key for key in (*CALL_KEYS, *PART_KEYS, *LIMIT_KEYS) if key in rule]
        if not conditions and rule["verdict"] in {"allow", "deny"}:
            does = "allows" if allows else "denies"
            text = f"rule {name!r} has no condition, so it {does} every call"
            yield Remark(line, "warning", text)
        effects = _texts(rule.get("effects"))
        if allows and effects and "read" not in effects:
            text = f"rule {name!r} allows nothing that also reads; add 'read' to `effects`"
            yield Remark(file.line("rule", index, "effects"), "warning", text)
        elif allows:
            yield from [Remark(line, "warning", f"rule {name!r} {text}") for text in _reach(rule)]
        patterns = [CommandPattern(text, programs) for text in _texts(rule.get("command"))]
        for pattern in patterns:
            yield from _of_command(file, index, pattern, allows=allows)
            for text in _of_words(rule, pattern):
                where = file.line("rule", index, "command")
                yield Remark(where, "warning", f"rule {name!r}: {pattern.text!r} {text}")
        yield from _of_shells(file, index, rule)


def _reach(rule: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a *rule* that allows leaves open, or what it names and cannot allow."""
    effects = set(_texts(rule.get("effects")))
    resources = RESOURCES.intersection(rule)
    files = {"touches", "arguments", "when"}
    for effect, key, does, others in (
        ("read", "reads", "reads any file", files),
        ("write", "writes", "writes any file", {*files, "pushes"}),
        ("network", "hosts", "reaches any host", {"arguments", "when"}),
    ):
        if effect not in effects or key in rule or others.intersection(rule):
            continue
        if not resources:
            anywhere = '["/**"]' if key != "hosts" else '["*"]'
            yield f"{does}; name them in `{key}`, with {anywhere} if all are meant"
        elif effect != "read":
            yield f"has the effect {effect!r} without `{key}`, so it allows nothing that has it"


def _of_words(rule: Mapping[str, Any], pattern: CommandPattern) -> Iterator[str]:
    """Yield what a *pattern* of a command covers that hardly anybody means, or does not cover."""
    if rule["verdict"] != "allow":
        words = pattern.text.split()
        if words[:2] == ["git", "push"] and _BRANCH.search(" ".join(words[2:])):
            yield "misses `HEAD:main`, `+main` and a bare push; name the branch in `pushes`"
        return
    is_open = not RESOURCES.union({"effects", "arguments", "when"}).intersection(rule)
    # What git is given is in its repository, but for options that are no part of the plain words.
    if is_open and pattern.program != "git" and pattern.reads_any:
        yield 'reads any file; name them in `reads`, with ["/**"] if all are meant'


def _of_shells(file: PolicyFile, index: int, rule: Mapping[str, Any]) -> Iterator[Remark]:
    """Warn of a rule for commands of tools that are no shells: it never applies."""
    if not {"command", "pushes"}.intersection(rule):
        return
    for tool in _texts(rule.get("tools")):
        declared = file.table.get("tools", {}).get(tool, {})
        is_shell = "command" in declared or _SHELL.search(tool) or set("*?[") & set(tool)
        if "effects" in declared or not is_shell:
            text = f"rule {rule['name']!r} never applies: {tool!r} is not known as a shell"
            way_out = f"name its argument in [tools.{tool}] with `command` if it is one"
            line = file.line("rule", index, "tools")
            yield Remark(line, "warning", f"{text}; {way_out}")


def _of_command(
    file: PolicyFile, index: int, pattern: CommandPattern, *, allows: bool
) -> Iterator[Remark]:
    if unknown := pattern.unknown:
        so = "allows exactly these words" if allows else "speaks of what is written so"
        remark = f"command {pattern.text!r} {so}, for {unknown}"
        yield Remark(file.line("rule", index, "command"), "warning", remark)


def _of_shell(file: PolicyFile) -> Iterator[Remark]:
    """Warn of rules for commands where nothing is installed that can read these."""
    if any("command" in rule for rule in _rules(file)):
        try:
            find_shfmt()
        except SyntaxRefusedError as error:
            yield Remark(None, "warning", f"{error}; until then most commands are asked about")


def _of_project(file: PolicyFile) -> Iterator[Remark]:
    """Warn of paths that a person's own policy means, most likely, from a project on."""
    path = misplaced_path(file.file, file.table)
    if path is not None:
        name = _rules(file)[path.position]["name"]
        line = file.line("rule", path.position, path.key)
        yield Remark(line, "warning", f"rule {name!r}: {path.text}")


def _of_pairs(file: PolicyFile) -> Iterator[Remark]:
    """Yield rules that another one makes needless, or says the opposite of."""
    rules = _rules(file)
    for index, rule in enumerate(rules):
        for number, other in enumerate(rules):
            if number == index or "audit" in {rule["verdict"], other["verdict"]}:
                continue
            if not _speaks_of_all(other, rule):
                continue
            is_same = _speaks_of_all(rule, other)
            rank, outranking = _RANKS[rule["verdict"]], _RANKS[other["verdict"]]
            if outranking > rank:
                line = file.line("rule", number)
                how = "says the opposite" if is_same else "speaks of all that it does"
                text = f"rule {rule['name']!r} never decides: {other['name']!r} (line {line}) {how}"
                yield Remark(
                    file.line("rule", index),
                    "error" if is_same else "warning",
                    f"{text}, and {other['verdict']} beats {rule['verdict']}",
                )
                break
            if outranking == rank and (not is_same or number < index):
                line = file.line("rule", number)
                text = f"rule {rule['name']!r} adds nothing to {other['name']!r} (line {line})"
                yield Remark(file.line("rule", index), "warning", text)
                break


def _speaks_of_all(wider: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Tell whether *wider* speaks wherever *rule* does, as far as their words tell."""
    keys = [key for key in (*CALL_KEYS, *PART_KEYS) if key in wider]
    limits = {key: wider[key] for key in LIMIT_KEYS if key in wider}
    # One that allows speaks of calls within the limit, others speak of those beyond it.
    same_side = (wider["verdict"] == "allow") == (rule["verdict"] == "allow")
    if limits and not (same_side and limits == {key: rule.get(key) for key in limits}):
        return False
    if wider["verdict"] == "allow" and set(PART_KEYS).intersection(keys):
        # It covers no more than its conditions are about, so a further one is another rule.
        named = RESOURCES.intersection(keys) or "effects" not in keys
        if named and any(key in rule and key not in keys for key in PART_KEYS):
            return False
        if "effects" not in keys:
            return {k: rule.get(k) for k in keys} == {k: wider[k] for k in keys}
    return all(key in rule and _includes(key, wider[key], rule[key]) for key in keys)


def _includes(key: str, wider: Any, narrower: Any) -> bool:
    if key in _ALTERNATIVES:
        patterns, texts = _texts(wider), _texts(narrower)
        if key in {"tools", "agent", "lineage", "hosts"}:
            return all(text in patterns or matches(patterns, text) for text in texts)
        return set(texts) <= set(patterns)
    return bool(wider == narrower)


def _of_tools(file: PolicyFile, tools: Mapping[str, ToolSpec]) -> Iterator[Remark]:
    for name, table in file.table.get("tools", {}).items():
        chosen = _chosen((name,), tools)
        if not chosen:
            text = f"no tool is called {name!r}{hint(name, tools)}"
            yield Remark(file.line("tools", name), "error", text)
        for key in ("command", "folder_argument", "reads", "writes", "trees", "urls", "ignore"):
            for tool, path in product(chosen, _texts(table.get(key))):
                if problem := _problem_of_path(tool, read_path(path)):
                    line = file.line("tools", name, key)
                    yield Remark(line, "error", f"tool {tool.name!r} {problem}")
    for index, rule in enumerate(_rules(file)):
        patterns = _texts(rule.get("tools"))
        for pattern in patterns:
            if not _chosen((pattern,), tools):
                text = f"rule {rule['name']!r}: no tool is called {pattern!r}{hint(pattern, tools)}"
                yield Remark(file.line("rule", index, "tools"), "error", text)
        if patterns and "arguments" in rule:
            yield from _of_arguments(file, index, rule, _chosen(patterns, tools))


def _chosen(patterns: tuple[str, ...], tools: Mapping[str, ToolSpec]) -> list[ToolSpec]:
    return [tool for tool in tools.values() if matches(patterns, tool.name)]


def _of_arguments(
    file: PolicyFile, index: int, rule: Mapping[str, Any], chosen: Sequence[ToolSpec]
) -> Iterator[Remark]:
    for path, test in rule["arguments"].items():
        line = file.line("rule", index, "arguments", path)
        for tool in chosen:
            problem = _problem_of_path(tool, read_path(path)) or _problem_of_test(tool, path, test)
            if problem:
                yield Remark(line, "error", f"rule {rule['name']!r}: tool {tool.name!r} {problem}")


def _problem_of_path(tool: ToolSpec, path: Sequence[str]) -> str | None:
    """Return what *path* names and the tool's schema does not have, None if it may have it."""
    schema: Any = tool.input_schema
    for key in path:
        schema = _below(schema, key)
        if isinstance(schema, str):
            return schema
        if schema is None:
            return None
    return None


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


def _problem_of_test(tool: ToolSpec, path: str, test: Any) -> str | None:
    """Return how a test is for another type than the schema's, None if it may be right."""
    schema: Any = tool.input_schema
    for key in read_path(path):
        schema = _below(schema, key)
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str):
        return None
    wanted = _types_of(test)
    if wanted and kind not in {each for name in wanted for each in _JSON_TYPES.get(name, (name,))}:
        return f"has {path!r} of type {kind}, and the test is for a {' or '.join(sorted(wanted))}"
    return None


def _types_of(test: Any) -> set[str]:
    if isinstance(test, dict):
        kinds = {"glob": "text", "pattern": "text", "min": "number", "max": "number"}
        named = {kinds[key] for key in test if key in kinds}
        for key in ("equals", "one_of"):
            if key in test:
                values = test[key] if key == "one_of" else [test[key]]
                named |= {type_name(value) for value in values}
        return named
    return {type_name(value) for value in (test if isinstance(test, list) else [test])}


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
