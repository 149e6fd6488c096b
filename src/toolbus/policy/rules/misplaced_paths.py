"""Paths of a person's own policy that begin at its own folder, where hardly anybody means it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.policy.paths.path_patterns import alternatives, is_relative
from toolbus.policy.projects import FROM_SESSION
from toolbus.settings.user_folders import config_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

_WAY_OUT = f'`project = "{FROM_SESSION}"` is the folder in which a session began'


class MisplacedPath(NamedTuple):
    """A path of the rule number *position* under *key*; *text* is what to tell of it."""

    position: int
    key: str
    text: str


def misplaced_path(file: Path, table: Mapping[str, Any]) -> MisplacedPath | None:
    """Return the first such path of the policy *table*, a right one, in *file*; None without."""
    personal = config_folder()
    folder = Path(os.path.realpath(file)).parent
    if personal is None or not folder.is_relative_to(personal) or "project" in table:
        return None
    for position, rule in enumerate(table.get("rule", ())):
        for key in ("reads", "writes", "touches", "outside"):
            texts = rule.get(key, ())
            for text in [texts] if isinstance(texts, str) else texts:
                if any(map(is_relative, alternatives(text))):
                    where = f"{text!r} begins at {str(folder)!r}"
                    return MisplacedPath(position, key, f"{where}; {_WAY_OUT}")
    return None
