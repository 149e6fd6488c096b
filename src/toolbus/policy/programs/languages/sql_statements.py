"""Whether SQL only reads: statements that begin so, without a word or function that does more."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.programs.program_files import language_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*(?:\n|$))
    |(?P<string>'(?:''|[^'\\])*')
    |(?P<name>"(?:""|[^"\\])*"|`[^`\\]*`|\[[^\[\]\\]*\])
    |(?P<number>\d[\w.]*)
    |(?P<word>[A-Za-z_][\w$]*)
    |(?P<sign>[-+*/%=<>!,.();|&~^?:@{}])
    """,
    re.VERBOSE,
)
_PSQL = re.compile(r"\\([A-Za-z?]+)\+?(?:\s[^`\\|]*)?")
# With these what stands in parentheses is a table or a number; with others it is set.
_ABOUT = re.compile(r"_(?:x?info|list|check)\Z")
_BEFORE_FILES = frozenset({"from", "join", "describe", "summarize", "table"})


class SqlReading:
    """What is known of some SQL: the *files* that it names, and *reason*, why it may do more."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.reason = ""


def read_statements(text: str) -> SqlReading:
    """Return what the statements of *text* do; comments that a server runs are not understood."""
    result = SqlReading()
    statement: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or text.startswith("/*", position):
            result.reason = "what this SQL does is not known"
            return result
        position = match.end()
        if match[0] == ";":
            _judge(statement, result)
            statement = []
        elif match.lastgroup != "space":
            statement.append((match.lastgroup or "", match[0]))
    _judge(statement, result)
    return result


def _judge(statement: list[tuple[str, str]], result: SqlReading) -> None:
    if statement:
        words = [text.lower() if kind == "word" else "" for kind, text in statement]
        result.reason = _doubt(statement, words) or result.reason
        _files(statement, words, result)


def _doubt(statement: list[tuple[str, str]], words: list[str]) -> str:
    """Return why *statement* may do more than read; "" if it does not."""
    first = next(filter(None, words), "")
    if first not in language_words("sql", "first") or statement[0][0] == "string":
        return f"SQL that begins with {statement[0][1]!r} may change something"
    if first == "pragma":
        return _doubt_of_pragma(statement, words)
    changing = [word for word in words if word in language_words("sql", "changing")]
    if first == "explain" and "select" in words and changing == ["analyze"]:
        changing = []
    if changing:
        return f"SQL with {changing[0].upper()} may change something"
    function = _unknown_function(statement)
    return f"what the function {function} of SQL does is not known" if function else ""


def _doubt_of_pragma(statement: list[tuple[str, str]], words: list[str]) -> str:
    [name] = language_words("sql", "pragmas").intersection(words[1:2]) or [""]
    sets = ("sign", "(") in statement and not _ABOUT.search(name)
    is_harmless = name and not sets and ("sign", "=") not in statement
    return "" if is_harmless else "this pragma may change something"


def _unknown_function(statement: list[tuple[str, str]]) -> str:
    functions = language_words("sql", "functions")
    for (kind, text), behind in pairwise(statement):
        if behind != ("sign", "(") or kind not in {"word", "name"}:
            continue
        # A table's or column's name stands before "(" only where something is written.
        if kind == "name" or text.lower() not in functions:
            return text
    return ""


def _files(statement: list[tuple[str, str]], words: list[str], result: SqlReading) -> None:
    """Add what DuckDB reads as a file: a text where a table's name belongs."""
    for (kind, text), before in zip(statement[1:], words, strict=False):
        if kind in {"string", "name"} and before in _BEFORE_FILES and "." in text:
            result.files.append(text[1:-1])


def read_sql(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the SQL that a client is given, by its options, operands or input; return files."""
    command = parsed.command
    texts = [value for option, value in parsed.values if "SQL" in option.names]
    operands = parsed.operands
    if parsed.action[0] in {"sqlite3", "duckdb"}:
        texts += operands[1:]
        operands = operands[:1]
    elif parsed.action[1:] == ["query"]:
        texts, operands = [*texts, *operands], []
    if command.stdin is not None:
        texts.append(Word(command.stdin))
    if not texts:
        _judge_input(parsed)
    for text in texts:
        _judge_text(parsed, text)
    return operands


def _judge_input(parsed: ParsedCommand) -> None:
    """Judge a client that is given no SQL by its words."""
    command = parsed.command
    if command.piped or any(each.operator == "<" for each in command.redirections):
        parsed.note("what SQL it reads from its input cannot be known")
    elif parsed.instead is None:
        parsed.builder.effects.add("run-code")
        parsed.note("without a command it is a shell")


def _judge_text(parsed: ParsedCommand, text: Word) -> None:
    if not text.known:
        parsed.note("what this SQL does cannot be known", text)
        return
    statements: list[str] = []
    for line in text.text.strip().split("\n"):
        stripped = line.strip()
        if stripped[:1] not in {".", "\\"} or (stripped[:1] == "." and statements):
            statements.append(line)
        elif not _is_harmless_command(stripped):
            parsed.note(f"what {stripped.split(maxsplit=1)[0]} does is not known", text)
    reading = read_statements("\n".join(statements))
    for file in reading.files:
        parsed.builder.take(Word(file), "url" if "://" in file else "path")
    if reading.reason:
        parsed.builder.effects.add("write")
        parsed.note(reading.reason, text)


def _is_harmless_command(line: str) -> bool:
    """Tell whether *line*, a command of the client's own, only prints or changes how it prints."""
    if line.startswith("."):
        known = language_words("sql", "sqlite_commands")
        return line.split(maxsplit=1)[0] in known and "|" not in line
    match = _PSQL.fullmatch(line)
    return match is not None and match[1].rstrip("S") in language_words("sql", "psql_commands")
