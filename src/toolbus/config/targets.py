"""An agent, a bus or a component, found in a Python file; or what a configuration names."""

from __future__ import annotations

import inspect
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from toolbus.bus.bus import EventBus
from toolbus.components.components import AgentComponent, component_of
from toolbus.components.participants import ComponentHost
from toolbus.config.python_modules import defines, import_file
from toolbus.errors import LoadError
from toolbus.settings.files import reason_of
from toolbus.settings.hints import nearest
from toolbus.toml.values import worded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from toolbus.agent.agent import Agent
    from toolbus.components.components import Host
    from toolbus.config.configuration import Configuration

_WANTED = "agent, bus or component"
_POLICY_KEYS = frozenset({"default", "rule", "call", "tools", "trust_annotations"})
_CONFIGURATION_KEYS = frozenset({"component", "server", "price", "approvals"})
"""Keys at the top of a policy's file, and of a configuration."""


class LoadedTarget(NamedTuple):
    """The bus of a *target*, what that was, and who speaks there with which components."""

    bus: EventBus
    target: str
    kind: str
    host: Host
    components: tuple[AgentComponent, ...] = ()
    configuration: Configuration | None = None


def load(target: str) -> LoadedTarget:
    """Return what *target*, `FILE.py[:name]`, a configuration or a policy, means.

    Raises `LoadError`.
    """
    if target.endswith(".toml"):
        return _load_policy(target) if _is_policy(target) else load_configuration(target)
    file, name = _split(target)
    with redirect_stdout(sys.stderr):
        module = import_file(file)
        names = vars(module)
        if name is None:
            name = _only_candidate(file, module)
        elif name not in names:
            raise LoadError(f"{file} has no {name!r}{_hint(name, module)}")
        where = f"{file}:{name}"
        return _resolve(names[name], where)


def load_configuration(file: str | None = None) -> LoadedTarget:
    """Return what the configuration *file*, else the nearest one, names; raises `LoadError`."""
    from toolbus.config import configuration  # noqa: PLC0415 - not for those who name a file of Python

    return _loaded(configuration.read(file))


def load_changed(file: str) -> LoadedTarget:
    """Return what the configuration *file* names, changed and trusted; raises `LoadError`."""
    from toolbus.config import configuration  # noqa: PLC0415 - as above

    return _loaded(configuration.read_changed(file))


def load_nearest() -> LoadedTarget | None:
    """Return what is in force here, None if nothing is; raises `LoadError`."""
    from toolbus.config import configuration  # noqa: PLC0415 - as above

    read = configuration.read_nearest()
    return None if read is None else _loaded(read)


def load_for_session(file: Path | None) -> LoadedTarget | None:
    """Return what is in force in a session for which the project's *file* was found.

    None: nothing is. Raises `LoadError` if *file* was trusted and has changed, or is gone.
    """
    from toolbus.config import configuration  # noqa: PLC0415 - as above

    read = configuration.read_for_session(file)
    return None if read is None else _loaded(read)


def _is_policy(file: str) -> bool:
    """Return whether *file* has keys of a policy at its top, and none of a configuration."""
    from toolbus.config.documents import read_document  # noqa: PLC0415 - as above

    keys = read_document(Path(file).expanduser()).table.keys()
    return bool(keys & _POLICY_KEYS) and not keys & _CONFIGURATION_KEYS


def _load_policy(file: str) -> LoadedTarget:
    from toolbus.config.entry_points import find_maker  # noqa: PLC0415 - as above
    from toolbus.config.factory import make_component  # noqa: PLC0415 - as above

    folder = Path.cwd()
    policy = make_component(find_maker("policy", folder), {"file": file}, folder)
    host = _installed([policy], file)
    return LoadedTarget(host.bus, file, "component", host, (policy,))


def _loaded(read: Configuration) -> LoadedTarget:
    where, components = str(read.file), read.components
    with redirect_stdout(sys.stderr):
        host = _installed(components, where)
    return LoadedTarget(host.bus, where, "configuration", host, components, read)


