"""A configuration: the components of a `toolbus.toml`, or of `[tool.toolbus]` in `pyproject.toml`.

[[component]]
use = "redact-secrets"          # an entry point of the group `toolbus.components`
settings = { keep = 4 }         # arguments of its constructor

[[component]]
use = "./policy.py:ReadOnly"    # a class in a file, or "package.module:Class"
tools = ["git_*"]               # glob patterns; by default all tools
priority = 300                  # a higher one comes first; by default 100
name = "policy"                 # to use one class twice
enabled = false                 # then it is not even imported

The other tables are in `toolbus.config.servers`, `.prices` and `.approvals`; `[otel]` is in
`toolbus.config.entries`.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from msgspec.structs import replace

from toolbus.config.approvals import ApprovalSettings, read_approvals, read_store_key
from toolbus.config.documents import NAME, Document, read_document
from toolbus.config.entries import Entry, read_entries
from toolbus.config.entry_points import find_maker
from toolbus.config.factory import make_component
from toolbus.config.named_files import component_source
from toolbus.config.prices import read_prices
from toolbus.config.python_modules import LOADING
from toolbus.config.servers import read_servers
from toolbus.config.tables import COMPONENT
from toolbus.config.trust import (
    PERSONAL_SETTINGS,
    EffectiveConfig,
    check_trust,
    effective_config,
    own_document,
    read_trusted,
)
from toolbus.errors import ConfigurationError, LoadError, RegistrationError
from toolbus.settings.private_files import writable_by_others
from toolbus.settings.user_folders import config_folder
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toolbus.components.components import AgentComponent
    from toolbus.config.prices import Price
    from toolbus.config.servers import ServerEntry
    from toolbus.config.trusted_modules import TrustedModuleFinder

_PRIORITY = 100


class ConfiguredComponent(NamedTuple):
    """A *component*, and the *entry* of the file that describes it.

    *is_personal* is False for a project's file that was found, not named.
    """

    entry: Entry
    component: AgentComponent
    is_personal: bool = True


class Configuration(NamedTuple):
    """The components of *file* in the order of installation, and the *disabled* entries.

    *servers* are the enabled MCP servers, *prices* those of models, *approvals* the settings of
    questions to a person. A configuration that was found has the user's own components first, and
    only those if the project's is not trusted: *refusal* says why.
    """

    file: Path
    configured: tuple[ConfiguredComponent, ...]
    disabled: tuple[Entry, ...]
    refusal: str = ""
    servers: tuple[ServerEntry, ...] = ()
    prices: tuple[Price, ...] = ()
    approvals: ApprovalSettings = ApprovalSettings()

    @property
    def components(self) -> tuple[AgentComponent, ...]:
        """The components, for `Agent(components=…)`."""
        return tuple([configured.component for configured in self.configured])

    @property
    def personal(self) -> tuple[AgentComponent, ...]:
        """The components of the user's own configuration, or of the named one."""
        return tuple([each.component for each in self.configured if each.is_personal])


@runtime_checkable
class HasPersonalSettings(Protocol):
    """A class of components with parameters that a project's configuration must not set."""

    personal_settings: Collection[str]


@runtime_checkable
class HasValueKey(Protocol):
    """A component that computes digests of values with a key."""

    value_key: bytes | None


class _Layer(NamedTuple):
    """An active *document*; a trusted project's has a finder of its *modules*, and *digests*."""

    document: Document
    modules: TrustedModuleFinder | None = None
    is_late: bool = False
    digests: dict[str, str] | None = None


def load(file: Path | str | None = None) -> tuple[AgentComponent, ...]:
    r"""Return new components of *file*, by default of the active configuration, in their order.

    A higher priority comes first, then the order of the file; required components precede the
    component that requires them. Raises as `read` does.

    >>> _ = Path("toolbus.toml").write_text('[[component]]\nuse = "truncate-output"\n')
    >>> [type(component).__name__ for component in load("toolbus.toml")]
    ['TruncateOutput']
    """
    return read(file).components


