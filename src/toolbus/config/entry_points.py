"""The component of `use`: a class in a file or module, or an entry point of a package."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.components.adapters import ToolAdapter
from toolbus.components.components import AgentComponent
from toolbus.config.python_modules import defines, explained, import_file
from toolbus.errors import LoadError
from toolbus.settings.hints import hint
from toolbus.toml.values import format_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint
    from types import ModuleType

    from toolbus.config.trusted_modules import TrustedModuleFinder

GROUP = "toolbus.components"
"""The group of entry points for component classes."""

SHIPPED = {
    "files": "toolbus.workspace.file_tools:FileTools",
    "flow": "toolbus.flow.flow_guard:FlowGuard",
    "opentelemetry": "toolbus.otel.component:OpenTelemetry",
    "pins": "toolbus.policy.pins.pin_tools:PinTools",
    "policy": "toolbus.policy.policy:Policy",
    "redact-personal-data": "toolbus.redaction.redact_personal_data:RedactPersonalData",
    "redact-secrets": "toolbus.redaction.redact_secrets:RedactSecrets",
    "shell": "toolbus.workspace.shell_tool:ShellTool",
    "truncate-output": "toolbus.truncation.truncate_output:TruncateOutput",
}
"""The entry points of toolbus itself, whose names no other package can use.

Searching all packages takes a hook's process longer than the event itself.
"""


def find_maker(
    use: str, folder: Path, modules: TrustedModuleFinder | None = None
) -> Callable[..., Any]:
    """Return the component class of *use*, or its function that makes a component.

    A relative file is relative to *folder*. Only the named module is imported; *modules*, if
    given, imports the trusted bytes of a file. Raises `LoadError`.
    """
    source, _, name = use.rpartition(":")
    if use.endswith(".py"):
        source, name = use, ""
    if source.endswith(".py"):
        made = _from_file(folder / Path(source).expanduser(), source, name, modules)
    elif source:
        made = _attribute(_module(source), source, name)
    else:
        made = _offered(use)
    return _checked(made, use)


def _checked(made: Any, use: str) -> Callable[..., Any]:
    if isinstance(made, type) and not issubclass(made, AgentComponent | ToolAdapter):
        raise LoadError(f"{use!r} is not a component, but class {made.__name__!r}")
    if isinstance(made, AgentComponent) or not callable(made):
        kind = type(made).__name__
        raise LoadError(f"{use!r} is not a class of components, but an object of {kind!r}")
    maker: Callable[..., Any] = made
    return maker


def offered_modules(name: str) -> set[str]:
    """Return the modules of the entry points with *name*."""
    if name in SHIPPED:
        return {SHIPPED[name].partition(":")[0]}
    from importlib.metadata import entry_points  # noqa: PLC0415 - as below

    return {point.module for point in entry_points(group=GROUP, name=name)}


def _from_file(file: Path, source: str, name: str, modules: TrustedModuleFinder | None) -> Any:
    if not file.is_file():
        raise LoadError(
            f"there is no file {str(file)!r}; a relative path starts at this file's folder"
        )
    if modules is None:
        module = import_file(file)
    else:
        module = explained(file, partial(modules.load, file.resolve()))
    if name:
        return _attribute(module, source, name)
    classes = {
        id(value): value
        for value in vars(module).values()
        if defines(module, value, AgentComponent)
    }
    if len(classes) == 1:
        return next(iter(classes.values()))
    names = ", ".join([each.__name__ for each in classes.values()])
    reason = f"has several components; give {source}:NAME, one of {names}"
    raise LoadError(f"{file} {reason if classes else 'has no class of components; write one'}")


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise LoadError(f"module {name!r} cannot be imported: {format_error(error)}") from error
        way_out = "install its package, or give a file, ./FILE.py:Class"
        raise LoadError(f"there is no module {error.name!r}; {way_out}") from None
    except (Exception, SystemExit) as error:
        raise LoadError(f"module {name!r} cannot be imported: {format_error(error)}") from error


def _attribute(module: ModuleType, source: str, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        known = [
            known_name
            for known_name, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, AgentComponent | ToolAdapter)
        ]
        raise LoadError(f"{source} has no {name!r}{hint(name, known)}") from None


def _offered(name: str) -> Any:
    """Return the object of the entry point *name*."""
    if name in SHIPPED:
        module, _, attribute = SHIPPED[name].partition(":")
        return _imported(
            lambda: getattr(importlib.import_module(module), attribute), name, "toolbus"
        )
    # Slow to import, and many configurations need no entry point of a package.
    from importlib.metadata import entry_points  # noqa: PLC0415

    points = entry_points(group=GROUP)
    offers = {point.value: point for point in points if point.name == name}
    if not offers:
        known = {point.name for point in points}
        none = "; no installed package offers one. A file is named ./FILE.py:Class"
        raise LoadError(f"unknown component {name!r}{hint(name, known) if known else none}")
    if len(offers) > 1:
        owners = " and ".join(sorted([_owner(point) for point in offers.values()]))
        ways = ", ".join(sorted(offers))
        raise LoadError(f"component {name!r} is offered by {owners}; give one of {ways}")
    (point,) = offers.values()
    return _imported(point.load, name, _owner(point))


def _imported(load: Callable[[], Any], name: str, owner: str) -> Any:
    try:
        return load()
    except (Exception, SystemExit) as error:
        reason = f"component {name!r} of {owner} cannot be imported: {format_error(error)}"
        raise LoadError(reason) from error


def _owner(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
