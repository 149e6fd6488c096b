"""A program whose processes are killed: `ADDRESS KILLS SESSIONS`, two agents in each session.

It prints the id of each message that was appended, and ends when so many have been killed; then
it lets each process that is there end by itself.
"""

import asyncio
import os
import random
import select
import signal
import sys

from kill_agent import short_turns, work
from kill_steps import say, start_child
from toolbus import Agent
from toolbus.errors import SessionBusyError, StoreError
from toolbus.events.catalogue import MESSAGE_APPEND_AFTER
from toolbus.models.scripted import ScriptedModel
from toolbus.store.postgres.store import PostgresStore


async def share(address, session_id, ended):
    """Run again and again until *ended*, a pipe, is closed; whatever the store says."""
    agent = None
    while not select.select([ended], [], [], 0)[0]:
        try:
            if agent is None:
                model = ScriptedModel(short_turns())
                agent = Agent(
                    model, tools=[work], store=PostgresStore(address), session_id=session_id
                )
                agent.on(MESSAGE_APPEND_AFTER, lambda ctx: say(f"{session_id} {ctx.value.id}"))
            await agent.run("go")
        except SessionBusyError:
            await asyncio.sleep(0.001)
        except StoreError as error:
            print(error, file=sys.stderr)
            await asyncio.sleep(0.05)


def start(address, session_id, ended, end, lines):
    """Start a process with an agent, and return its id; it ends when all have closed *end*."""

    def run():
        os.close(end)
        os.dup2(lines, sys.stdout.fileno())
        asyncio.run(share(address, session_id, ended))

    return start_child(run)


def main(address, kills, sessions):
    """Kill processes until it were so many, and start another one for each."""
    chance = random.Random(7)
    ended, end = os.pipe()
    read, lines = os.pipe()
    told = os.fdopen(read)
    options = (ended, end, lines)
    names = [f"s{number // 2}" for number in range(2 * int(sessions))]
    children = {start(address, name, *options): name for name in names}
    for _ in range(int(kills)):
        for _ in range(chance.randrange(12)):
            say(told.readline().strip())
        child = chance.choice(list(children))
        name = children.pop(child)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        children[start(address, name, *options)] = name
    os.close(end)
    os.close(lines)
    for line in told:
        say(line.strip())
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
