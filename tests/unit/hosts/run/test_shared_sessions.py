"""Sessions that another process has written to are forgotten."""

from toolbus import AgentComponent, UserMessage
from toolbus.hosts.run.event_log import HookStore
from toolbus.hosts.run.shared_sessions import SharedSessions


class Keeper(AgentComponent):
    def __init__(self):
        self.forgotten = []

    def forget_session(self, session_id):
        self.forgotten.append(session_id)


class Process:
    """One process with a keeper of sessions, on the store *file*."""

    def __init__(self, file):
        self.store, self.keeper, self._count = HookStore(file), Keeper(), 0
        self.shared = SharedSessions(self.store, [self.keeper])

    async def write(self, session_id="s"):
        self._count += 1
        message = UserMessage(id=f"{id(self)}-{self._count}", content="hello")
        assert await self.store.append_once(session_id, [message], [])
        self.shared.add(session_id, 1)

    async def handle(self, *session_ids):
        """Return the sessions that are forgotten at an event."""
        self.keeper.forgotten.clear()
        async with self.shared.entered(*session_ids):
            forgotten = list(self.keeper.forgotten)
            await self.write(session_ids[0])
        return forgotten


async def test_a_session_is_forgotten_after_a_write_of_another_process(tmp_path):
    first, second = Process(tmp_path / "s.db"), Process(tmp_path / "s.db")
    async with first.store, second.store:
        begun = [await first.handle("s"), await first.handle("s"), await first.handle("s")]
        away = await second.handle("s", "t")
        back = [await first.handle("s"), await first.handle("s")]

    assert begun == [["s"], [], []]
    assert away == ["s", "t"]
    assert back == [["s"], []]


async def test_a_running_event_is_in_memory_only_so_others_forget_until_its_end(tmp_path):
    first, second = Process(tmp_path / "s.db"), Process(tmp_path / "s.db")
    async with first.store, second.store:
        await first.handle("s")
        async with first.shared.entered("s"):
            await second.handle("s")
            beside = [await first.handle("s"), await first.handle("s")]
            await first.write()
        after = [await first.handle("s"), await first.handle("s")]

    assert beside == [["s"], ["s"]]
    assert after == [["s"], []]
