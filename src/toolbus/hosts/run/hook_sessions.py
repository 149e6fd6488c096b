"""The state of a host's session beside its messages: folder, rules, calls and waiting texts."""

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
"""The name of the state; states of components are named by classes."""

_MOST, _LONGEST = 20, 20_000
"""The most texts that wait for an event that can carry them, and the most characters of each."""


class ApprovedCall(Struct, frozen=True, kw_only=True):
    """A call that the host may run, since a question in *session_id* was approved.

    *event_id* is the event that the approval answers. *live* is a keyed digest of a call whose
    question has redacted arguments; "" for other calls, and without a key.
    """

    session_id: str
    question_id: str
    event_id: str = ""
    live: str = ""


class HookSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rules and the state of a session, from its first event on.

    Args:
        folder: the real path of the folder in which it began.
        configuration: the project's configuration that was active there, if any.
        context: texts for the model that no event could carry yet.
        approved: the approved calls without a result yet, by id.
        failed: whether a component failed in it; then the host's own prompts are not skipped.
    """

    folder: str
    configuration: str | None = None
    context: tuple[str, ...] = ()
    # Sessions of older versions are stored with the name "taken".
    approved: dict[str, ApprovedCall] = field(default_factory=dict, name="taken")
    failed: bool = False

    def with_context(self, texts: Sequence[str]) -> HookSession:
        """Return the session with the latest of *texts* waiting, each cut to a limit."""
        return replace(self, context=tuple([text[:_LONGEST] for text in texts[-_MOST:]]))


def read_session_folders(reader: StoreReader, host: str) -> list[Path]:
    """Return the existing folders in which sessions of *host* began, oldest first.

    Unreadable states are skipped: `toolbus check` reports them.
    """
    folders: dict[Path, None] = {}
    for session_id, row in reader.states_like(STATE):
        if session_id.startswith(f"{host}:") and row.body is not None:
            with suppress(msgspec.MsgspecError):
                folders[Path(msgspec.json.decode(row.body, type=HookSession).folder)] = None
    return [folder for folder in folders if folder.is_dir()]


class HookSessions:
    """The states of the hosts' sessions in *store*."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, session_id: str) -> HookSession | None:
        """Return the state of a session, None if it has not begun; raises `StoreError`."""
        value = await self._state(session_id).read()
        return None if value is None else self._session(value)

    async def bind(self, session_id: str, folder: str, configuration: str | None) -> HookSession:
        """Bind an unbound session to *folder*, and to *configuration*; return its state.

        A session that is bound to a folder only is bound to *configuration*, too.
        """

        def bound(value: Any) -> Any:
            session = HookSession(folder=folder) if value is None else self._session(value)
            if session.configuration is None:
                session = replace(session, configuration=configuration)
            return msgspec.to_builtins(session)

        return self._session(await self._state(session_id).update(bound))

    async def update(self, session_id: str, change: Callable[[HookSession], HookSession]) -> None:
        """Apply *change* to the state of a session, atomically."""

        def changed(value: Any) -> Any:
            return msgspec.to_builtins(change(self._session(value)))

        await self._state(session_id).update(changed)

    def digest_key(self, session_id: str) -> bytes | None:
        """Return the key for digests of secret values in a session; None without one."""
        return self._state(session_id).digest_key()

    def _state(self, session_id: str) -> State:
        return State(self._store, session_id, STATE)

    def _session(self, value: Any) -> HookSession:
        try:
            return msgspec.convert(thaw(value), HookSession)
        except msgspec.ValidationError:
            raise StoreError(STATE, "the stored state of the session is not valid") from None
