"""Docstrings in the formats of Google, NumPy and Sphinx: the description and the parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_ARGUMENTS = "Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters"
_RESULTS = "Returns|Yields|Raises|Receives|Warns|Example|Examples"
_FIELDS = "parameter|param|argument|arg|keyword|key"
_RESULT_FIELDS = "type|returns?|rtype|yields?|ytype|raises?|exception|except"

# A title with a colon, and the lines below it that are empty or indented.
_GOOGLE = re.compile(
    rf"^[ ]*(?:(?P<arguments>{_ARGUMENTS})|{_RESULTS}):[ ]*$(?P<block>(?:\n(?:[ ].*)?)*)",
    re.MULTILINE,
)
_GOOGLE_ENTRY = re.compile(
    r"(?:[-*] )?\*{0,2}(?P<name>\w+)(?: ?\(.*?\))?:\s(?P<text>.+)", re.DOTALL
)
# A title underlined with dashes, and the lines before the next one.
_NUMPY = re.compile(
    rf"^(?:(?P<arguments>{_ARGUMENTS})|{_RESULTS})[ ]*\n-{{3,}}[ ]*$"
    r"(?P<block>(?:\n(?!.+\n[-=]{3,}[ ]*$).*)*)",
    re.MULTILINE,
)
_NUMPY_ENTRY = re.compile(
    r"(?P<names>\*{0,2}\w+(?:, *\*{0,2}\w+)*)(?: *:[^\n]*)?\n(?P<text>.+)", re.DOTALL
)
# The text goes on until the next field, or until an empty line with no indented one after it.
_SPHINX = re.compile(
    rf"^:(?:(?P<arguments>{_FIELDS})[ ](?:[^:\n]*[ ])?\\?\*{{0,2}}(?P<name>\w+)"
    rf"|(?:{_RESULT_FIELDS})\b[^:\n]*):(?P<text>.*(?:\n+[ ]+\S.*|\n(?!:)\S.*)*)",
    re.MULTILINE,
)


class Docstring(NamedTuple):
    """The *description* above all sections, and the texts of *parameters* by name, a line each."""

    description: str
    parameters: dict[str, str]


def parse(text: str) -> Docstring:
    """Return the parts of *text*, a docstring without its common indentation.

    The formats may be mixed. A parameter without a description is left out.
    """
    formats = (_GOOGLE, _NUMPY, _SPHINX)
    first = [match.start() for pattern in formats if (match := pattern.search(text))]
    entries = [*_google_entries(text), *_numpy_entries(text), *_sphinx_entries(text)]
    parameters = {name: " ".join(entry.split()) for name, entry in entries if entry.strip()}
    return Docstring(text[: min(first, default=None)].strip(), parameters)


def _google_entries(text: str) -> Iterator[tuple[str, str]]:
    for section in _sections(_GOOGLE, text):
        for entry in _entries(section):
            if match := _GOOGLE_ENTRY.match(entry):
                yield match["name"], match["text"]


def _numpy_entries(text: str) -> Iterator[tuple[str, str]]:
    for section in _sections(_NUMPY, text):
        for entry in _entries(section):
            if match := _NUMPY_ENTRY.match(entry):
                # `x, y : int` describes both.
                for name in match["names"].split(","):
                    yield name.strip(" *"), match["text"]


def _sphinx_entries(text: str) -> Iterator[tuple[str, str]]:
    for match in _SPHINX.finditer(text):
        if match["arguments"]:
            yield match["name"], match["text"]


def _sections(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the blocks of *text* that describe parameters."""
    return [match["block"] for match in pattern.finditer(text) if match["arguments"]]


def _entries(block: str) -> list[str]:
    """Return the entries of *block*: lines indented further continue the entry above them."""
    indent = block[: len(block) - len(block.lstrip())].rpartition("\n")[2]
    return re.split(rf"\n{indent}(?=\S)", block)
