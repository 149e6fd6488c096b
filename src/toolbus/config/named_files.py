"""Trust in the files that a configuration names, for the components that read them."""

from __future__ import annotations

import os
import shlex
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.config.entries import named_uses
from toolbus.config.tables import COMPONENT
from toolbus.config.trust import check_trust
from toolbus.errors import LoadError
from toolbus.settings.private_files import writable_by_others
from toolbus.settings.user_folders import config_folder
from toolbus.toml.config_source import ConfigSource, config_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.config.documents import Document


@contextmanager
def component_source(document: Document, digests: Mapping[str, str] | None) -> Iterator[None]:
    """Set `config_source` to *document*, trusted by *digests*, while its components are made."""
    configuration = Path(os.path.realpath(document.file))

    def check_first(file: Path, data: bytes) -> str | None:
        if digests is None or digests.get(os.path.realpath(file)) == sha256(data).hexdigest():
            return None
        return f"it differs from the version trusted with {configuration}"

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
    """Yield the values of settings named `file`: a policy, or a lock file of pins."""
    tables = document.table.get(COMPONENT)
    for table in tables if isinstance(tables, list) else ():
        settings = table.get("settings") if isinstance(table, dict) else None
        file = settings.get("file") if isinstance(settings, dict) else None
        if isinstance(file, str):
            yield file


def _distrust(configuration: Path, file: Path, data: bytes) -> str | None:
    """Return why the new content *data* of *file* is not trusted, None if it is."""
    try:
        if configuration.parent == config_folder():
            return writable_by_others(configuration) or writable_by_others(
                Path(os.path.realpath(file))
            )
        snapshot = check_trust(configuration).snapshot
    except (OSError, LoadError) as error:
        return str(error)
    digests = {} if snapshot is None else snapshot.digests
    if digests.get(os.path.realpath(file)) == sha256(data).hexdigest():
        return None
    way_out = f"read it, then: toolbus trust {shlex.quote(str(configuration))}"
    return f"its current content is not trusted; {way_out}"
