"""The main functions of the processes that a client starts: a worker, or a child for one event.

Both run the same loop; a child ends after its event. `HookService` limits the time of an event,
and a watchdog kills a process whose loop is blocked.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import toolbus
from toolbus.config.documents import NAME
from toolbus.config.trust import TRUSTED
from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.event_input import read_event
from toolbus.hosts.run.requests import HookRequest, HookSettings, hook_settings
from toolbus.hosts.run.service import HookService
from toolbus.hosts.run.watched_files import WatchedFiles
from toolbus.hosts.run.worker import (
    HookWorker,
    WorkerLimits,
    WorkerLog,
    WorkerSocket,
    kill_later,
    read_request,
    respond,
)
from toolbus.settings.user_folders import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = "hooks.log"
"""The file beside the store in which workers log their start and the reason of their end."""

_GRACE = 10.0
"""Seconds beyond an event's limit after which a blocked process is killed."""
_STDERR = 2


def serve(file: Path, settings: hook_client.Settings, folder: Path, host: str) -> None:
    """Run the worker of *folder* under *settings*, the content of *file*, until it ends.

    The chain for events of *host* is loaded first.
    """
    environment = hook_settings(settings)
    environment.store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = WorkerLog(environment.store.parent / LOG)
    limit = float(settings[b"limit"][0])
    limits = WorkerLimits(float(settings[b"idle"][0]), limit + _GRACE, limit)
    kill_later(limits.stuck, log.handle)  # From here on: an import may hang, too.
    _work_in(folder)
    watched = WatchedFiles([file, *_sources(environment, folder)], data=str(environment.store))
    service = HookService(environment, folder, watched.recording)
    worker = HookWorker(
        partial(_answer, service),
        digest=settings[b"digest"][0],
        changed=watched.changed,
        limits=limits,
        log=log,
    )

    async def run() -> None:
        async with service:
            await service.prepare(host)
            await worker.run(_place(settings, folder))
            kill_later(limits.stuck, log.handle)  # The end of a component may hang.

    asyncio.run(run())


def answer_one(settings: hook_client.Settings) -> None:
    """Answer one event from the socket at standard input, and end."""
    gc.disable()  # The process ends soon, and its memory with it.
    # A killed client cannot kill its child.
    kill_later(float(settings[b"limit"][0]) + _GRACE, _STDERR)
    link = socket.socket(fileno=os.dup(0))
    os.dup2(1, 0)  # Components and their child processes must not use the socket.

    async def run() -> None:
        async with HookService(hook_settings(settings)) as service:
            reader, writer = await asyncio.open_connection(sock=link)
            request = await read_request(reader)
            _work_in(request.folder)
            await respond(partial(_answer, service), request, reader, writer)
        os._exit(0)  # The end of a loop would wait for threads with hanging components.

    asyncio.run(run())


async def _answer(service: HookService, request: HookRequest, data: bytes) -> HookAnswer | Path:
    read = read_event(request.host, request.name, data)
    if isinstance(read, HookAnswer):
        return read
    return await service.answer(read, request.event_id)


def _place(settings: hook_client.Settings, folder: Path) -> WorkerSocket:
    name = hook_client.socket_name(settings[b"digest"][0], os.fsencode(folder))
    try:
        return WorkerSocket(settings[b"sockets"][0], name)
    finally:
        _work_in(folder)


def _work_in(folder: Path) -> None:
    """Make *folder* the working folder, or the root if it cannot be entered."""
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")


def _sources(environment: HookSettings, folder: Path) -> Iterator[Path]:
    """Yield the files, existing or not, that determine the configuration of *folder*."""
    yield from (Path(toolbus.__file__), Path(sys.executable), Path(os.__file__))
    if environment.config is not None:
        yield Path(environment.config)
    if (ours := config_folder()) is not None:
        yield from (ours / NAME, ours / TRUSTED)
    for above in (folder, *folder.parents):
        yield from (above / NAME, above / "pyproject.toml", above / ".git")
