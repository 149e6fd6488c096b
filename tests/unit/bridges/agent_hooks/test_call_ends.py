import asyncio
import random
from collections import Counter
from contextlib import suppress

import pytest

from hook_hosts import Host, failure
from toolbus import AgentComponent, Ask, Deny, guard, on
from toolbus.bridges.agent_hooks import AgentHooksInterceptor
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_AFTER, TOOL_CALL_BEFORE

SECRET = "tok-" + "5e7a1c90"
STEPS = ["call", "call", "result", "request", "reply", "output", "input", "late", "shutdown"]


class Rules(AgentComponent):
    def __init__(self):
        super().__init__()
        self.ends = Counter()

    @on(TOOL_CALL_AFTER)
    def count(self, ctx):
        self.ends[ctx.value.requested.id] += 1

    @on(MESSAGE_APPEND_BEFORE, on_error="closed")
    def redact(self, ctx):
        return ctx.value.map_text(lambda text: text.replace(SECRET, "[secret]"))

    @guard(TOOL_CALL_BEFORE)
    async def judge(self, ctx):
        match ctx.value.name:
            case "forbidden":
                return Deny("no")
            case "crash":
                raise ValueError("a bug")
            case "pay":
                return Ask("Pay?")
            case "hang":
                await asyncio.sleep(30)
        return None


class RandomHost:
    """A host that does steps in any order, with ids that repeat; it keeps what it has begun."""

    def __init__(self, interceptor, chance):
        self._chance = chance
        self._host = Host(interceptor, framework=chance.choice(["host", "agent-framework"]))
        self.begun, self.results, self.verdicts = Counter(), 0, []

    async def step(self):
        call_id = f"c{self._chance.randint(1, 4)}"
        await getattr(self, self._chance.choice(STEPS))(call_id)

    async def call(self, call_id):
        self.begun[call_id] += 1
        await self._host.call(call_id, self._chance.choice(["read", "forbidden", "crash", "pay"]))

    async def late(self, call_id):
        self.begun[call_id] += 1
        with suppress(TimeoutError):
            await asyncio.wait_for(self._host.call(call_id, "hang"), 0.001)

    async def result(self, call_id):
        self.results += 1
        is_error = self._chance.random() < 0.4
        verdict = await self._host.result(call_id, "read", f"it is {SECRET}", is_error=is_error)
        self.verdicts.append(verdict)

    async def request(self, _):
        shown = [f"c{number}" for number in range(1, 5) if self._chance.random() < 0.5]
        messages = [failure(call_id, f"no {SECRET}") for call_id in shown]
        tools = self._chance.choice([None, ["read", "pay"]])
        await self._host.request({"role": "user", "content": "go"}, *messages, tools=tools)

    async def reply(self, call_id):
        self.results += 1
        await self._host.reply("so", (call_id, self._chance.choice(["read", "ghost"]), {}))

    async def output(self, _):
        await self._host.output("done")

    async def input(self, _):
        await self._host.input("go")

    async def shutdown(self, _):
        await self._host.shutdown(self._chance.choice(["completed", "cancelled", "error"]))


@pytest.mark.parametrize("seed", range(60))
async def test_each_call_has_one_end_whatever_the_host_does(seed):
    chance, rules = random.Random(seed), Rules()

    async with AgentHooksInterceptor([rules], host_asks=chance.random() < 0.5) as interceptor:
        host = RandomHost(interceptor, chance)
        for _ in range(chance.randint(5, 20)):
            await host.step()

    missing = {call_id: n for call_id, n in host.begun.items() if rules.ends[call_id] < n}
    assert missing == {}
    # Only results of calls that were never judged, and unseen calls, add to those of the host.
    assert rules.ends.total() <= host.begun.total() + host.results
    assert [verdict for verdict in host.verdicts if SECRET in str(verdict)] == []
