"""The process that holds what is expensive, and answers the events of one working folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.hosts.hook_client import Settings


def serve(file: Path, settings: Settings, folder: Path) -> None:
    """Answer events until nobody needs a worker any more."""
    del file, settings, folder
