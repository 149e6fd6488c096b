"""The shipped components by their entry points, which keep their names from version to version."""

from __future__ import annotations

from importlib.metadata import entry_points

_COMPONENTS = {entry.name: entry for entry in entry_points(group="toolbus.components")}
RedactSecrets = _COMPONENTS["redact-secrets"].load()
TruncateOutput = _COMPONENTS["truncate-output"].load()
