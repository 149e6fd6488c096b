"""The life of a worker's process, from the lock that it was given to its end."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import toolbus
from toolbus.config.documents import NAME
from toolbus.config.trust import TRUSTED
from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.hook_requests import HookRequest, hook_settings, work_in
from toolbus.hosts.run.reading import read_event
from toolbus.hosts.run.service import HookService
from toolbus.hosts.run.watched_files import WatchedFiles
from toolbus.hosts.run.worker import HookWorker, WorkerLimits
from toolbus.hosts.run.worker_log import WorkerLog
from toolbus.hosts.run.worker_socket import WorkerSocket
from toolbus.settings.user_folders import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.hosts.run.hook_settings import HookSettings

LOG = "hooks.log"
"""The file beside the store in which workers say when they begin, and why they end."""

_GRACE = 10.0
"""Seconds beyond an event's limit in which a loop that stands still may go on."""


def serve(file: Path, settings: hook_client.Settings, folder: Path, host: str) -> None:
    """Answer the events of *folder* under *settings*, which *file* holds; return at the end.

    What the events of *host* pass is made ready first.
    """
    environment = hook_settings(settings)
    environment.store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = WorkerLog(environment.store.parent / LOG)
    limit = float(settings[b"limit"][0])
    limits = WorkerLimits(float(settings[b"idle"][0]), limit + _GRACE, limit)
    # Also what never comes to an end of its imports.
    faulthandler.dump_traceback_later(limits.stuck, exit=True, file=log.handle)
    work_in(folder)
    watched = WatchedFiles([file, *_sources(environment, folder)], data=str(environment.store))
    service = HookService(environment, folder)
    worker = HookWorker(
        partial(_answer, service),
        digest=settings[b"digest"][0],
        changed=watched.changed,
        limits=limits,
        log=log,
    )

    async def run() -> None:
        async with service:
            with watched.recording():
                await service.prepare(host)
            await worker.run(_place(settings, folder))
            # A component may never come to its end.
            faulthandler.dump_traceback_later(limits.stuck, exit=True, file=log.handle)

    asyncio.run(run())


def _place(settings: hook_client.Settings, folder: Path) -> WorkerSocket:
    name = hook_client.socket_name(settings[b"digest"][0], os.fsencode(folder))
    try:
        return WorkerSocket(settings[b"sockets"][0], name)
    finally:
        work_in(folder)


async def _answer(service: HookService, request: HookRequest, data: bytes) -> HookAnswer | Path:
    read = read_event(request.host, request.name, data)
    if isinstance(read, HookAnswer):
        return read
    answer = await service.answer(read, request.event_id)
    return answer if isinstance(answer, HookAnswer) else Path(answer.folder)


def _sources(environment: HookSettings, folder: Path) -> Iterator[Path]:
    """Yield the files, there or not, that say which configuration is in force in *folder*."""
    yield from (Path(toolbus.__file__), Path(sys.executable), Path(os.__file__))
    if environment.config is not None:
        yield Path(environment.config)
    if (ours := config_folder()) is not None:
        yield from (ours / NAME, ours / TRUSTED)
    for above in (folder, *folder.parents):
        yield from (above / NAME, above / "pyproject.toml", above / ".git")
