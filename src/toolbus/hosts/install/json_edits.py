"""Additions to a JSON text, and removals from it, by position: all other text stays."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.hosts.install.json_positions import after_blanks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.hosts.install.json_positions import JsonNode

    Path: TypeAlias = tuple[str, ...]
    """Names of members and indices of items, from the root."""

    Cut: TypeAlias = tuple[int, int, str]
    """A span of a text, and its replacement."""

_INDENT = re.compile(r"\n([ \t]+)\S")
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\n]*?\*/)*(?://[^\n]*)?")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)

# --- adding --------------------------------------------------------------------------------------


def add_values(text: str, root: JsonNode, additions: Mapping[str, Any]) -> str:
    """Return *text* with *additions* after the existing members and items of *root*.

    An existing object or array gets its missing parts; an existing plain value stays. Text is only
    inserted, so `remove_values` can restore each byte.
    """
    return _replace(
        text, [(start, start, new) for start, new in _insertions(text, root, additions)]
    )


def added_lines(text: str, root: JsonNode, additions: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the lines that `add_values` adds, without other parts of *text*."""
    inserted = "\n".join([new for _, new in sorted(_insertions(text, root, additions))])
    lines = [line.removeprefix(", ") for line in inserted.splitlines()]
    return tuple([line for line in lines if line.strip(" \t,")])


def present_parts(
    text: str, node: JsonNode, additions: Any, path: Path = ()
) -> Iterator[tuple[str, str]]:
    """Yield path and text of the parts of *additions* that exist in *text* below *node*.

    These are the plain values, and empty objects and arrays.
    """
    if not node.children:
        yield _pointer(path), text[node.start : node.end]
    for name in additions if isinstance(additions, dict) else ():
        if (child := node.child(name)) is not None:
            yield from present_parts(text, child, additions[name], (*path, name))


def _insertions(text: str, node: JsonNode, additions: Any) -> Iterator[tuple[int, str]]:
    """Yield positions in *text*, each with the text to insert there."""
    if isinstance(additions, list):
        yield from _insertion(text, node, [("", value) for value in additions])
        return
    missing = []
    for name, value in additions.items():
        child = node.child(name)
        if child is None:
            missing.append((name, value))
        elif isinstance(value, dict | list):
            yield from _insertions(text, child, value)
    if missing:
        yield from _insertion(text, node, missing)


def _insertion(
    text: str, node: JsonNode, pairs: list[tuple[str, Any]]
) -> Iterator[tuple[int, str]]:
    """Yield the insertions of values with their names ("" in an array) after those of *node*.

    They get lines of their own, unless *node* is nonempty and on one line.
    """
    end = node.children[-1].end if node.children else node.start + 1
    if node.children and "\n" not in text[node.start : node.end]:
        yield end, "".join([f", {_label(name)}{json.dumps(value)}" for name, value in pairs])
        return
    newline, outer = _newline(text), _indent_at(text, node.start)
    indent = outer + _unit(text)
    if node.children:
        indent = _indent_at(text, node.child_start(len(node.children) - 1))
    lines = [
        f"{newline}{indent}{_label(name)}{_render(text, value, indent)}" for name, value in pairs
    ]
    block = ",".join(lines)
    if node.children:
        # A comment after the last child belongs to it, so the new lines come below the comment.
        line_end = _end_of_line(text, end)
        yield from [(end, f",{block}")] if line_end == end else [(end, ","), (line_end, block)]
        return
    inside = text[end : node.end - 1]
    comments = inside.rstrip()
    # A comment may extend to the end of its line, so the newline stays before the bracket.
    closing = "" if "\n" in inside[len(comments) :] else f"{newline}{outer}"
    yield end + len(comments), f"{block}{closing}"


# --- removing ------------------------------------------------------------------------------------


def remove_values(
    text: str,
    root: JsonNode,
    is_ours: Callable[[Path, Any], bool],
    parts: Mapping[str, str],
) -> str:
    """Return *text* without the values below *root* for which *is_ours* is true.

    *parts* are those of `present_parts` before the values were added; a value among them stays. An
    object or array that becomes empty gets its earlier text from *parts*, or is removed as well.
    """
    cuts = _removals(text, root, (), is_ours, parts)
    return _replace(text, [(root.start, root.end, "{}")] if cuts is None else cuts)