def read(file: Path | str | None = None) -> Configuration:
    """Return the configuration *file*, by default the user's own and, after it, the project's.

    Naming a file is trusting it. A project's file that was found is used only if it is trusted; a
    notice on standard error reports an untrusted one. Output of imported code goes there as well.
    Raises `LoadError` without an active configuration, and `ConfigurationError` for an unusable
    one.
    """
    if file is not None:
        return _configuration([_Layer(read_document(Path(file).expanduser()))])
    configuration = _read_effective(is_needed=True)
    assert configuration is not None  # noqa: S101 - for mypy: it is needed
    return configuration


def read_changed(file: Path | str) -> Configuration:
    """Return the configuration *file*, which has changed since it was named.

    The new content must be the user's own or trusted. Raises as `read` does.
    """
    path, folder = Path(os.path.realpath(Path(file).expanduser())), config_folder()
    if folder is not None and path.parent == folder and writable_by_others(path) is None:
        return read(path)
    snapshot = check_trust(path).snapshot
    if snapshot is None:
        way_out = f"read it, then: toolbus trust {shlex.quote(str(path))}"
        raise ConfigurationError(f"its current content is not trusted; {way_out}", str(path))
    layer = _Layer(snapshot.document, snapshot.modules, digests=snapshot.digests)
    return _configuration([layer])


def read_for_session(file: Path | None) -> Configuration | None:
    """Return the user's own configuration and, after it, the project's *file*; None without any.

    A session must not lose active rules: raises `LoadError` if *file* was trusted and has changed
    or is missing, until it is trusted again or its trust is revoked.
    """
    if file is not None and (not file.is_file() or str(file) != os.path.realpath(file)):
        # Trust holds for the real path: a link in its place may lead anywhere.
        if str(file) in read_trusted():
            way_out = f"put it back, or: toolbus trust --revoke {shlex.quote(str(file))}"
            raise LoadError(f"{file} is trusted, and missing; {way_out}")
        file = file if file.is_file() else None
    effective = EffectiveConfig(own_document()) if file is None else effective_config(file)
    if effective.has_changed:
        raise LoadError(effective.refusal)
    layers = _layers(effective)
    return _configuration(layers)._replace(refusal=effective.refusal) if layers else None


def read_nearest() -> Configuration | None:
    """Return the active configuration, as `read` does, or None without one.

    Also raises `LoadError` if the only configuration was trusted and has changed: its handlers
    would be missing.
    """
    return _read_effective(is_needed=False)


def _read_effective(*, is_needed: bool) -> Configuration | None:
    effective = effective_config()
    layers = _layers(effective)
    if not layers:
        if is_needed or effective.has_changed:
            what = f"no {NAME}, and no [tool.toolbus] in a pyproject.toml"
            nothing = f"there is {what}, here or above in this project; write one, or name a file"
            raise LoadError(effective.refusal or nothing)
        effective.warn()
        return None
    effective.warn()
    return _configuration(layers)._replace(refusal=effective.refusal)


def _layers(effective: EffectiveConfig) -> list[_Layer]:
    layers = [] if effective.personal is None else [_Layer(effective.personal)]
    if effective.project is not None:
        project = effective.project
        layers.append(_Layer(project.document, project.modules, bool(layers), project.digests))
    return layers


