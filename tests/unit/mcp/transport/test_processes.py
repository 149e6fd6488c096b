"""What a server's process says, a line at a time."""

import logging
import sys

from toolbus.mcp.transport.processes import start

MANY = 5_000


def nothing():
    return None


async def said(code, take):
    """Return why the process that runs *code* must be ended; *take* gets its lines."""
    process = await start([sys.executable, "-c", code])
    try:
        return await process.lines(2**20, take, nothing)
    finally:
        await process.kill()


async def test_many_lines_in_one_piece_are_taken_one_after_another():
    taken = []

    async def take(line):
        taken.append(line)

    why = await said(f"print('x\\n' * {MANY}, end='')", take)

    assert why == ""
    assert taken == [b"x\n"] * MANY


async def test_lines_are_taken_in_their_order_whether_they_must_be_awaited_or_not():
    taken = []

    async def later(line):
        taken.append(line)

    def take(line):
        if int(line) % 3:
            return later(line)
        return taken.append(line)

    why = await said(f"print(*range({MANY}), sep='\\n')", take)

    assert why == ""
    assert taken == [b"%d\n" % number for number in range(MANY)]


async def test_a_line_that_cannot_be_taken_ends_the_server_and_says_so(caplog):
    def take(line):
        raise KeyError(line)

    with caplog.at_level(logging.ERROR, "toolbus"):
        why = await said("print('x', flush=True); import time; time.sleep(60)", take)

    assert why == "the proxy failed; see its log"
    assert [record.exc_info[0] for record in caplog.records] == [KeyError]
