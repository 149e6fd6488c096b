"""An agent, a bus or a component, found in a Python file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from contextlib import redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.agent import Agent
from toolbus.bus import EventBus
from toolbus.components import AgentComponent
from toolbus.events import Scope
from toolbus.terminal import UsageError
from toolbus.tools import Toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from toolbus.components import Host

_WANTED = "agent, bus or component"
_MODULE = "__toolbus_target__"


class Found(NamedTuple):
    """The bus of what was found, where it was and what it was, and who speaks there with what."""

    bus: EventBus
    target: str
    kind: str
    host: Host
    components: tuple[AgentComponent, ...] = ()


class Stage:
    """What components are installed on in place of an agent; *bus* is its own unless given."""

    def __init__(self, bus: EventBus | None = None) -> None:
        self.bus = EventBus() if bus is None else bus
        self.tools, self.scope = Toolset(), Scope(agent_id="agent")


def load(target: str) -> Found:
    """Return what *target*, `FILE.py[:name]`, means; raises `UsageError`."""
    file, name = _split(target)
    with redirect_stdout(sys.stderr):
        module = _import(file)
        names = vars(module)
        if name is None:
            name = _only_candidate(file, module)
        elif name not in names:
            raise UsageError(f"{file} has no {name!r}{_hint(name, module)}")
        where = f"{file}:{name}"
        return _found(names[name], where)


def _split(target: str) -> tuple[Path, str | None]:
    file, _, name = target.rpartition(":")
    path = Path(file if file and not Path(target).exists() else target)
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give FILE.py[:name]")
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}; give FILE.py[:name]")
    if path.suffix != ".py":
        raise UsageError(f"{path} is no Python file; give FILE.py[:name]")
    return path, (name or None) if path == Path(file) else None


def _import(file: Path) -> ModuleType:
    """Import *file* as Python would: by its dotted name if it is part of a package."""
    folder, dotted = file.resolve().parent, [] if file.stem == "__init__" else [file.stem]
    while (folder / "__init__.py").is_file():
        dotted.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    try:
        if dotted != [file.stem]:
            module = importlib.import_module(".".join(dotted))
            if Path(module.__file__ or "").resolve() == file.resolve():
                return module
        return _import_alone(file.resolve())
    except SyntaxError as error:
        place = f"{error.filename or file}:{error.lineno or 0}"
        raise UsageError(f"{place}: {type(error).__name__}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"{_last_place(error, file)}: {_worded(error)}") from error


def _import_alone(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_MODULE, file)
    assert spec is not None  # noqa: S101 - for mypy: a `.py` file has a loader
    assert spec.loader is not None  # noqa: S101 - as above
    module = importlib.util.module_from_spec(spec)
    # Type hints of its classes are looked up there.
    sys.modules[_MODULE] = module
    spec.loader.exec_module(module)
    return module


def _last_place(error: BaseException, file: Path) -> str:
    """Return the last line of *file* that was on the way to *error*."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [one.lineno for one in frames if Path(one.filename) == file.resolve()]
    return f"{file}:{lines[-1]}" if lines else str(file)


def _worded(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _only_candidate(file: Path, module: ModuleType) -> str:
    candidates = _candidates(module)
    if not candidates:
        raise UsageError(f"{file} has no {_WANTED}; give FILE.py:name of a function that makes one")
    if len(candidates) > 1:
        raise UsageError(f"{file} has several; say {file}:NAME, one of {', '.join(candidates)}")
    return candidates[0]


def _hint(name: str, module: ModuleType) -> str:
    if near := get_close_matches(name, vars(module), 1):
        return f"; did you mean {near[0]!r}?"
    candidates = _candidates(module)
    return f"; there is {', '.join(candidates)}" if candidates else ""


def _candidates(module: ModuleType) -> list[str]:
    """Return the names of what may be meant: agents and buses before components and their classes.

    An agent and its bus are one candidate, and so are two names of one object.
    """
    public = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    for choose in (_bus_of, _component, lambda value: _own_class(value, module)):
        chosen: dict[int, str] = {}
        # Agents first, so that their buses go by their names.
        for name, value in sorted(public.items(), key=lambda item: not isinstance(item[1], Agent)):
            if (one := choose(value)) is not None:
                chosen.setdefault(id(one), name)
        if chosen:
            return list(chosen.values())
    return []


def _bus_of(value: object) -> EventBus | None:
    if isinstance(value, Agent):
        return value.bus
    return value if isinstance(value, EventBus) else None


def _component(value: object) -> AgentComponent | None:
    return value if isinstance(value, AgentComponent) else None


def _own_class(value: object, module: ModuleType) -> type[AgentComponent] | None:
    if not isinstance(value, type) or not issubclass(value, AgentComponent):
        return None
    return value if value.__module__ == module.__name__ else None


def _found(value: Any, where: str) -> Found:
    """Return the bus of *value*, made by calling it if it is a function or a class."""
    if not isinstance(value, Agent | EventBus | AgentComponent) and callable(value):
        where = f"{where}()"
        value = _made(value, where)
    if isinstance(value, Agent):
        return Found(value.bus, where, "agent", value, value.components)
    if isinstance(value, EventBus):
        return Found(value, where, "bus", Stage(value))
    components = list(value) if isinstance(value, list | tuple) else [value]
    if not components or not all(isinstance(one, AgentComponent) for one in components):
        raise UsageError(f"{where} is no {_WANTED}, but {type(value).__name__!r}")
    kind = "component" if components == [value] else "components"
    stage = _installed(components, where)
    return Found(stage.bus, where, kind, stage, tuple(components))


def _made(make: Callable[[], Any], where: str) -> Any:
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}; give a function without arguments") from None
    try:
        made = make()
    except (Exception, SystemExit) as error:
        raise UsageError(f"{where} raised {_worded(error)}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise UsageError(f"{where} is async; give a function that is not")
    return made


def _installed(components: Iterable[AgentComponent], where: str) -> Stage:
    stage = Stage()
    for component in components:
        try:
            component.setup(stage)
        except Exception as error:
            raise UsageError(f"{where} cannot be installed: {_worded(error)}") from error
    return stage
