"""Diagnostics of a valid policy: rules that never decide, or that hardly mean what they say.

A rule never decides if a higher-ranking rule matches everything it matches: deny outranks ask, ask
outranks allow. Conditions are compared by their texts; equivalent patterns are not recognized.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolbus.events.subjects import matches
from toolbus.policy.projects import Project
from toolbus.policy.rules.command_patterns import CommandPattern
from toolbus.policy.rules.conditions import RESOURCES
from toolbus.policy.rules.exact_calls import PATH, TEXT, ExactCommand
from toolbus.policy.rules.judge import RANKS
from toolbus.policy.rules.policy_file import find_base_warning
from toolbus.policy.rules.tables import NO_TOOL_FACTS, texts
from toolbus.policy.rules.values import EVERY, build_tests, read_path
from toolbus.policy.shell.command_reader import read_command
from toolbus.policy.shell.syntax import SyntaxRefusedError, find_shfmt
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.events.catalogue import ToolSpec
    from toolbus.policy.commands import Command
    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.policy.rules.records import CallCondition, PartCondition, PolicyRule
    from toolbus.policy.rules.tables import RuleTable

_SHELL = re.compile(r"sh\b|shell|bash|exec|run|term|cmd|command|console|process", re.IGNORECASE)
_BRANCH = re.compile(r"\bma(in|ster)\b|:|\S \S")
_NO_CONDITIONS = frozenset({"name", "verdict", "reason", "hint", "prompt"})
_BY_GLOB = frozenset({"tools", "agent", "lineage", "hosts"})
_NARROWED_BY_MORE = frozenset({"annotations", "context", "arguments", "outside", "in_view"})
"""Keys of conditions that match less, and not more, the more texts they have."""
_REACH: tuple[tuple[str, str, str, frozenset[str]], ...] = (
    ("read", "reads", "reads any file", frozenset({"reads", "touches", "arguments", "when"})),
    (
        *("write", "writes", "writes any file"),
        frozenset({"writes", "touches", "arguments", "when", "pushes"}),
    ),
    ("network", "hosts", "reaches any host", frozenset({"hosts", "arguments", "when"})),
)
"""Effects, the key that limits each, their reach without the key, and all limiting keys."""
_DOES = {"allow": "allows", "deny": "denies"}
_JSON_TYPES = {
    "text": ("string",),
    "number": ("number", "integer"),
    "boolean": ("boolean",),
    "list": ("array",),
    "table": ("object",),
}


class Diagnostic(NamedTuple):
    """A problem in a *line* of a policy (None: no single line)."""

    line: int | None
    kind: Literal["error", "warning"]
    text: str


def check_policy(file: PolicyFile, tools: Sequence[ToolSpec] | None = None) -> list[Diagnostic]:
    """Return the problems of *file*, and of its tool tables if *tools* are given.

    Raises `ConfigurationError` for an invalid file.
    """
    rules = file.read()
    remarks = [
        *_rule_problems(file, rules.programs),
        *pair_problems(file, rules.rules),
        *_shell_problems(file),
        *_project_problems(file),
        *_origin_problems(file, rules.rules),
    ]
    if tools is not None:
        remarks += [*_declaration_problems(file, tools), *_name_problems(file, tools)]
    return sorted(remarks, key=lambda remark: remark.line or 0)


# --- single rules ---------------------------------------------------------------------------------


def _rule_problems(file: PolicyFile, programs: Programs | None) -> Iterator[Diagnostic]:
    for index, rule in enumerate(file.tables.rule):
        keys = {*rule.keys()} - _NO_CONDITIONS
        remarks = [
            *[(key, f"rule {rule.name!r} {text}") for key, text in _key_problems(rule, keys)],
            *[("tools", f"rule {rule.name!r} {text}") for text in _tool_problems(file, rule)],
            *[("command", text) for text in _command_problems(rule, keys, programs)],
            *[("exactly", text) for text in _exact_problems(rule, programs)],
        ]
        for key, text in remarks:
            yield Diagnostic(file.line("rule", index, key), "warning", text)


def _key_problems(rule: RuleTable, keys: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the key and text of each effect that *keys* of a *rule* leave open or cannot allow."""
    if not keys and rule.verdict in _DOES:
        yield "", f"has no condition, so it {_DOES[rule.verdict]} every call"
    effects = texts(rule.effects)
    if rule.verdict == "allow" and effects and "read" not in effects:
        yield "effects", "allows nothing that also reads; add 'read' to `effects`"
    elif rule.verdict == "allow":
        for effect, key, does, others in _REACH:
            if effect in effects and not keys & others:
                yield from _reach_problems(keys, effect, key, does)


