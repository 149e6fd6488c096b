"""What a program of `awk` does: POSIX awk, with what gawk(1) and mawk(1) add."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.commands import Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\\\r?\n|\#[^\n]*)
    |(?P<newline>\n)
    |(?P<string>"(?:\\.|[^"\\\n])*")
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<slash>/=?)
    |(?P<sign>\|\||\|&|&&|\+\+|--|>>|[<>=!]=|[-+*%^]=|!~|[-+*%^$!<>|?:~=,;(){}\[\]@&])
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:\\.|[^/\\\n])*/")
_ESCAPE = re.compile(r"\\.")
_CLASS = re.compile(r"\[:\w+:\]")
_OPERATORS_BEHIND = frozenset({"print", "printf", "return", "in", "case", "do", "else", "getline"})
_CONTINUES = frozenset({",", "{", "&&", "||", "do", "else"})
_DANGEROUS = re.compile(r"system|getline|[|>@]|ARGV|ENVIRON|SYMTAB|/inet")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_AMBIGUOUS_BEFORE = ([")"], ["++"], ["--"], ["length"])
_NOWHERE = frozenset({'"/dev/null"', '"/dev/stdout"', '"/dev/stderr"', '"-"'})


class ProgramError(Exception):
    """A program is none that is understood here."""


def program_tokens(program: str) -> list[str]:
    """Return the tokens of *program*; raises `ProgramError`, also where a ``/`` is ambiguous.

    Behind ``)``, ``++`` and ``--`` it may divide or begin an expression, which decides about all
    that follows: then a program passes only if nothing in it could do anything.
    """
    # The state of a tokenizer: what a slash is depends on all before it.
    tokens: list[str] = []
    position, before = 0, "newline"
    dangerous = _DANGEROUS.search(program) is not None
    while position < len(program):
        match = _TOKEN.match(program, position)
        if match is None:
            raise ProgramError
        kind, text = match.lastgroup or "", match[0]
        if kind == "slash" and dangerous and tokens[-1:] in _AMBIGUOUS_BEFORE:
            raise ProgramError
        if kind == "slash" and before not in {"value", "end"}:
            kind, text = "string", _regular_expression(program, position)
        position += len(text)
        if kind != "space":
            before = _kind_before(kind, text)
            tokens.append("/…/" if text[0] == "/" and kind == "string" else text)
    return tokens


def _regular_expression(program: str, position: int) -> str:
    match = _REGEX.match(program, position)
    if match is None or _goes_on(match[0]):
        raise ProgramError
    return match[0]


def _goes_on(expression: str) -> bool:
    """Tell whether the slash that ends *expression* may be one inside of brackets."""
    text = _CLASS.sub("x", _ESCAPE.sub("", expression))
    inside = False
    for letter in text:
        inside = letter == "[" or (inside and letter != "]")
    return inside or "[]" in text or "[^]" in text


def _kind_before(kind: str, text: str) -> str:
    if kind in {"string", "number"} or text in {")", "]", "++", "--"}:
        return "value"
    if kind == "word":
        return "operator" if text in _OPERATORS_BEHIND else "value"
    return "operator"


def read_awk(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the program of a call of awk; return its files."""
    operands = list(parsed.operands)
    programs = [value for option, value in parsed.values if "-e" in option.names]
    if not (programs or parsed.helps or parsed.option("-f", "-E")):
        programs, operands = operands[:1], operands[1:]
    for program in programs:
        if not program.known:
            parsed.note("what this program of awk does cannot be known", program)
            continue
        try:
            _judge(parsed, program_tokens(program.text))
        except ProgramError:
            parsed.note("what this program of awk does is not known", program)
    return [file for file in operands if not (file.known and _ASSIGNMENT.match(file.text))]


def _judge(parsed: ParsedCommand, tokens: list[str]) -> None:
    if not {"ENVIRON", "SYMTAB"}.isdisjoint(tokens):
        parsed.builder.read_environment()
    depth, printing = 0, -1
    for index, sign in enumerate(tokens):
        depth += (sign in {"(", "["}) - (sign in {")", "]"})
        if sign in {"print", "printf"}:
            printing = depth
        elif sign in {"}", ";"} or (sign == "\n" and tokens[index - 1] not in _CONTINUES):
            printing = -1
        elif sign in {">", ">>"} and printing == depth:
            _output(parsed, tokens[index + 1 : index + 3])
        else:
            _judge_sign(parsed, sign, tokens[index + 1 : index + 5])


def _judge_sign(parsed: ParsedCommand, sign: str, behind: list[str]) -> None:
    match sign:
        case "system" | "|" | "|&":
            parsed.builder.take(Word(sign), "command")
        case "getline" | "ARGV" | "ARGC":
            _input(parsed, behind)
        case "@":
            parsed.note("what this program of awk loads or calls is not known")


def _output(parsed: ParsedCommand, behind: list[str]) -> None:
    end = behind[1] if len(behind) > 1 else "}"
    if not behind or behind[0][0] != '"' or end not in {"}", ";", "\n"}:
        parsed.builder.write(Word("awk's output", known=False))
    elif behind[0] not in _NOWHERE:
        parsed.builder.write(Word(behind[0][1:-1]))


def _input(parsed: ParsedCommand, behind: list[str]) -> None:
    """Add what is read besides the files that the command names."""
    text = "".join(behind)
    if match := re.match(r'\w*<"([^"\\]*)"(?:[;})]|\n|$)', text):
        parsed.builder.read(Word(match[1]))
    else:
        parsed.builder.read(Word("a file that awk names", known=False))
