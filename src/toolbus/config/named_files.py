"""Whether a file that a configuration names may be used by what reads it itself, now and later."""

from __future__ import annotations

import os
import shlex
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.config.entries import named_uses
from toolbus.config.tables import COMPONENT
from toolbus.config.trust import judge
from toolbus.errors import LoadError
from toolbus.settings.private_files import writable_by_others
from toolbus.settings.user_folders import config_folder
from toolbus.toml.config_source import ConfigSource, config_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.config.documents import Document


@contextmanager
def component_source(document: Document, digests: Mapping[str, str] | None) -> Iterator[None]:
    """Let components know that they are made of *document*; *digests* if it was judged by them."""
    configuration = Path(os.path.realpath(document.file))

    def check_first(file: Path, data: bytes) -> str | None:
        if digests is None or digests.get(os.path.realpath(file)) == sha256(data).hexdigest():
            return None
        return f"it is not what was trusted with {configuration}"

    def check_changed(file: Path, data: bytes) -> str | None:
        return _distrust(configuration, file, data)

    named = [configuration, *_files_of(document, digests)]
    made = ConfigSource(tuple(dict.fromkeys(named)), check_first, check_changed)
    token = config_source.set(made)
    try:
        yield
    finally:
        config_source.reset(token)


def _files_of(document: Document, digests: Mapping[str, str] | None) -> list[Path]:
    if digests is not None:
        return [Path(path) for path in digests]
    folder = document.file.parent
    sources = [
        use if use.endswith(".py") else use.rpartition(":")[0] for use in named_uses(document)
    ]
    files = [*[each for each in sources if each.endswith(".py")], *_setting_files(document)]
    return [Path(os.path.realpath(folder / Path(each).expanduser())) for each in files]


def _setting_files(document: Document) -> Iterator[str]:
    """Yield what settings called `file` say: a policy, or a lock file of pins by any name."""
    tables = document.table.get(COMPONENT)
    for table in tables if isinstance(tables, list) else ():
        settings = table.get("settings") if isinstance(table, dict) else None
        file = settings.get("file") if isinstance(settings, dict) else None
        if isinstance(file, str):
            yield file


def _distrust(configuration: Path, file: Path, data: bytes) -> str | None:
    """Return why *file*, changed to *data*, is not trusted: it is not the user's, or not judged."""
    try:
        if configuration.parent == config_folder():
            return writable_by_others(configuration) or writable_by_others(
                Path(os.path.realpath(file))
            )
        snapshot = judge(configuration).snapshot
    except (OSError, LoadError) as error:
        return str(error)
    digests = {} if snapshot is None else snapshot.digests
    if digests.get(os.path.realpath(file)) == sha256(data).hexdigest():
        return None
    way_out = f"read it, then: toolbus trust {shlex.quote(str(configuration))}"
    return f"it is not trusted as it is now; {way_out}"
