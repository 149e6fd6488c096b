"""What is placed in a folder, and under which names: `cp`, `mv`, `ln` and their kin."""

from __future__ import annotations

import os
import posixpath
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from toolbus.policy.paths.protected_names import holds_settings
from toolbus.policy.paths.targets import find_targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.commands import Command, PathUse
    from toolbus.policy.paths.resolving import PathResolver

MOST_COPIED = 2_000
"""Files of a folder that is copied onto another one, of which the names are compared."""

LEAVES_CONTENTS = frozenset({"chmod", "chgrp", "chown", "mkdir", "touch"})
PLACE_BY_NAME = frozenset({"cp", "gcp", "install", "ln", "mv", "rsync", "scp"})


class PartUses(Protocol):
    """A command of a line, or a call of a tool, as far as it matters here."""

    @property
    def command(self) -> Command | None:
        """None for the call of a tool that is no shell."""

    @property
    def action(self) -> tuple[str, ...]:
        """As `CommandEffects.action`."""

    @property
    def options(self) -> frozenset[str]:
        """As `CommandEffects.options`."""

    @property
    def paths(self) -> tuple[PathUse, ...]:
        """As `CommandEffects.paths`."""
        ...


def may_be_folder(path: str, part: PartUses) -> bool:
    """Tell whether *path* is a folder, or an earlier part of the line may have made it one."""
    is_place = not PLACE_BY_NAME.isdisjoint(part.action[:1])
    return is_place or holds_settings(path) or posixpath.isdir(path)


def placed_names(folder: str, part: PartUses, resolver: PathResolver) -> Iterator[str]:
    """Yield the names that files get which *part* copies or moves into *folder*."""
    if part.action[:1] and part.action[0] not in PLACE_BY_NAME:
        return
    for use in part.paths:
        if use.kind not in {"read", "read-tree"}:
            continue
        for resolved in find_targets(use, resolver).paths:
            name = posixpath.basename(use.word.text.rstrip("/"))
            yield posixpath.join(folder, name)
            yield posixpath.join(folder, posixpath.basename(resolved.entry))
            for inner in islice(_names_below(resolved.path), MOST_COPIED):
                yield posixpath.join(folder, inner)
                yield posixpath.join(folder, name, inner)


def doubt_of_settings(folder: str, part: PartUses, resolver: PathResolver) -> str:
    """Return why it is not known what *part* makes of *folder*, if settings may be in there."""
    program = "".join(part.action[:1])
    folders = (folder, *placed_names(folder, part, resolver))
    if program in LEAVES_CONTENTS or not any(map(holds_settings, folders)):
        return ""
    if program == "ln":
        return "settings may be in the folder that it links to"
    if program in PLACE_BY_NAME:
        sources = [use for use in part.paths if use.kind in {"read", "read-tree"}]
        entries = [each.entry for use in sources for each in find_targets(use, resolver).paths]
        is_link = any(map(posixpath.islink, entries))
        return "settings may be in the folder that a link leads to" if is_link else ""
    return "settings may be among what it puts there"


def _names_below(folder: str) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        for name in names:
            yield posixpath.relpath(posixpath.join(path, name), folder)
