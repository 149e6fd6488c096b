"""Members and items put into a JSON text and taken out of it, by position: all else stays."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from toolbus.hosts.install.json_positions import after_blanks

if TYPE_CHECKING:
    from toolbus.hosts.install.json_positions import JsonNode

_INDENT = re.compile(r"\n([ \t]+)\S")
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\n]*?\*/)*(?://[^\n]*)?")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def insert_last(text: str, node: JsonNode, value: Any, name: str = "") -> str:
    """Return *text* with *value* behind the last child of *node*; *name* is an object's member.

    It gets lines of its own, unless all of *node* stands on one line and holds something.
    """
    if not node.children:
        return _insert_only(text, node, value, name)
    end = node.children[-1].end
    if "\n" not in text[node.start : node.end]:
        return f"{text[:end]}, {_label(name)}{json.dumps(value)}{text[end:]}"
    newline, indent = _newline(text), _indent_at(text, node.child_start(len(node.children) - 1))
    # A comment behind the last child belongs to it, so what is new stands below that.
    line_end = _end_of_line(text, end)
    block = f"{newline}{indent}{_label(name)}{_render(text, value, indent)}"
    closing = ""
    if "\n" not in text[line_end : node.end]:
        closing = f"{newline}{_indent_at(text, node.start)}"
    return f"{text[:end]},{text[end:line_end]}{block}{closing}{text[line_end:]}"


def remove_child(text: str, node: JsonNode, index: int) -> str:
    """Return *text* without the child of *node* with that *index*, and without its comma."""
    start, end = node.child_start(index), node.children[index].end
    if index + 1 < len(node.children):
        comma = after_blanks(text, end)
        tail = f"{text[end:comma]}{text[comma + 1 :]}"
        return f"{text[: _begin(text, start, tail)]}{tail}"
    begin = _begin(text, start, text[end:])
    if index:
        comma = after_blanks(text, node.children[index - 1].end)
        return f"{text[:comma]}{text[comma + 1 : begin]}{text[end:]}"
    inside = f"{text[node.start + 1 : begin]}{text[end : node.end - 1]}"
    return f"{text[: node.start + 1]}{inside if inside.strip() else ''}{text[node.end - 1 :]}"


def _begin(text: str, start: int, tail: str) -> int:
    """Return where what is removed begins: with the blanks in front of *start*.

    But if *tail* goes on in the same line, it must not come behind a comment of the line above.
    """
    begin = len(text[:start].rstrip())
    goes_on = bool(tail.partition("\n")[0].strip())
    return start if goes_on and "\n" in text[begin:start] else begin


def _insert_only(text: str, node: JsonNode, value: Any, name: str) -> str:
    newline, outer = _newline(text), _indent_at(text, node.start)
    indent = outer + _unit(text)
    inside = text[node.start + 1 : node.end - 1]
    written = inside.rstrip()  # Comments, if anything.
    block = f"{newline}{indent}{_label(name)}{_render(text, value, indent)}"
    rest = inside[len(written) :]
    # The end of a line must stay in front of the bracket: the comment may reach to it.
    closing = rest if "\n" in rest else f"{newline}{outer}"
    return f"{text[: node.start + 1]}{written}{block}{closing}{text[node.end - 1 :]}"


def _label(name: str) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}: " if name else ""


def _render(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).splitlines()
    return f"{_newline(text)}{indent}".join(lines)


def _unit(text: str) -> str:
    """Return by how much *text* moves a level to the right: what its first such line has."""
    match = _INDENT.search(_COMMENT.sub("", text))
    return "  " if match is None else match[1]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, position: int) -> str:
    """Return the blanks at the beginning of the line in which *position* is."""
    line = text[text.rfind("\n", 0, position) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _end_of_line(text: str, position: int) -> int:
    """Return where a comment behind *position* ends, if only that stands there; else *position*."""
    match = _REST_OF_LINE.match(text, position)
    if match is None or not match[0].strip():
        return position
    return position + len(match[0].rstrip())
