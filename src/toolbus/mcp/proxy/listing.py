"""A server's list of tools as specs for handlers, and as they left it, back into the list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.events.values import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, thaw

if TYPE_CHECKING:
    from collections.abc import Iterable

_MEMBERS = {
    "description": "description",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
    "annotations": "annotations",
}


def specs_of(tools: Iterable[Any]) -> tuple[ToolSpec, ...]:
    """Return the specs of *tools*, as JSON; what has no name is none. Raises `FreezeError`."""
    return tuple([_spec(one) for one in tools if isinstance(_member(one, "name", str, None), str)])


def _spec(tool: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=tool["name"],
        description=_member(tool, "description", str, ""),
        input_schema=_member(tool, "inputSchema", dict, {"type": "object"}),
        output_schema=_member(tool, "outputSchema", dict, None),
        annotations=_member(tool, "annotations", dict, EMPTY),
    )


def sound(spec: ToolSpec) -> ToolSpec:
    """Return *spec* without the schemas that nothing can be checked against."""
    output, takes = spec.output_schema, spec.input_schema
    return ToolSpec(
        name=spec.name,
        description=spec.description,
        input_schema={"type": "object"} if schemas.check_schema(takes) else takes,
        output_schema=None if output is None or schemas.check_schema(output) else output,
        annotations=spec.annotations,
    )


def relisted(
    tools: list[Any], before: Iterable[ToolSpec], after: Iterable[ToolSpec]
) -> tuple[list[Any], tuple[str, ...]]:
    """Return *tools* as handlers left their specs, and the names of specs that are no tool's.

    What a spec does not say of a tool, its title or its icons, stays.
    """
    given = {spec.name: spec for spec in before}
    known = {_member(one, "name", str, None): one for one in tools}
    strange = tuple([spec.name for spec in after if spec.name not in given])
    listed = [
        _reworded(known[spec.name], given[spec.name], spec) for spec in after if spec.name in given
    ]
    return listed, strange


def listing_of(spec: ToolSpec) -> dict[str, Any]:
    """Return what a list says of a tool that no server has."""
    return _reworded({"name": spec.name}, ToolSpec(name=spec.name, input_schema=EMPTY), spec)


def _reworded(tool: dict[str, Any], before: ToolSpec, after: ToolSpec) -> dict[str, Any]:
    changed = {
        member: thaw(getattr(after, field))
        for field, member in _MEMBERS.items()
        if getattr(after, field) != getattr(before, field)
    }
    new = {**tool, **changed}
    return {name: value for name, value in new.items() if name not in changed or value is not None}


def _member(item: Any, name: str, kind: type, default: Any) -> Any:
    found = item.get(name) if isinstance(item, dict) else None
    return found if isinstance(found, kind) else default