def _reach_problems(keys: set[str], effect: str, key: str, does: str) -> Iterator[tuple[str, str]]:
    if not RESOURCES & keys:
        anywhere = '["/**"]' if key != "hosts" else '["*"]'
        yield "", f"{does}; list them in `{key}`, or use {anywhere} for all"
    elif effect != "read":
        yield "", f"has the effect {effect!r} without `{key}`, so it allows nothing that has it"


def _command_problems(rule: RuleTable, keys: set[str], programs: Programs | None) -> Iterator[str]:
    for pattern in [CommandPattern(text, programs) for text in texts(rule.command)]:
        if unknown := pattern.unknown:
            is_exact = rule.verdict == "allow"
            so = "allows exactly these words" if is_exact else "matches only this spelling"
            yield f"command {pattern.text!r} {so} because {unknown}"
        if text := _command_problem(rule, keys, pattern):
            yield f"rule {rule.name!r}: {pattern.text!r} {text}"


def _exact_problems(rule: RuleTable, programs: Programs | None) -> Iterator[str]:
    """Yield the exact commands of *rule* that match nothing, or whose effect files may change."""
    for command in [ExactCommand(each, Project("/"), programs) for each in _exact_lines(rule)]:
        if command.runs_code:
            yield f"rule {rule.name!r}: {command.text!r} runs code, which may change meanwhile"
        if text := _misreading(command, programs):
            yield f"rule {rule.name!r}: {command.text!r} {text}"


def _exact_lines(rule: RuleTable) -> tuple[str, ...]:
    return () if isinstance(rule.exactly, Mapping) else texts(rule.exactly)


def _misreading(command: ExactCommand, programs: Programs | None) -> str:
    """Return why calls with the text of *command* are not this command, "" if they are."""
    if not command.takes_path:
        return f"never matches: {PATH!r} names none of its files"
    if TEXT in command.words:
        return f"matches only the word {TEXT!r}, which is any text only in a table of arguments"
    if _shell_problem():
        return ""
    commands = read_command(command.text, "/", programs).commands
    if any(
        each.folder == command.folder and _is_literally(each, command.words) for each in commands
    ):
        return ""
    return "never matches a call of this text, which a shell reads otherwise; quote literal words"


def _is_literally(command: Command, texts: tuple[str, ...]) -> bool:
    """Return whether *command* has the words *texts*, whatever variables and files exist."""
    words = (command.program, *command.words)
    are_literal = all(word.known and not word.pattern for word in words)
    return are_literal and tuple([word.text for word in words]) == texts


def _command_problem(rule: RuleTable, keys: set[str], pattern: CommandPattern) -> str:
    """Return how a command *pattern* covers too much or misses a form, or ""."""
    if rule.verdict != "allow":
        words = pattern.text.split()
        if words[:2] == ["git", "push"] and _BRANCH.search(" ".join(words[2:])):
            return "misses `HEAD:main`, `+main` and a bare push; name the branch in `pushes`"
        return ""
    # Arguments of git stay in its repository, except options, which plain words do not allow.
    if keys & {*RESOURCES, "effects", "arguments", "when"} or pattern.program == "git":
        return ""
    if pattern.reads_any:
        return 'reads any file; list them in `reads`, or use ["/**"] for all'
    return ""


def _tool_problems(file: PolicyFile, rule: RuleTable) -> Iterator[str]:
    """Yield why a rule for commands never applies to tools that are not shells."""
    if rule.command is None and rule.pushes is None:
        return
    for tool in texts(rule.tools):
        declared = file.tables.tools.get(tool, NO_TOOL_FACTS)
        is_shell = declared.command is not None or _SHELL.search(tool) or set("*?[") & set(tool)
        if declared.effects is not None or not is_shell:
            way_out = f"if it is a shell, name its argument as `command` in [tools.{tool}]"
            yield f"never applies: {tool!r} is not a known shell; {way_out}"


