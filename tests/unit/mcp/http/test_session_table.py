"""Sessions by id: how long they are known, and that each is ended once."""

import asyncio

from toolbus.mcp.http.session_table import ClientSession, SessionTable


class EndingSession(ClientSession):
    """A session that counts its ends."""

    def __init__(self):
        self.reasons = []

    async def end(self, reason):
        self.reasons.append(reason)


async def test_an_idle_session_is_ended_once():
    table, session = SessionTable(0.01), EndingSession()
    with table.using(session):
        table.add("a", session)
        with table.using(session):
            await asyncio.sleep(0.03)
        used = table.get("a")
    while table.get("a") is not None:
        await asyncio.sleep(0.01)
    table.end(session)
    await table.close("the proxy has ended")

    assert used is session
    assert session.reasons == ["the session has ended"]


async def test_the_longest_unused_make_room():
    table, sessions = SessionTable(60), [EndingSession() for _ in range(3)]
    for number, session in enumerate(sessions):
        table.add(str(number), session)
    with table.using(sessions[0]):
        table.shrink(2)
        known = [table.get(str(number)) is not None for number in range(3)]
    await table.close("the proxy has ended")

    assert known == [True, False, True]
    assert [session.reasons for session in sessions] == [
        ["the proxy has ended"],
        ["the session has ended"],
        ["the proxy has ended"],
    ]


async def test_a_session_of_the_same_id_takes_its_place():
    table, first, second = SessionTable(60), EndingSession(), EndingSession()
    with table.using(first):
        table.add("a", first)
        table.add("a", second)
        table.end(second)
    table.end(first)
    await table.close("the proxy has ended")

    assert [first.reasons, second.reasons] == [["the session has ended"]] * 2
