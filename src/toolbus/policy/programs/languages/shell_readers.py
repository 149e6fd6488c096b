"""Builtins of the shell, and programs that run code: what their arguments set and start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.programs.variables import judge_variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

_EVALUATED = re.compile(r"[\[$`]")


def read_set(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `set`: without any word it prints all variables."""
    if not parsed.command.words:
        parsed.uses.read_environment()
    return ()


def read_export(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `export` and `declare`: a later command may take the variable from the shell.

    Without a name they print variables, unless they print functions.
    """
    if not parsed.operands and not parsed.option("-f", "-F"):
        parsed.uses.read_environment()
    for word in parsed.operands:
        name, sign, value = word.text.partition("=")
        if sign and (reason := judge_variable(name, Word(value, word.known), in_front=False)):
            parsed.note(reason, word)
    return parsed.operands


def read_alias(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge builtins that only tell something if nothing is given to them; return none."""
    quiet = {"-p", "-l", "-t", "-P", "-s", "-v", "-q", "-S", "-X"}
    operands = [word for word in parsed.operands if "=" in word.text or not word.known]
    if parsed.action[0] not in {"alias", "hash"}:
        operands = parsed.operands
    if not operands and parsed.options <= quiet:
        parsed.instead = frozenset({"read"})
    elif parsed.action[0] not in {"trap", "unalias"}:
        parsed.note("it changes what a name or a key does later")
    return ()


def read_env(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the variables that `env` sets; what it runs is a command of its own."""
    if not parsed.wrapped and parsed.instead is None:
        parsed.uses.read_environment()
    for name, value in parsed.settings:
        if reason := judge_variable(name, value, in_front=True):
            parsed.note(reason, value)
    return ()


def read_flock(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `flock`: what stands there alone is no file, but the number of one that is open."""
    return parsed.operands if parsed.wrapped else ()


def read_shell(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge how bash is started: with ``-c``, what it runs is read as commands; else a script."""
    if parsed.options == {"-n"} and parsed.operands and parsed.operands[0].text[:1] != "+":
        # It only checks the syntax, unless a further option takes that back.
        parsed.kinds, parsed.instead = ("path",), frozenset({"read"})
        return parsed.operands[:1]
    if parsed.option("-i", "-l", "--login") and not parsed.option("-c") and not parsed.operands:
        parsed.note("a shell at a terminal runs what is typed")
    return () if parsed.option("-c", "-s") else parsed.operands[:1]


def read_interpreter(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge an interpreter that is given no file: its input is the code."""
    is_module = parsed.option("-m", "--test", "--run")
    if is_module:
        parsed.uses.effects.add("run-code")
    if is_module or parsed.option("-c", "-e", "--eval", "-p", "-pe", "--check"):
        return ()
    if not parsed.operands or parsed.operands[0].text == "-":
        parsed.uses.effects.add("run-code")
        if parsed.instead is None:
            parsed.note("the code that it runs comes to its input")
        return ()
    return parsed.operands[:1]


def read_make(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge what is set for make: a variable may be the command that is run."""
    for word in parsed.operands:
        name, sign, value = word.text.partition("=")
        if sign and (name.endswith("!") or re.search(r"\$[({]|`", value)):
            parsed.note("it sets what make runs or expands", word)
        elif sign and name.rstrip("+:?!") in {
            "SHELL",
            "MAKE",
            "CC",
            "CXX",
            "MAKEFLAGS",
            ".SHELLFLAGS",
        }:
            parsed.note("it sets a program that make runs", word)
    return ()


def read_script(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `script`, which writes what a command prints to a file, be it named or not."""
    if not parsed.operands:
        parsed.uses.write(Word("typescript"))
    return parsed.operands


def read_test(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `test`, `[` and `[[`: names of variables and numbers are evaluated, so may run."""
    words = parsed.operands
    arithmetic = any(word.text in {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"} for word in words)
    variable = any(word.text in {"-v", "-R", "-N"} for word in words)
    for word in words:
        # An array's index is arithmetic, in which `$(…)` of a value is run.
        if (variable or arithmetic) and word.known and _EVALUATED.search(word.text.strip("[]")):
            parsed.note("what it evaluates may hold a command", word)
    return ()