def _shell_problems(file: PolicyFile) -> Iterator[Diagnostic]:
    """Warn of rules with commands if shfmt is not installed."""
    has_commands = any(rule.command or _exact_lines(rule) for rule in file.tables.rule)
    if has_commands and (problem := _shell_problem()):
        yield Diagnostic(None, "warning", f"{problem}; until then most commands need approval")


def _shell_problem() -> str:
    """Return why shell lines cannot be parsed, "" if they can be."""
    try:
        find_shfmt()
    except SyntaxRefusedError as error:
        return str(error)
    return ""


def _project_problems(file: PolicyFile) -> Iterator[Diagnostic]:
    """Warn of paths in a personal policy that are most likely meant relative to a project."""
    path = find_base_warning(file.file, file.tables)
    if path is not None:
        name = file.tables.rule[path.position].name
        line = file.line("rule", path.position, path.key)
        yield Diagnostic(line, "warning", f"rule {name!r}: {path.text}")


def _origin_problems(file: PolicyFile, rules: Sequence[PolicyRule]) -> Iterator[Diagnostic]:
    """Warn of rules on the origin of words, if the `toolbus.toml` beside them has no `flow`."""
    rule = next((each for each in rules if each.needs_origins), None)
    try:
        table = tomllib.loads((file.file.parent / "toolbus.toml").read_text("utf-8"))
        components = [each for each in table.get("component", ()) if each.get("enabled", True)]
        uses = {each.get("use") for each in components}
    except (OSError, ValueError, AttributeError, TypeError):
        return
    if rule is not None and "policy" in uses and "flow" not in uses:
        text = f'rule {rule.name!r} asks about every such call; add `use = "flow"` to toolbus.toml'
        yield Diagnostic(file.line("rule", rule.number), "warning", text)


# --- pairs of rules -------------------------------------------------------------------------------


def pair_problems(file: PolicyFile, rules: Sequence[PolicyRule]) -> Iterator[Diagnostic]:
    """Yield rules that another rule makes redundant or contradicts."""
    judged = [rule for rule in rules if rule.verdict != "audit"]
    for rule in judged:
        for other in judged:
            if other is rule or not covers(other, rule):
                continue
            is_same = covers(rule, other)
            text = _pair_problem(file, rule, other, is_same=is_same)
            if text:
                is_opposite = is_same and RANKS[other.verdict] > RANKS[rule.verdict]
                line = file.line("rule", rule.number)
                yield Diagnostic(line, "error" if is_opposite else "warning", text)
                break


def _pair_problem(file: PolicyFile, rule: PolicyRule, other: PolicyRule, *, is_same: bool) -> str:
    """Return how *other*, which matches everything that *rule* matches, affects it, or ""."""
    where = f"{other.name!r} (line {file.line('rule', other.number)})"
    rank, outranking = RANKS[rule.verdict], RANKS[other.verdict]
    if outranking > rank:
        how = "says the opposite" if is_same else "matches everything it matches"
        beats = f"{other.verdict} beats {rule.verdict}"
        return f"rule {rule.name!r} never decides: {where} {how}, and {beats}"
    if outranking == rank and (not is_same or other.number < rule.number):
        return f"rule {rule.name!r} adds nothing to {where}"
    return ""


def covers(wider: PolicyRule, narrower: PolicyRule) -> bool:
    """Return whether *wider* certainly matches every call that *narrower* matches."""
    is_same_way = wider.allows == narrower.allows
    if wider.limits and not (is_same_way and {*wider.limits} <= {*narrower.limits}):
        # An allow rule matches calls within the limit, other rules calls beyond it.
        return False
    keys = _part_keys(wider)
    if wider.allows and keys - {"effects"} and not (is_same_way and keys == _part_keys(narrower)):
        # The keys of an allow rule together cover all resources of a part.
        return False
    return all(
        any(_covers(each, other) for other in _conditions(narrower)) for each in _conditions(wider)
    )


def _part_keys(rule: PolicyRule) -> set[str]:
    return {each.key for each in rule.part_conditions}


