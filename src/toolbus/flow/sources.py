"""Sources of texts: the settings of trust, and the label of a tool's result by its call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from glob import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from toolbus.events.subjects import matches
from toolbus.flow.labels import PRIVATE, Label
from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.components.call_facts import CallEffects
    from toolbus.events.catalogue import Scope

DEPENDENCIES = frozenset(
    {"node_modules", ".venv", "venv", "site-packages", "dist-packages", "vendor", ".tox"}
    | {"bower_components", "__pypackages__", ".yarn", ".cargo", ".bundle", "Pods"}
)
"""Folders with files of strangers inside of a project."""

_SHARED = frozenset({"/", "/tmp", "/var/tmp", "/home", "/Users", "/root"})  # noqa: S108 - none is used
_MOST, _LONGEST = 200, 4_096
_GAPS = dict.fromkeys(map(ord, "\"'`=;|&<>(){}[],\0"), " ")


class CallFolders(NamedTuple):
    """The absolute *folder* where relative paths of a call begin, and the *project* of rules.

    Each is "" if it is unknown, or shared by many people or projects.
    """

    folder: str
    project: str

    @classmethod
    def of(cls, scope: Scope) -> CallFolders:
        """Return the place of the calls of *scope*."""
        folder = scope.folder or os.path.realpath(os.curdir)
        project = scope.project or os.path.realpath(folder)
        is_project = project.startswith("/") and project not in _SHARED
        if not is_project or project == os.path.expanduser("~"):  # noqa: PTH111 - as text
            project = ""
        return cls(folder if folder.startswith("/") else "", project)

    def absolute(self, path: str) -> str:
        """Return *path* without links and relative parts, "" if it is unknown."""
        path = os.path.expanduser(path)  # noqa: PTH111 - as text
        if not path.startswith("/"):
            if not self.folder:
                return ""
            path = f"{self.folder}/{path}"
        return "" if "\0" in path else os.path.realpath(path)


class FlowSettings(Struct, frozen=True, kw_only=True):
    """The settings of `FlowGuard`: tuples of globs, and the *sinks* of tools by glob.

    Results of *trusted_tools* are trusted, as is all that comes from *trusted_hosts* or
    *trusted_paths*. Relative paths begin in the session's project.
    """

    trusted_tools: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    trusted_paths: tuple[str, ...] = ("**",)
    private_tools: tuple[str, ...] = ()
    private_paths: tuple[str, ...] = ()
    sinks: Mapping[str, str] = EMPTY

    def trusts_host(self, host: str) -> bool:
        """Return whether *host*, perhaps with a port, is a trusted one."""
        name = host.lower().rpartition("@")[2].partition(":")[0].rstrip(".")
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.trusted_hosts)

    def trusts_path(self, path: str, folders: CallFolders) -> bool:
        """Return whether the file *path*, absolute, is a trusted one."""
        strange = DEPENDENCIES.intersection(_below(path, folders.project).split("/"))
        return bool(path) and any(
            _covers(pattern, path, folders) and strange <= {*pattern.split("/")}
            for pattern in self.trusted_paths
        )

    def is_private(self, path: str, folders: CallFolders) -> bool:
        """Return whether the file *path*, absolute, is private."""
        return bool(path) and any(_covers(each, path, folders) for each in self.private_paths)

    def may_hold_private(self, path: str, folders: CallFolders) -> bool:
        """Return whether *path*, a file or a folder, is private or has private files below it."""
        absolute = folders.absolute(_root(path))
        return self.is_private(absolute, folders) or any(
            _covers(absolute, _root(_full(pattern, folders)), folders)
            for pattern in self.private_paths
        )


class ResultOrigin(NamedTuple):
    """The origin of the result *text*: the tool *name* of *server* called with *arguments*.

    *effects* are None if no component reads them. The tool *is_closed* if it equals its pin and
    reaches no open world. *downloads* are the absolute paths of downloaded files.
    """

    name: str
    server: str
    arguments: Mapping[str, Any]
    scope: Scope
    text: str = ""
    effects: CallEffects | None = None
    is_closed: bool = False
    downloads: frozenset[str] = frozenset()

    def label(self, settings: FlowSettings) -> Label:
        """Return the label of the result by *settings*, without the texts in view."""
        is_private = matches(settings.private_tools, self.name) or self._reads_private(settings)
        return Label(
            speaker="tool",
            name=self.name,
            server=self.server,
            is_trusted=self._is_trusted(settings),
            holds=frozenset({PRIVATE}) if is_private else frozenset(),
        )

    def downloaded(self, settings: FlowSettings) -> frozenset[str]:
        """Return the absolute paths of files that the call may have downloaded from strangers."""
        effects = self.effects
        if effects is None or not {"network", "write"} <= effects.does:
            return frozenset()
        if effects.hosts and all(map(settings.trusts_host, effects.hosts)):
            return frozenset()
        folders = CallFolders.of(self.scope)
        named = effects.writes or [word for word in self._words() if "://" not in word]
        # The folder of the call itself is no file.
        return frozenset(map(folders.absolute, named)) - {"", folders.folder, folders.project}

    def _is_trusted(self, settings: FlowSettings) -> bool:
        effects = self.effects
        if self.downloads and self._reads_download():
            return False
        if self.is_closed or matches(settings.trusted_tools, self.name):
            return True
        if effects is None or not effects.is_known or "run-code" in effects.does:
            return False
        if "network" in effects.does and not effects.hosts:
            return False
        return all(map(settings.trusts_host, effects.hosts)) and self._reads_trusted(settings)

    def _reads_trusted(self, settings: FlowSettings) -> bool:
        reads = () if self.effects is None else self.effects.reads
        if not reads:
            return True
        # A search through a folder names the files of its lines.
        if any(f"{folder}/" in self.text for folder in DEPENDENCIES) and any(map(_is_tree, reads)):
            return False
        folders = CallFolders.of(self.scope)
        return all(settings.trusts_path(folders.absolute(_root(path)), folders) for path in reads)

    def _reads_download(self) -> bool:
        folders = CallFolders.of(self.scope)
        reads = () if self.effects is None else self.effects.reads
        paths = [folders.absolute(_root(path)) for path in (*reads, *self._words())]
        return any(
            path == file or path.startswith(f"{file}/") or file.startswith(f"{path}/")
            for file in self.downloads
            for path in {*paths} - {"", "/"}
        )

    def _reads_private(self, settings: FlowSettings) -> bool:
        if not settings.private_paths:
            return False
        reads = () if self.effects is None else self.effects.reads
        names = [name for name in map(_name_in, settings.private_paths) if name]
        if any(f"{name}/" in self.text for name in names) and any(map(_is_tree, reads)):
            return True
        words = self._words()
        if len(names) == len(settings.private_paths):
            base = f"{self.scope.folder}{self.scope.project}"
            words = [word for word in words if any(name in word or name in base for name in names)]
        if not (words or reads):
            return False
        folders = CallFolders.of(self.scope)
        return any(
            settings.is_private(folders.absolute(path), folders) for path in (*reads, *words)
        )

    def _words(self) -> list[str]:
        """Return the words of the arguments that may be paths, at most some hundred."""
        texts = [text for text in _texts(self.arguments.values()) if text]
        words = [word for text in texts for word in text[:_LONGEST].translate(_GAPS).split()]
        return [*dict.fromkeys([text for text in texts if len(text) < _LONGEST] + words)][:_MOST]


def _texts(values: Iterable[Any]) -> Iterator[str]:
    """Yield the texts among *values* and in their arrays."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple):
            yield from [item for item in value if isinstance(item, str)]


