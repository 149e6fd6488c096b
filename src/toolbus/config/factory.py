"""The factory of components: settings, checked by the constructor's signature."""

from __future__ import annotations

import inspect
from inspect import Parameter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

from toolbus.components.components import AgentComponent, component_of
from toolbus.settings.hints import unknown_key
from toolbus.toml.values import MisfitError, fit, format_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def make_component(
    maker: Callable[..., Any], settings: Mapping[str, Any], folder: Path
) -> AgentComponent:
    """Return the component that *maker* makes of *settings*; relative paths start at *folder*.

    Raises `MisfitError`, with the path in the settings, for an unknown or missing name, for a
    value of a wrong type, and for an error of *maker*.
    """
    arguments = _arguments(maker, settings, folder)
    try:
        made = maker(**arguments)
    except MisfitError:
        raise  # Its path names the setting.
    except (Exception, SystemExit) as error:
        raise MisfitError(f"it cannot be made: {format_error(error)}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise MisfitError("its factory is async; give a sync function")
    made = component_of(made)
    if not isinstance(made, AgentComponent):
        raise MisfitError(f"expected a component from its factory, got {type(made).__name__!r}")
    return made


def _arguments(
    maker: Callable[..., Any], settings: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    parameters = inspect.signature(maker).parameters.values()
    named = {each.name: each for each in parameters if each.kind in _NAMED}
    others = next((each for each in parameters if each.kind is Parameter.VAR_KEYWORD), None)
    removed = getattr(maker, "removed_settings", {})
    for name in settings:
        if name not in named and others is None:
            raise MisfitError(removed.get(name, unknown_key(name, named, "setting")), name)
    missing = [repr(name) for name in _required(parameters) if name not in settings]
    if missing:
        what = "setting" if len(missing) == 1 else "settings"
        raise MisfitError(f"it needs the {what} {', '.join(missing)}")
    return {
        name: _fitted(value, _type_of(maker, named.get(name, others)), name, folder)
        for name, value in settings.items()
    }


def setting_types(maker: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of each setting of *maker*, Any for an unreadable hint."""
    types: dict[str, Any] = {}
    for each in inspect.signature(maker).parameters.values():
        if each.kind in _NAMED:
            try:
                types[each.name] = _type_of(maker, each)
            except MisfitError:
                types[each.name] = Any
    return types


def _required(parameters: Iterable[Parameter]) -> Iterator[str]:
    for parameter in parameters:
        if parameter.kind is Parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise MisfitError(
                f"its parameter {parameter.name!r} is positional-only; settings are named"
            )
        if parameter.kind in _NAMED and parameter.default is parameter.empty:
            yield parameter.name


def _fitted(value: object, kind: Any, name: str, folder: Path) -> Any:
    try:
        return fit(value, kind, folder)
    except MisfitError as error:
        raise MisfitError(f"setting {name!r}: {error.reason}", name, *error.path) from error


def _type_of(maker: Any, parameter: Parameter | None) -> Any:
    """Return the type hint of a parameter of *maker*, Any if there is none."""
    if parameter is None or parameter.annotation is parameter.empty:
        return Any
    function = inspect.unwrap(maker if inspect.isroutine(maker) else maker.__init__)
    # One by one: an unreadable hint matters only for a setting that is given.
    holder = SimpleNamespace(__annotations__={"it": parameter.annotation})
    names = getattr(function, "__globals__", {})
    try:
        return get_type_hints(holder, names, include_extras=True)["it"]
    except (NameError, SyntaxError, TypeError) as error:
        reason = f"setting {parameter.name!r}: its type hint cannot be read: {error}"
        raise MisfitError(f"{reason}; import it while the program runs", parameter.name) from None