def _conditions(rule: PolicyRule) -> list[CallCondition | PartCondition]:
    return [*rule.call_conditions, *rule.part_conditions]


def _covers(wider: CallCondition | PartCondition, narrower: CallCondition | PartCondition) -> bool:
    """Return whether *wider* certainly matches wherever *narrower* does, by their texts."""
    if (wider.key, wider.every) != (narrower.key, narrower.every):
        return False
    if wider.key in _NARROWED_BY_MORE:
        return {*wider.texts} <= {*narrower.texts}
    if wider.key in _BY_GLOB:
        return all(each in wider.texts or matches(wider.texts, each) for each in narrower.texts)
    return {*narrower.texts} <= {*wider.texts}


# --- tools ----------------------------------------------------------------------------------------


def _declaration_problems(file: PolicyFile, tools: Sequence[ToolSpec]) -> Iterator[Diagnostic]:
    """Yield names in the tool tables that *tools* do not have."""
    for name, declared in file.tables.tools.items():
        chosen = _chosen(name, tools)
        if not chosen:
            yield Diagnostic(file.line("tools", name), "error", _no_tool(name, tools))
        for key in ("command", "folder_argument", "reads", "writes", "trees", "urls", "ignore"):
            for tool, path in product(chosen, texts(getattr(declared, key))):
                schema = _schema_at(tool, read_path(path))
                if isinstance(schema, str):
                    line = file.line("tools", name, key)
                    yield Diagnostic(line, "error", f"tool {tool.name!r} {schema}")


def _name_problems(file: PolicyFile, tools: Sequence[ToolSpec]) -> Iterator[Diagnostic]:
    """Yield the tools and arguments in rules that *tools* do not have."""
    for index, rule in enumerate(file.tables.rule):
        chosen: list[ToolSpec] = []
        for pattern in texts(rule.tools):
            matching = _chosen(pattern, tools)
            chosen += [tool for tool in matching if tool not in chosen]
            if not matching:
                text = f"rule {rule.name!r}: {_no_tool(pattern, tools)}"
                yield Diagnostic(file.line("rule", index, "tools"), "error", text)
        for (name, value), tool in product((rule.arguments or {}).items(), chosen):
            if problem := _problem_of_value(tool, name, value):
                line = file.line("rule", index, "arguments", name)
                yield Diagnostic(line, "error", f"rule {rule.name!r}: tool {tool.name!r} {problem}")


def _chosen(pattern: str, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    return [tool for tool in tools if matches((pattern,), tool.name)]


def _no_tool(name: str, tools: Sequence[ToolSpec]) -> str:
    return f"no tool named {name!r}{hint(name, [tool.name for tool in tools])}"


def _problem_of_value(tool: ToolSpec, name: str, value: Any) -> str:
    """Return how the schema of *tool* lacks *name* or a type that *value* tests, or ""."""
    schema = _schema_at(tool, read_path(name))
    if isinstance(schema, str):
        return schema
    kind = schema.get("type") if isinstance(schema, dict) else None
    wanted = sorted({each for test in build_tests(value) for each in test.kinds})
    known = {each for word in wanted for each in _JSON_TYPES.get(word, (word,))}
    if not isinstance(kind, str) or kind in known:
        return ""
    return f"has {name!r} of type {kind}, and the test is for a {' or '.join(wanted)}"


def _schema_at(tool: ToolSpec, path: Sequence[str]) -> Any:
    """Return the schema at *path*, None if unknown, or an error text."""
    schema: Any = tool.input_schema
    for key in path:
        if not isinstance(schema, dict) or {"$ref", "anyOf", "oneOf"} & schema.keys():
            return None
        schema = _below(schema, key)
        if isinstance(schema, str):
            break
    return schema


def _below(schema: dict[str, Any], key: str) -> Any:
    properties = schema.get("properties")
    if key == EVERY or key.isdigit():
        return schema.get("items") or schema.get("additionalProperties") or None
    if not isinstance(properties, dict):
        return None
    if key in properties:
        return properties[key]
    is_open = schema.get("additionalProperties") not in {None, False}
    return None if is_open else f"has no argument {key!r}{hint(key, properties)}"
