"""All mistakes of a policy's file: each is found, taken out of a copy, and the rest read again."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from toolbus.errors import ConfigurationError
from toolbus.policy.rules.documents import PolicyFile, read_table
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 100
"""Mistakes that are looked for."""
_NEEDED = ("name", "verdict")


def find_mistakes(file: PolicyFile) -> list[ConfigurationError]:
    """Return why *file* cannot be read, in the order of its lines; none if it can."""
    rest = deepcopy(file.table)
    mistakes: list[ConfigurationError] = []
    while len(mistakes) < MOST:
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
            each = table[kind][index]
            key = inner[0] if inner else None
            if key in each and key not in _NEEDED:
                del each[key]
                return True
            if key == "verdict" and key in each:
                # Nothing is told of a prompt, which depends on the verdict.
                each.update(verdict="audit")
                each.pop("prompt", None)
                return True
            # A call keeps its name, for rules ask for it.
            name = each.get("name") if kind == "call" and key != "name" else None
            name = name if isinstance(name, str) and name else f"{kind} {index + 1}"
            stub = {"name": name} | ({"verdict": "audit"} if kind == "rule" else {})
            table[kind][index] = stub
            return bool(each != stub)
        case ["tools", str() as name, str() as key, *_] if key in table["tools"][name]:
            del table["tools"][name][key]
            return True
        case ["tools", str() as name, *_] if isinstance(table["tools"], dict):
            return table["tools"].pop(name, None) is not None
        case [str() as key, *_]:
            return table.pop(key, None) is not None
    return False
