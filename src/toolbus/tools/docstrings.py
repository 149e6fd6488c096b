"""Docstrings in the formats of Google, NumPy and Sphinx: the description and the parameters."""

from __future__ import annotations

import re
from typing import NamedTuple

_ARGUMENTS = "Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters"
_RESULTS = "Returns|Yields|Raises|Receives|Warns|Example|Examples"
_FIELDS = "parameter|param|argument|arg|keyword|key"
_RESULT_FIELDS = "type|returns?|rtype|yields?|ytype|raises?|exception|except"

# For each format: a section of the docstring, and an entry in the block of a section of arguments.
_FORMATS = [
    (re.compile("".join(section), re.MULTILINE), re.compile(entry, re.DOTALL))
    for *section, entry in (
        # Google: a title with a colon, and the lines below it that are empty or indented.
        (
            rf"^[ ]*(?:(?P<arguments>{_ARGUMENTS})|{_RESULTS}):[ ]*$",
            r"(?P<block>(?:\n(?:[ ].*)?)*)",
            r"(?:[-*] )?\*{0,2}(?P<names>\w+)(?: ?\(.*?\))?:\s(?P<text>.+)",
        ),
        # NumPy: an underlined title, and the lines before the next one; `x, y : int` has two names.
        (
            rf"^(?:(?P<arguments>{_ARGUMENTS})|{_RESULTS})[ ]*\n-{{3,}}[ ]*$",
            r"(?P<block>(?:\n(?!.+\n[-=]{3,}[ ]*$).*)*)",
            r"(?P<names>\*{0,2}\w+(?:, *\*{0,2}\w+)*)(?: *:[^\n]*)?\n(?P<text>.+)",
        ),
        # Sphinx: a field, until the next field, or an empty line without an indented one after it.
        (
            rf"^:(?:(?P<arguments>{_FIELDS})[ ]|(?:{_RESULT_FIELDS})\b)",
            r"(?P<block>[^:\n]*:.*(?:\n+[ ]+\S.*|\n(?!:)\S.*)*)",
            r"(?:[^:]*[ ])?\\?\*{0,2}(?P<names>\w+):(?P<text>.*)",
        ),
    )
]


class Docstring(NamedTuple):
    """The *description* above all sections, and the texts of *parameters* by name, a line each."""

    description: str
    parameters: dict[str, str]


def parse(text: str) -> Docstring:
    """Return the parts of *text*, a docstring without its common indentation.

    The formats may be mixed. A parameter without a description is left out.
    """
    end, parameters = len(text), {}
    for section_pattern, entry_pattern in _FORMATS:
        for section in section_pattern.finditer(text):
            end = min(end, section.start())
            for entry in _entries(section["block"]) if section["arguments"] else ():
                if (match := entry_pattern.match(entry)) and match["text"].strip():
                    for name in match["names"].split(","):
                        parameters[name.strip(" *")] = " ".join(match["text"].split())
    return Docstring(text[:end].strip(), parameters)


def _entries(block: str) -> list[str]:
    """Return the entries of *block*: a line indented further continues the entry above."""
    if not block.startswith("\n"):
        return [block]  # A field of Sphinx is one entry.
    indent = block[: len(block) - len(block.lstrip())].rpartition("\n")[2]
    return re.split(rf"\n{indent}(?=\S)", block)