def _is_tree(path: str) -> bool:
    return path.endswith(("/**", "/*")) or path in {"*", "**", "."}


def _root(path: str) -> str:
    """Return the folder of *path*, a pattern of files below it, or *path* itself."""
    while path.endswith(("/**", "/*")):
        path = path.rpartition("/")[0]
    return path or "/"


def _name_in(pattern: str) -> str:
    """Return the name of the innermost folder of *pattern*, "" if a sign in it stands for any."""
    name = _root(pattern).rstrip("/").rpartition("/")[2]
    return "" if set(name) & set("*?[") else name


def _covers(pattern: str, path: str, folders: CallFolders) -> bool:
    """Return whether *path* is a file, or below a folder, that *pattern* names."""
    pattern = _full(pattern, folders)
    whole = pattern.removesuffix("/**").removesuffix("/")
    return fnmatchcase(path, whole) or fnmatchcase(path, f"{whole}/*")


def _full(pattern: str, folders: CallFolders) -> str:
    """Return *pattern* as an absolute one, "" if it begins in an unknown project."""
    pattern = os.path.expanduser(pattern).removeprefix("./")  # noqa: PTH111 - as text
    if pattern.startswith("/"):
        return pattern
    return f"{escape(folders.project)}/{pattern}" if folders.project else ""


def _below(path: str, folder: str) -> str:
    """Return *path* from *folder* on, if it is below that."""
    return path.removeprefix(f"{folder}/") if folder else path