def _removals(
    text: str,
    node: JsonNode,
    path: Path,
    is_ours: Callable[[Path, Any], bool],
    parts: Mapping[str, str],
) -> list[Cut] | None:
    """Return the cuts below *node*; None if all of it is removed."""
    # A parent's fate depends on all its children: it is kept, cut, reset to its text, or gone.
    cuts: list[Cut] = []
    gone: list[int] = []
    for index, child in enumerate(node.children):
        below = (*path, str(index) if node.keys is None else node.keys[index][0])
        inner = None
        if _pointer(below) in parts or not is_ours(below, child.value):
            inner = _removals(text, child, below, is_ours, parts)
        if inner is None:
            gone.append(index)
        else:
            cuts += inner
    if not gone:
        return cuts
    if len(gone) < len(node.children):
        return cuts + [cut for run in _runs(gone) for cut in _cuts(text, node, run)]
    rest, before = _between(text, node), parts.get(_pointer(path))
    if before is not None and before[1:-1].split() == rest.split():
        return [(node.start, node.end, before)]
    if before is None and not rest.strip():
        return None
    return [(node.start + 1, node.end - 1, rest)]


def _pointer(path: Path) -> str:
    return "".join([f"/{name}" for name in path])


def _runs(indices: list[int]) -> list[range]:
    """Return the runs of consecutive *indices*."""
    runs: list[range] = []
    for index in indices:
        if runs and runs[-1].stop == index:
            runs[-1] = range(runs[-1].start, index + 1)
        else:
            runs.append(range(index, index + 1))
    return runs


def _cuts(text: str, node: JsonNode, run: range) -> Iterator[Cut]:
    """Yield the cuts of the children in *run*, with their commas; other children of *node* stay."""
    is_last = run.stop == len(node.children)
    ends = [child.end for child in node.children]
    commas = [after_blanks(text, ends[index - is_last]) for index in run]
    tail = ends[-1] if is_last else commas[-1] + 1
    line_goes_on = bool(text[tail:].partition("\n")[0].strip())
    gaps = [text[ends[i - 1] if i else node.start : node.child_start(i)] for i in run]
    # The rest of the line must not be appended to a comment on the line above.
    keeps_lines = line_goes_on and any("//" in gap for gap in gaps)
    for index, comma in zip(run, commas, strict=True):
        start = node.child_start(index)
        yield start if keeps_lines else len(text[:start].rstrip()), ends[index], ""
        yield comma, comma + 1, ""


def _between(text: str, node: JsonNode) -> str:
    """Return the blanks and comments inside *node*, between its children."""
    gaps, position = "", node.start + 1
    for index, child in enumerate(node.children):
        gaps += text[position : node.child_start(index)]
        position = child.end
        if index + 1 < len(node.children):
            comma = after_blanks(text, position)
            gaps += text[position:comma]
            position = comma + 1
    return gaps + text[position : node.end - 1]


def _replace(text: str, cuts: list[Cut]) -> str:
    for start, end, new in sorted(cuts, reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    return text


# --- layout --------------------------------------------------------------------------------------


def _label(name: str) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}: " if name else ""


def _render(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).splitlines()
    return f"{_newline(text)}{indent}".join(lines)


def _unit(text: str) -> str:
    """Return the indentation of a level in *text*, taken from its first indented line."""
    match = _INDENT.search(_COMMENT.sub("", text))
    return "  " if match is None else match[1]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, position: int) -> str:
    """Return the indentation of the line of *position*."""
    line = text[text.rfind("\n", 0, position) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _end_of_line(text: str, position: int) -> int:
    """Return the end of a comment that fills the line after *position*; else *position*."""
    match = _REST_OF_LINE.match(text, position)
    if match is None or not match[0].strip():
        return position
    return position + len(match[0].rstrip())
