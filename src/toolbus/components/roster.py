"""The roster of one bus: the ids of its agents, and numbers for their components."""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Roster:
    """The ids and numbers in use on a bus: `bus.shared(Roster)`."""

    def __init__(self) -> None:
        self._agents: weakref.WeakValueDictionary[str, object] = weakref.WeakValueDictionary()
        self._numbers: dict[Hashable, list[int]] = {}
        self._lock = threading.Lock()
        # The depths of agents that join the bus of a caller: a later one is deeper.
        self.depths = count(1)

    def claim(self, agent_id: str, agent: object) -> None:
        """Reserve *agent_id* for *agent* for as long as it lives, or until `release`.

        The handlers of two agents with one id would mix. Raises `RegistrationError` if another
        agent has the id.
        """
        if not self._is_claimed(agent_id, agent):
            # An agent that was never closed lives in a reference cycle until a collection.
            gc.collect()
            if not self._is_claimed(agent_id, agent):
                reason = "another agent on this bus has that id, so their handlers would mix"
                way_out = "give it another `agent_id` or bus, or close the other agent first"
                raise RegistrationError(f"agent {agent_id!r}", f"{reason}; {way_out}")

    def release(self, agent_id: str, agent: object) -> None:
        """Release *agent_id*, if *agent* has it."""
        with self._lock:
            if self._agents.get(agent_id) is agent:
                del self._agents[agent_id]

    def number(
        self, row: Hashable, owner: object, *, lowest: bool = False
    ) -> tuple[int, Callable[[], object]]:
        """Return a number for *owner* in *row*, from 1, and a function that releases it.

        It is above all numbers in use there, or the *lowest* free one. It is also released when
        the owner is collected.
        """
        with self._lock:
            taken = self._numbers.setdefault(row, [])
            number = max(taken, default=0) + 1
            if lowest:
                number = next(free for free in count(1) if free not in taken)
            taken.append(number)
            # An owner may have been collected meanwhile, and the row with it.
            self._numbers[row] = taken
        release = weakref.finalize(owner, self._release, row, number)
        release.atexit = False
        return number, release

    def _release(self, row: Hashable, number: int) -> None:
        # Without the lock: the garbage collector may call it in a thread that holds it.
        taken = self._numbers[row]
        taken.remove(number)
        if not taken:
            self._numbers.pop(row, None)

    def _is_claimed(self, agent_id: str, agent: object) -> bool:
        with self._lock:
            return self._agents.setdefault(agent_id, agent) is agent
