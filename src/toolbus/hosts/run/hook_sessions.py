"""The state of a host's session beside its messages: its rules, and texts that wait."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from toolbus.components.state import State
from toolbus.errors import StoreError
from toolbus.messages.immutable import thaw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from toolbus.store.protocol import Store
    from toolbus.store.store_reader import StoreReader

STATE = "toolbus-hooks"
"""The name under which it is kept; that of a component is a class."""

_MOST, _LONGEST = 20, 20_000
"""Texts that wait for an event that can carry them at most, and the letters of each."""


class ApprovedCall(Struct, frozen=True, kw_only=True):
    """A call that the host was let run by the yes to a question, which is kept in *session_id*.

    *event_id* is that of the event which the host was to be told so for. Of a call of which the
    question does not hold all, *live* is a digest with a key, empty if there is none.
    """

    session_id: str
    question_id: str
    event_id: str = ""
    live: str = ""


class HookSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose rules hold in a session, from its first event on.

    Args:
        folder: where it began, by its real path.
        configuration: the project's file that was in force there, if one was.
        context: texts for the model that no event could carry yet.
        taken: by their ids the calls that a person let run, of which no result was told yet.
        failed: whether a component failed in it; then the host asks its person as ever.
    """

    folder: str
    configuration: str | None = None
    context: tuple[str, ...] = ()
    # Sessions of older versions are stored with the name "taken".
    approved: dict[str, ApprovedCall] = field(default_factory=dict, name="taken")
    failed: bool = False

    def with_context(self, texts: Sequence[str]) -> HookSession:
        """Return the session with *texts* that wait, of which the latest are kept, cut."""
        return replace(self, context=tuple([text[:_LONGEST] for text in texts[-_MOST:]]))


def read_session_folders(reader: StoreReader, host: str) -> list[Path]:
    """Return the folders in which the sessions of *host* began that are still there, oldest first.

    The state of a session that cannot be read is passed over: `toolbus check` names it.
    """
    folders: dict[Path, None] = {}
    for session_id, row in reader.states_like(STATE):
        if session_id.startswith(f"{host}:") and row.body is not None:
            with suppress(msgspec.MsgspecError):
                folders[Path(msgspec.json.decode(row.body, type=HookSession).folder)] = None
    return [folder for folder in folders if folder.is_dir()]


class HookSessions:
    """What is kept of the sessions of *store*."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, session_id: str) -> HookSession | None:
        """Return what is kept of a session, None if it has not begun; raises `StoreError`."""
        value = await self._state(session_id).read()
        return None if value is None else self._session(value)

    async def bind(self, session_id: str, folder: str, configuration: str | None) -> HookSession:
        """Bind a session to where it began, unless it is bound; return what is kept.

        One to which no *configuration* was bound yet is bound to this one.
        """

        def bound(value: Any) -> Any:
            session = HookSession(folder=folder) if value is None else self._session(value)
            if session.configuration is None:
                session = replace(session, configuration=configuration)
            return msgspec.to_builtins(session)

        return self._session(await self._state(session_id).update(bound))

    async def update(self, session_id: str, change: Callable[[HookSession], HookSession]) -> None:
        """Let *change* give what is kept of a session, in one atomic step."""

        def changed(value: Any) -> Any:
            return msgspec.to_builtins(change(self._session(value)))

        await self._state(session_id).update(changed)

    def digest_key(self, session_id: str) -> bytes | None:
        """Return the key for what is kept of a session and must not be readable there."""
        return self._state(session_id).digest_key()

    def _state(self, session_id: str) -> State:
        return State(self._store, session_id, STATE)

    def _session(self, value: Any) -> HookSession:
        try:
            return msgspec.convert(thaw(value), HookSession)
        except msgspec.ValidationError:
            raise StoreError(STATE, "what is kept of the session is none of ours") from None