def _configuration(layers: Sequence[_Layer]) -> Configuration:
    configured: list[ConfiguredComponent] = []
    disabled: list[Entry] = []
    servers: list[ServerEntry] = []
    prices: list[Price] = []
    approvals = ApprovalSettings()
    key: bytes | None = None
    for layer in layers:
        key = read_store_key(layer.document, is_project=bool(layer.modules)) or key
        servers += read_servers(layer.document, servers)
        prices += read_prices(layer.document)
        approvals = read_approvals(layer.document, approvals, is_project=bool(layer.modules))
        entries = read_entries(layer.document, is_project=bool(layer.modules))
        importing = layer.modules.importing() if layer.modules else nullcontext()
        making = component_source(layer.document, layer.digests)
        with LOADING, redirect_stdout(sys.stderr), importing, making:
            made = [
                ConfiguredComponent(entry, _made(layer, entry), is_personal=layer.modules is None)
                for entry in entries
                if entry.enabled
            ]
        configured += _in_order(layer.document, made, configured)
        disabled += [entry for entry in entries if not entry.enabled]
    for each in configured:
        if key is not None and isinstance(each.component, HasValueKey):
            each.component.value_key = key
    file = layers[-1].document.file
    return Configuration(
        file,
        tuple(configured),
        tuple(disabled),
        servers=tuple(servers),
        prices=tuple(prices),
        approvals=replace(approvals, key=key),
    )


def _made(layer: _Layer, entry: Entry) -> AgentComponent:
    """Return the component that *entry* describes."""
    document = layer.document
    place, folder = entry.place, document.file.parent
    try:
        maker = find_maker(entry.use, folder, layer.modules)
    except LoadError as error:
        raise document.error(str(error), *place, "use") from error
    if layer.modules is not None:
        _refuse_personal(document, entry, maker)
    try:
        component = make_component(maker, entry.settings, folder)
    except MisfitError as error:
        reason = f"component {entry.name!r}: {error.reason}"
        path = (*entry.settings_place, *error.path) if error.path else place
        raise document.error(reason, *path) from error
    key = "use"
    try:
        if (entry.tools, entry.priority) != (("*",), None):
            key = "priority" if entry.tools == ("*",) else "tools"
            component.restrict(tools=entry.tools, priority=entry.priority, late=layer.is_late)
        elif layer.is_late:
            component.restrict(late=True)
    except RegistrationError as error:
        raise document.error(str(error), *place, key) from error
    return component


def _refuse_personal(document: Document, entry: Entry, maker: object) -> None:
    """Raise `ConfigurationError` for a setting that only the user's own configuration may have."""
    of_class = maker.personal_settings if isinstance(maker, HasPersonalSettings) else ()
    personal = PERSONAL_SETTINGS.union(of_class)

    def search(settings: object, *path: str | int) -> None:
        pairs: list[tuple[str | int, object]] = []
        if isinstance(settings, dict):
            pairs = list(settings.items())
        elif isinstance(settings, list):
            pairs = list(enumerate(settings))
        for key, value in pairs:
            if isinstance(key, str) and key.replace("-", "_").lower() in personal:
                reason = f"component {entry.name!r}: setting {key!r} may not be set by a project"
                way_out = "put the component into your own configuration, or name this file"
                raise document.error(f"{reason}; {way_out}", *path, key)
            search(value, *path, key)

    search(entry.settings, *entry.settings_place)


def _in_order(
    document: Document, made: Sequence[ConfiguredComponent], before: Sequence[ConfiguredComponent]
) -> list[ConfiguredComponent]:
    """Return *made* by priority, each after the components it requires; *before* has others."""
    ranked = sorted(made, key=lambda configured: -_rank(configured.entry))
    placed: list[ConfiguredComponent] = []
    visited: set[int] = set()

    def place(configured: ConfiguredComponent) -> None:
        # Components that require each other keep their order.
        if configured.entry.index in visited:
            return
        visited.add(configured.entry.index)
        for wanted in configured.component.requires:
            others = [other for other in ranked if isinstance(other.component, wanted)]
            if not others and not any(isinstance(each.component, wanted) for each in before):
                reason = f"component {configured.entry.name!r} requires {wanted.__name__}"
                way_out = f"add a [[{COMPONENT}]] for that"
                raise document.error(f"{reason}; {way_out}", *configured.entry.place)
            for other in others:
                place(other)
        placed.append(configured)

    for configured in ranked:
        place(configured)
    return placed


def _rank(entry: Entry) -> int:
    return _PRIORITY if entry.priority is None else entry.priority
