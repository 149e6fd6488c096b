"""Sources of texts: the settings of trust, and the label of a tool's result by its call."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from glob import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from toolbus.errors import RegistrationError
from toolbus.events.subjects import matches
from toolbus.flow.labels import strings_of
from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.components.call_facts import CallEffects
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolCall

DEPENDENCIES = frozenset(
    {"node_modules", ".venv", "venv", "site-packages", "dist-packages", "vendor", ".tox"}
    | {"bower_components", "__pypackages__", ".yarn", ".cargo", ".bundle", "Pods"}
    | {"incoming", "inbox", "downloads", "uploads", "attachments", "received", "third_party"}
)
"""Folders with files of strangers inside of a project."""

_SHARED = frozenset({"/", "/tmp", "/var/tmp", "/home", "/Users", "/root"})  # noqa: S108 - none is used
_LONGEST, _MOST = 1_000, 100
"""Characters of a path, and words of a call that may be one."""
_NO_HOST = re.compile(r"[\s/:@]")
_GAP = re.compile(r"[\s'\"=;|&<>()]+")


def read_globs(setting: str, globs: Sequence[str]) -> tuple[str, ...]:
    """Return *globs* as a tuple; raises `RegistrationError` for other values of *setting*."""
    # The letters of a text would be globs, and one of them may be "*".
    is_list = isinstance(globs, list | tuple)
    if not is_list or not all(isinstance(glob, str) and glob.strip() for glob in globs):
        raise RegistrationError(setting, f"expected a list of glob patterns, got {globs!r}")
    return tuple(globs)


def read_hosts(setting: str, globs: Sequence[str]) -> tuple[str, ...]:
    """Return the *globs* of hosts as a tuple; raises `RegistrationError` for others."""
    for glob in read_globs(setting, globs):
        if _NO_HOST.search(glob):
            expected = "expected a host such as '*.ours.example', without scheme, port and path"
            raise RegistrationError(setting, f"{expected}, got {glob!r}")
    return tuple(globs)


class CallFolders(NamedTuple):
    """The absolute *folder* where relative paths of a call begin, and the *project* of rules.

    Each is "" if it is unknown, or shared by many people or projects.
    """

    folder: str
    project: str

    @classmethod
    def of(cls, scope: Scope) -> CallFolders:
        """Return the place of the calls of *scope*."""
        folder = scope.folder or os.getcwd()  # noqa: PTH109 - as text, without links
        project = scope.project or (os.path.realpath(folder) if scope.folder else folder)
        is_project = project.startswith("/") and project not in _SHARED
        if not is_project or project == os.path.expanduser("~"):  # noqa: PTH111 - as text
            project = ""
        return cls(folder if folder.startswith("/") else "", project)

    def absolute(self, path: str) -> str:
        """Return *path* without links and relative parts, "" if it is unknown."""
        path = os.path.expanduser(path)  # noqa: PTH111 - as text
        if "\0" in path or not (path.startswith("/") or self.folder):
            return ""
        return os.path.realpath(path if path.startswith("/") else f"{self.folder}/{path}")


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
        parts = path.removeprefix(f"{folders.project}/") if folders.project else path
        strange = DEPENDENCIES.intersection(parts.split("/"))
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
    """The origin of the result *text*: a *call* in *scope*, with *effects* if these are read.

    *downloads* are the absolute paths of downloaded files. Its tool *is_closed* if it equals its
    pin and reaches no open world.
    """

    call: ToolCall
    scope: Scope
    text: str = ""
    effects: CallEffects | None = None
    downloads: frozenset[str] = frozenset()
    is_closed: bool = False

    def is_trusted(self, settings: FlowSettings) -> bool:
        """Return whether the result is trusted by *settings*."""
        if self.downloads and self._reads_download():
            return False
        is_named = self.is_closed or matches(settings.trusted_tools, self.call.name)
        return is_named or self._has_trusted_places(settings)

    def _has_trusted_places(self, settings: FlowSettings) -> bool:
        effects = self.effects
        if effects is None or not self._has_known_places(effects):
            return False
        # The lines of a search through a folder begin with the names of their files.
        if any(path.endswith("/**") for path in effects.reads) and _names_dependency(self.text):
            return False
        folders, files = CallFolders.of(self.scope), (*effects.reads, *effects.writes)
        return all(map(settings.trusts_host, effects.hosts)) and all(
            settings.trusts_path(folders.absolute(_root(path)), folders) for path in files
        )

    @staticmethod
    def _has_known_places(effects: CallEffects) -> bool:
        """Return whether all places are known; a call without any place has an unknown one."""
        if not effects.is_known or "run-code" in effects.does:
            return False
        has_files = bool(effects.reads or effects.writes) and "network" not in effects.does
        return bool(effects.hosts) or has_files

    def is_private(self, settings: FlowSettings) -> bool:
        """Return whether the result is private by *settings*."""
        if not settings.private_paths:
            return matches(settings.private_tools, self.call.name)
        folders = CallFolders.of(self.scope)
        return matches(settings.private_tools, self.call.name) or any(
            settings.is_private(path, folders) for path in self._reads(folders)
        )

    def downloaded(self, settings: FlowSettings) -> frozenset[str]:
        """Return the absolute paths of files with texts of strangers: downloads, and their copies.

        A copy whose place is not known may be any file of the folder.
        """
        effects = self.effects
        if effects is None or "write" not in effects.does:
            return frozenset()
        folders = CallFolders.of(self.scope)
        # A copy is as doubtful as its source.
        if self.downloads and self._reads_download():
            return frozenset([folders.absolute(_root(path)) for path in effects.writes or ["."]])
        hosts_are_trusted = effects.hosts and all(map(settings.trusts_host, effects.hosts))
        if hosts_are_trusted or "network" not in effects.does:
            return frozenset()
        writes = effects.writes or (self._repositories() if effects.hosts else ())
        return frozenset([folders.absolute(_root(path)) for path in writes])

    def _repositories(self) -> list[str]:
        """Return the names that clones of the addresses in the call would have."""
        names = [word.rpartition("/")[2] for word in self._words() if "/" in word]
        return [name.removesuffix(".git") for name in names if name]

    def _words(self) -> Iterable[str]:
        """Return the texts of the call and their words, each of which may be a path."""
        values = [*strings_of((*self.call.arguments.values(),))]
        words = [word for each in values for word in _GAP.split(each[:_LONGEST]) if word]
        return dict.fromkeys([*values, *words][:_MOST])

    def _reads_download(self) -> bool:
        paths = self._reads(CallFolders.of(self.scope))
        return any(
            f"{path}/".startswith(f"{file}/")
            or f"{file}/".startswith(f"{path}/")
            or fnmatchcase(file, path)
            for file in self.downloads
            for path in paths
        )

    def _reads(self, folders: CallFolders) -> list[str]:
        """Return the absolute paths that the call reads; if unknown, each word may be one."""
        texts: Iterable[Any] = () if self.effects is None else self.effects.reads
        texts = texts or self._words()
        return [folders.absolute(_root(text)) for text in texts if len(text) < _LONGEST]


def _names_dependency(text: str) -> bool:
    return any(f"{folder}/" in text for folder in DEPENDENCIES)


def _root(path: str) -> str:
    """Return the folder of *path*, a pattern of files below it, or *path* itself."""
    while path.endswith(("/**", "/*", "/")):
        path = path.rpartition("/")[0]
    return path


def _covers(pattern: str, path: str, folders: CallFolders) -> bool:
    """Return whether *path* is a file, or below a folder, that *pattern* names."""
    full = _full(pattern, folders)
    whole = _root(full)
    # `**/.env` is also the file in the folder itself.
    forms = {whole, whole.replace("/**/", "/")} if full else ()
    return any(fnmatchcase(path, each) or fnmatchcase(path, f"{each}/*") for each in forms)


def _full(pattern: str, folders: CallFolders) -> str:
    """Return *pattern* as an absolute one, "" if it begins in an unknown project."""
    pattern = os.path.expanduser(pattern).removeprefix("./")  # noqa: PTH111 - as text
    if pattern.startswith("/"):
        return pattern
    return f"{escape(folders.project)}/{pattern}" if folders.project else ""
