"""The life of a worker's process, from the lock that it was given to its end."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import toolbus
from toolbus.config.documents import NAME
from toolbus.config.trust import TRUSTED
from toolbus.hosts import answering, hook_client
from toolbus.hosts.hook_requests import HookRequest, hook_settings, work_in
from toolbus.hosts.watched_files import WatchedFiles
from toolbus.hosts.worker import HookWorker, WorkerLimits
from toolbus.hosts.worker_log import WorkerLog
from toolbus.hosts.worker_socket import WorkerSocket
from toolbus.settings.user_folders import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.hosts.hook_events import HookAnswer
    from toolbus.hosts.hook_settings import HookSettings
    from toolbus.hosts.worker import Answering

LOG = "hooks.log"
"""The file beside the store in which workers say when they begin, and why they end."""

_GRACE = 10.0
"""Seconds beyond an event's limit in which a loop that stands still may go on."""


def serve(file: Path, settings: hook_client.Settings, folder: Path) -> None:
    """Answer the events of *folder* under *settings*, which *file* holds; return at the end."""
    environment = hook_settings(settings)
    environment.store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = WorkerLog(environment.store.parent / LOG)
    limit = float(settings[b"limit"][0])
    limits = WorkerLimits(float(settings[b"idle"][0]), limit + _GRACE, limit)
    faulthandler.dump_traceback_later(limits.stuck, exit=True, file=log.handle)
    work_in(folder)
    watched = WatchedFiles([file, *_sources(environment, folder)])
    with watched.recording():
        answer = _answering(environment)
    digest = settings[b"digest"][0]
    place = WorkerSocket(
        settings[b"sockets"][0], hook_client.socket_name(digest, os.fsencode(folder))
    )
    work_in(folder)
    worker = HookWorker(
        answer, digest=digest, is_current=watched.are_unchanged, limits=limits, log=log
    )
    asyncio.run(worker.run(place))


def _answering(environment: HookSettings) -> Answering:
    async def answer(request: HookRequest, data: bytes) -> HookAnswer:
        return await asyncio.to_thread(
            answering.answer, request.host, request.name, data, environment, request.event_id
        )

    return answer


def _sources(environment: HookSettings, folder: Path) -> Iterator[Path]:
    """Yield the files, there or not, that say which configuration is in force in *folder*."""
    yield from (Path(toolbus.__file__), Path(sys.executable), Path(os.__file__))
    if environment.config is not None:
        yield Path(environment.config)
    if (ours := config_folder()) is not None:
        yield from (ours / NAME, ours / TRUSTED)
    for above in (folder, *folder.parents):
        yield from (above / NAME, above / "pyproject.toml", above / ".git")
