"""The check that SQL only reads: by first words, and without changing words and functions."""

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
# The parenthesised argument of these pragmas is a table or a number; for others it is a new value.
_ABOUT = re.compile(r"_(?:x?info|list|check)\Z")
_BEFORE_FILES = frozenset({"from", "join", "describe", "summarize", "table"})


class SqlReading:
    """The result for a text of SQL: its *files*, and the *reason* why it may do more than read."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.reason = ""


def read_statements(text: str) -> SqlReading:
    """Return the reading of the statements in *text*; executable comments are unknown."""
    result = SqlReading()
    statement: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or text.startswith("/*", position):
            result.reason = "the effect of this SQL is unknown"
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
    """Return why *statement* may do more than read, or ""."""
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
    return f"{function} is an unknown SQL function" if function else ""


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
        # The name of a table or column precedes "(" only in writing statements.
        if kind == "name" or text.lower() not in functions:
            return text
    return ""


def _files(statement: list[tuple[str, str]], words: list[str], result: SqlReading) -> None:
    """Add the files of DuckDB: a text in the position of a table's name."""
    for (kind, text), before in zip(statement[1:], words, strict=False):
        if kind in {"string", "name"} and before in _BEFORE_FILES and "." in text:
            result.files.append(text[1:-1])


def read_sql(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the SQL in a client's options, operands or input; return files."""
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
    """Judge a client without SQL among its arguments."""
    command = parsed.command
    if command.piped or any(each.operator == "<" for each in command.redirections):
        parsed.note("it reads SQL from its input, known only at run time")
    elif parsed.instead is None:
        parsed.builder.effects.add("run-code")
        parsed.note("without a command it is an interactive shell")


def _judge_text(parsed: ParsedCommand, text: Word) -> None:
    if not text.known:
        parsed.note("this SQL is known only at run time", text)
        return
    statements: list[str] = []
    for line in text.text.strip().split("\n"):
        stripped = line.strip()
        if stripped[:1] not in {".", "\\"} or (stripped[:1] == "." and statements):
            statements.append(line)
        elif not _is_harmless_command(stripped):
            parsed.note(f"{stripped.split(maxsplit=1)[0]} is an unknown client command", text)
    reading = read_statements("\n".join(statements))
    for file in reading.files:
        parsed.builder.take(Word(file), "url" if "://" in file else "path")
    if reading.reason:
        parsed.builder.effects.add("write")
        parsed.note(reading.reason, text)


def _is_harmless_command(line: str) -> bool:
    """Return whether *line*, a command of the client itself, only prints or formats output."""
    if line.startswith("."):
        known = language_words("sql", "sqlite_commands")
        return line.split(maxsplit=1)[0] in known and "|" not in line
    match = _PSQL.fullmatch(line)
    return match is not None and match[1].rstrip("S") in language_words("sql", "psql_commands")
