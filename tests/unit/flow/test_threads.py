"""Sessions of a host whose calls come from threads with loops of their own."""

import asyncio
import threading

from toolbus import EventBus, Scope
from toolbus.components.participants import ComponentHost
from toolbus.flow import FlowGuard

SCOPE = Scope(agent_id="a", session_id="s")


class SlowHost(ComponentHost):
    """A host whose store answers when two threads have asked."""

    def __init__(self):
        super().__init__(EventBus(), Scope())
        self._both = threading.Barrier(2, timeout=10)

    async def recorded(self, session_id):
        self._both.wait()
        return await super().recorded(session_id)


def test_two_threads_share_the_view_of_a_session():
    flow, views = FlowGuard(), []
    flow.setup(SlowHost())

    def open_view():
        views.append(asyncio.run(flow.view(SCOPE)))

    threads = [threading.Thread(target=open_view) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(views) == 2
    assert views[0] is views[1] is flow.views.get("s")
