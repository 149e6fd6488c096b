"""The service that answers the events of hosts' hooks, in one event loop."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.components.capabilities import PromptSkipper
from toolbus.config import configuration
from toolbus.config.trust import find_or_missed, read_owned
from toolbus.errors import DeadlineError, LoadError, StoreError
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.hosts.run.chain import HookChain, session_id_of
from toolbus.hosts.run.event_input import fail_closed, folder_of, reason_of
from toolbus.hosts.run.event_log import HookStore
from toolbus.hosts.run.hook_sessions import HookSessions
from toolbus.hosts.run.required_configuration import missing_required
from toolbus.settings.private_files import writable_by_others
from toolbus.tasks.loops import LoopLock
from toolbus.tasks.shield import forget

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from toolbus.config.configuration import Configuration
    from toolbus.hosts.dialects.hook_events import HookAnswer
    from toolbus.hosts.run.event_input import ReadEvent
    from toolbus.hosts.run.hook_sessions import HookSession
    from toolbus.hosts.run.requests import HookSettings


class _ActiveChain(NamedTuple):
    """A *chain*, None without a configuration; *project* is the project's configuration, if any."""

    chain: HookChain | None
    project: str | None


class HookService:
    """The answers to events under *settings*; an async context manager.

    With *folder*, a real path, it serves only sessions that began there, since modules of two
    projects may have the same names. A chain is made once, in a context of *recording*: the owner
    ends the service when a file that was read there changes.
    """

    def __init__(
        self,
        settings: HookSettings,
        folder: Path | None = None,
        recording: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._settings, self._folder, self._recording = settings, folder, recording
        self._store: HookStore | None = None
        self._chains: dict[tuple[str, str, str | None], _ActiveChain] = {}
        self._making = LoopLock()
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._opened.aclose()
        finally:
            if self._store is not None:
                await self._store.close()

    async def prepare(self, host: str) -> None:
        """Load the chain for events of *host* in the folder; the first event reports a failure."""
        if self._folder is not None:
            with suppress(Exception):
                await self._active_chain(host, self._folder, None)

    async def answer(self, read: ReadEvent, event_id: str = "") -> HookAnswer | Path:
        """Return the answer to *read*, or the folder whose worker has its session.

        A failure and the end of the time limit give the host's fail-closed answer; hanging work is
        abandoned.
        """
        limit = self._settings.limit
        task = asyncio.ensure_future(self._answer(read, event_id))
        task.add_done_callback(forget)
        try:
            if (await asyncio.wait({task}, timeout=limit))[0]:
                return task.result()
            error: Exception = DeadlineError(limit)
        except asyncio.CancelledError as failure:
            if not task.done():
                raise  # The caller itself was cancelled.
            error = RuntimeError(str(failure))
        except Exception as failure:  # noqa: BLE001 - any failure must stop the host
            error = failure
        finally:
            task.cancel()
        return fail_closed(read.dialect, read.event.name, read.payload, reason_of(error))

    async def _answer(self, read: ReadEvent, event_id: str) -> HookAnswer | Path:
        event, dialect = read.event, read.dialect
        host = dialect.facts.name
        sessions, session_id = HookSessions(self._open_store()), session_id_of(event)
        session = await sessions.read(session_id)
        while True:
            folder = folder_of(event) if session is None else Path(session.folder)
            if self._folder not in {None, folder}:
                return folder
            async with self._making.current():
                in_force = await self._active_chain(host, folder, session)
            if in_force.chain is None:
                return dialect.encode(event, HookDecision())
            project = in_force.project
            if session is not None and (session.configuration is not None or project is None):
                return await in_force.chain.handle(event, dialect, session, event_id)
            # The session or its project's rules begin. Go on with the stored state: another event
            # of the session may have been faster.
            session = await sessions.bind(session_id, str(folder), project)

    def _open_store(self) -> HookStore:
        if self._store is None:
            file = self._settings.store
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in (file.parent, *([file] if file.exists() else [])):
                if reason := writable_by_others(Path(os.path.realpath(path))):
                    raise StoreError(str(file), f"{reason}; make it yours alone")
            self._store = HookStore(file)
        return self._store

    async def _active_chain(
        self, host: str, folder: Path, session: HookSession | None
    ) -> _ActiveChain:
        """Return the chain for a session in *folder*.

        Raises `LoadError` for an unusable configuration, and for a trusted one that has changed.
        """
        file = None
        if self._settings.config is None:
            bound = None if session is None else session.configuration
            file = find_or_missed(folder) if bound is None else Path(bound)
        key = host, str(folder), None if file is None else str(file)
        if key not in self._chains:
            with self._recording():
                self._chains[key] = await self._make(host, file)
        return self._chains[key]

    async def _make(self, host: str, file: Path | None) -> _ActiveChain:
        named = self._settings.config
        # In a thread: a component may take very long to import.
        if named is not None:
            # The installation named this file: each start reads it again.
            read_owned(named)
            read: Configuration | None = await asyncio.to_thread(configuration.read, named)
        else:
            read = await asyncio.to_thread(configuration.read_for_session, file)
        if reason := missing_required(self._settings.required, read):
            raise LoadError(reason)
        if read is None or not read.components:
            return _ActiveChain(None, None)
        is_project = named is None and file is not None and read.file.samefile(file)
        project = str(read.file) if is_project else None
        store, settings = self._open_store(), read.approvals
        # The host waits for the hook: half of the limit is left for the answer.
        wait = min(settings.wait or 0.0, self._settings.limit / 2)
        approvals = settings.make(store, host, wait)
        host_asks = settings.host_asks is not False
        skippers = [each for each in read.personal if isinstance(each, PromptSkipper)]
        chain = HookChain(
            host, read.components, store, approvals, host_asks=host_asks, skippers=skippers
        )
        await self._opened.enter_async_context(chain)
        return _ActiveChain(chain, project)
