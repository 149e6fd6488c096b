"""The target of a command: an agent, bus or component of a Python file, or a configuration."""

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
from toolbus.settings.hints import hint, nearest
from toolbus.toml.values import format_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from toolbus.agent.agent import Agent
    from toolbus.components.components import Host
    from toolbus.config.configuration import Configuration
    from toolbus.store.protocol import Store

_WANTED = "agent, bus or component"
_POLICY_KEYS = frozenset({"default", "rule", "call", "tools", "trust_annotations"})
_CONFIGURATION_KEYS = frozenset({"component", "server", "price", "approvals"})
"""The top-level keys of a policy, and of a configuration."""


class LoadedTarget(NamedTuple):
    """The bus of a *target*, the target's kind, and the host of its *components*."""

    bus: EventBus
    target: str
    kind: str
    host: Host
    components: tuple[AgentComponent, ...] = ()
    configuration: Configuration | None = None


def load(target: str) -> LoadedTarget:
    """Load *target*: `FILE.py[:name]`, a configuration or a policy; raises `LoadError`."""
    if target.endswith(".toml"):
        return _load_policy(target) if _is_policy(target) else load_configuration(target)
    with redirect_stdout(sys.stderr):
        return _resolve(*_find(target))


def load_factory(target: str) -> Callable[[str, Store], Agent]:
    """Load the function `FILE.py:name` that makes the agent of a session; raises `LoadError`."""
    file, name = _split(target)
    with redirect_stdout(sys.stderr):
        module = import_file(file)
    way_out = "give a function of `session_id` and `store` that makes an agent"
    if name is None or name not in vars(module):
        known = _factories(module)
        problem = "needs the name of a function" if name is None else f"has no {name!r}"
        raise LoadError(f"{file} {problem}{hint(name or '', known) if known else f'; {way_out}'}")
    make, where = vars(module)[name], f"{file}:{name}"
    if _is_agent(make) or not callable(make):
        raise LoadError(f"{where} is not a function, but {type(make).__name__!r}; {way_out}")
    if misfit := _misfit(make):
        raise LoadError(f"{where}: {misfit}; {way_out}")
    factory: Callable[[str, Store], Agent] = make
    return factory


def _factories(module: ModuleType) -> list[str]:
    """Return the names of the functions of *module* that take a session and a store."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not _misfit(value)
    ]


def _misfit(make: Callable[..., Any]) -> str:
    """Return the reason why *make* does not take a session and a store, or ""."""
    try:
        inspect.signature(make).bind("session", None)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def _find(target: str) -> tuple[Any, str]:
    """Return the object `FILE.py[:name]` and its place."""
    file, name = _split(target)
    module = import_file(file)
    names = vars(module)
    if name is None:
        name = _only_candidate(file, module)
    elif name not in names:
        way_out = nearest(name, names) or hint(name, _candidates(module))
        raise LoadError(f"{file} has no {name!r}{way_out}")
    return names[name], f"{file}:{name}"


def load_configuration(file: str | None = None) -> LoadedTarget:
    """Load the configuration *file*, by default the active one; raises `LoadError`."""
    from toolbus.config import configuration  # noqa: PLC0415 - a Python file needs none

    return install(configuration.read(file))


def _is_policy(file: str) -> bool:
    """Return whether the top-level keys of *file* are a policy's, not a configuration's."""
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


def install(read: Configuration) -> LoadedTarget:
    """Install the components of a configuration on a new bus; raises `LoadError`."""
    where, components = str(read.file), read.components
    with redirect_stdout(sys.stderr):
        host = _installed(components, where)
    return LoadedTarget(host.bus, where, "configuration", host, components, read)


def _split(target: str) -> tuple[Path, str | None]:
    file, _, name = target.rpartition(":")
    # `C:\\x\\policy.py` names nothing in a file: its colon belongs to the path.
    is_named = bool(file) and (not name or name.isidentifier()) and not Path(target).exists()
    path = Path(file if is_named else target)
    _check_python_file(path)
    return path, (name or None) if is_named else None


def _check_python_file(path: Path) -> None:
    if path.is_dir():
        raise LoadError(f"{path} is a folder; give FILE.py[:name]")
    if not path.is_file():
        raise LoadError(f"there is no file {str(path)!r}; give FILE.py[:name]")
    if path.suffix != ".py":
        raise LoadError(f"{path} is not a Python file; give FILE.py[:name]")
    try:
        path.open("rb").close()
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {reason_of(error)}") from error


def _only_candidate(file: Path, module: ModuleType) -> str:
    candidates = _candidates(module)
    if not candidates:
        raise LoadError(f"{file} has no {_WANTED}; give FILE.py:name of a function that makes one")
    if len(candidates) > 1:
        raise LoadError(f"{file} has several; give {file}:NAME, one of {', '.join(candidates)}")
    return candidates[0]


def _candidates(module: ModuleType) -> list[str]:
    """Return the names of possible targets: agents and buses, else components, else their classes.

    An agent and its bus count once, and so do two names of one object.
    """
    public = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    for choose in (
        _bus_of,
        _component,
        lambda value: value if defines(module, value, AgentComponent) else None,
    ):
        chosen: dict[int, str] = {}
        # Agents first, so that a bus is listed by its agent's name.
        for name, value in sorted(public.items(), key=lambda item: not _is_agent(item[1])):
            if (candidate := choose(value)) is not None:
                chosen.setdefault(id(candidate), name)
        if chosen:
            return list(chosen.values())
    return []


def _is_agent(value: object) -> TypeGuard[Agent]:
    # Without the module there can be no agent, and importing it is slow.
    module = sys.modules.get("toolbus.agent.agent")
    return module is not None and isinstance(value, module.Agent)


def _bus_of(value: object) -> EventBus | None:
    if _is_agent(value):
        return value.bus
    return value if isinstance(value, EventBus) else None


def _component(value: object) -> AgentComponent | None:
    return value if isinstance(value, AgentComponent) else None


def _resolve(value: Any, where: str) -> LoadedTarget:
    """Return the target *value*, or the result of calling it if it is a function or a class."""
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
        raise LoadError(f"{where} is not an {_WANTED}, but {type(value).__name__!r}")
    return components


def _made(make: Callable[[], Any], where: str) -> Any:
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        raise LoadError(f"{where}: {error}; give a function without arguments") from None
    try:
        made = make()
    except (Exception, SystemExit) as error:
        raise LoadError(f"{where} raised {format_error(error)}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise LoadError(f"{where} is async; give a sync function")
    return made


def _installed(components: Sequence[AgentComponent], where: str) -> ComponentHost:
    host = ComponentHost()
    for component in components:
        try:
            component.setup(host)
        except Exception as error:
            raise LoadError(f"{where} cannot be installed: {format_error(error)}") from error
    return host
