"""Who speaks on a bus: numbers for those who stand in a row, and the ids of agents."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Callable


class Numbers:
    """Numbers for those who stand in a row on one bus, whichever agent they belong to.

    Each who asks gets the number after the last one that somebody has, the first 1.
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: list[int] = []

    def take(self, owner: object) -> tuple[int, Callable[[], object]]:
        """Return a number, and what gives it back; it goes with its *owner*, too."""
        number = self._taken[-1] + 1 if self._taken else 1
        self._taken.append(number)
        give_back = weakref.finalize(owner, self._taken.remove, number)
        give_back.atexit = False
        return number, give_back


class AgentIds:
    """The ids of the agents on one bus; two of one id would hear each other's handlers."""

    def __init__(self) -> None:
        self._agents: weakref.WeakValueDictionary[str, object] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def claim(self, agent_id: str, agent: object) -> None:
        """Let *agent* alone have *agent_id* for as long as it lives, or until `release`.

        Raises `RegistrationError` if another one has it.
        """
        if not self._is_claimed(agent_id, agent):
            # Agents that nobody closed are in circles, so they stay for a while; rare enough.
            gc.collect()
            if not self._is_claimed(agent_id, agent):
                reason = (
                    "another agent on this bus has that id, and each would hear the handlers of"
                )
                way_out = "give it another `agent_id` or bus, or close the other agent first"
                raise RegistrationError(f"agent {agent_id!r}", f"{reason} the other; {way_out}")

    def release(self, agent_id: str, agent: object) -> None:
        """Give *agent_id* back, if *agent* has it."""
        with self._lock:
            if self._agents.get(agent_id) is agent:
                del self._agents[agent_id]

    def _is_claimed(self, agent_id: str, agent: object) -> bool:
        with self._lock:
            return self._agents.setdefault(agent_id, agent) is agent
