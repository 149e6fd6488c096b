"""The effects of `awk` programs: POSIX awk with the additions of gawk(1) and mawk(1)."""

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
    """The program cannot be parsed."""


def program_tokens(program: str) -> list[str]:
    """Return the tokens of *program*; raises `ProgramError`, also for an ambiguous ``/``.

    After ``)``, ``++`` and ``--`` a slash may divide or begin a regular expression, which changes
    the meaning of the rest: such a program passes only if it contains nothing dangerous.
    """
    # Complex because the meaning of a slash depends on all tokens before it.
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
    """Return whether the slash that ends *expression* may be inside brackets."""
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
            parsed.note("this awk program is known only at run time", program)
            continue
        try:
            _judge(parsed, program_tokens(program.text))
        except ProgramError:
            parsed.note("the effect of this awk program is unknown", program)
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
            parsed.note("the code that this awk program loads or calls is unknown")


def _output(parsed: ParsedCommand, behind: list[str]) -> None:
    end = behind[1] if len(behind) > 1 else "}"
    if not behind or behind[0][0] != '"' or end not in {"}", ";", "\n"}:
        parsed.builder.write(Word("awk's output", known=False))
    elif behind[0] not in _NOWHERE:
        parsed.builder.write(Word(behind[0][1:-1]))


def _input(parsed: ParsedCommand, behind: list[str]) -> None:
    """Add files that the program reads besides the operands."""
    text = "".join(behind)
    if match := re.match(r'\w*<"([^"\\]*)"(?:[;})]|\n|$)', text):
        parsed.builder.read(Word(match[1]))
    else:
        parsed.builder.read(Word("a file that awk names", known=False))