def _split(target: str) -> tuple[Path, str | None]:
    file, _, name = target.rpartition(":")
    # Nothing in a file is called `\\x\\policy.py`: then the colon belongs to the path.
    is_named = bool(file) and (not name or name.isidentifier()) and not Path(target).exists()
    path = Path(file if is_named else target)
    if path.is_dir():
        raise LoadError(f"{path} is a folder; give FILE.py[:name]")
    if not path.is_file():
        raise LoadError(f"there is no file {str(path)!r}; give FILE.py[:name]")
    if path.suffix != ".py":
        raise LoadError(f"{path} is no Python file; give FILE.py[:name]")
    try:
        path.open("rb").close()
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {reason_of(error)}") from error
    return path, (name or None) if is_named else None


def _only_candidate(file: Path, module: ModuleType) -> str:
    candidates = _candidates(module)
    if not candidates:
        raise LoadError(f"{file} has no {_WANTED}; give FILE.py:name of a function that makes one")
    if len(candidates) > 1:
        raise LoadError(f"{file} has several; say {file}:NAME, one of {', '.join(candidates)}")
    return candidates[0]


def _hint(name: str, module: ModuleType) -> str:
    candidates = ", ".join(_candidates(module))
    return nearest(name, vars(module)) or (f"; there is {candidates}" if candidates else "")


def _candidates(module: ModuleType) -> list[str]:
    """Return the names of what may be meant: agents and buses before components and their classes.

    An agent and its bus are one candidate, and so are two names of one object.
    """
    public = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    for choose in (_bus_of, _component, lambda value: _own_class(value, module)):
        chosen: dict[int, str] = {}
        # Agents first, so that their buses go by their names.
        for name, value in sorted(public.items(), key=lambda item: not _is_agent(item[1])):
            if (candidate := choose(value)) is not None:
                chosen.setdefault(id(candidate), name)
        if chosen:
            return list(chosen.values())
    return []


def _is_agent(value: object) -> TypeGuard[Agent]:
    # As long as nobody has loaded agents, nothing is one; and to load them takes a while.
    module = sys.modules.get("toolbus.agent.agent")
    return module is not None and isinstance(value, module.Agent)


def _bus_of(value: object) -> EventBus | None:
    if _is_agent(value):
        return value.bus
    return value if isinstance(value, EventBus) else None


def _component(value: object) -> AgentComponent | None:
    return value if isinstance(value, AgentComponent) else None


def _own_class(value: object, module: ModuleType) -> object | None:
    return value if defines(module, value, AgentComponent) else None


def _resolve(value: Any, where: str) -> LoadedTarget:
    """Return the bus of *value*, made by calling it if it is a function or a class."""
    known = _is_agent(value) or isinstance(value, EventBus | AgentComponent)
    if not known and callable(value):
        where = f"{where}()"
        value = _made(value, where)
    value = component_of(value)
    if _is_agent(value):
        return LoadedTarget(value.bus, where, "agent", value, value.components)
    if isinstance(value, EventBus):
        return LoadedTarget(value, where, "bus", ComponentHost(value))
    if isinstance(value, AgentComponent):
        kind, components = "component", [value]
    else:
        kind, components = "components", _components(value, where)
    host = _installed(components, where)
    return LoadedTarget(host.bus, where, kind, host, tuple(components))


def _components(value: Any, where: str) -> list[AgentComponent]:
    components = [component_of(each) for each in value] if isinstance(value, list | tuple) else []
    if not components or not all(isinstance(item, AgentComponent) for item in components):
        raise LoadError(f"{where} is no {_WANTED}, but {type(value).__name__!r}")
    return components


def _made(make: Callable[[], Any], where: str) -> Any:
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        raise LoadError(f"{where}: {error}; give a function without arguments") from None
    try:
        made = make()
    except (Exception, SystemExit) as error:
        raise LoadError(f"{where} raised {worded(error)}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise LoadError(f"{where} is async; give a function that is not")
    return made


def _installed(components: Sequence[AgentComponent], where: str) -> ComponentHost:
    host = ComponentHost()
    for component in components:
        try:
            component.setup(host)
        except Exception as error:
            raise LoadError(f"{where} cannot be installed: {worded(error)}") from error
    return host
