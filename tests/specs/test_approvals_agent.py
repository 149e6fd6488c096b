"""The scenarios of `specs/approvals_agent.md`."""

import asyncio
import logging
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from toolbus import (
    Agent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    ToolCall,
    ToolContext,
    ToolMessage,
    tool,
)
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import (
    find_question,
    question_name,
    questions_of,
    swap_question,
)
from toolbus.errors import AppendError, SessionBusyError, StoreError
from toolbus.events import TOOL_CALL_AFTER, TOOL_CALL_BEFORE, ModelDelta, RunResult, TurnEnd
from toolbus.models.scripted import ScriptedModel
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.store.memory import MemoryStore
from toolbus.testing.fakes import FakeClock

HOUR = 3_600


def calling(*calls, message_id="ask"):
    """Return a message that asks for *calls*, each an id, a tool and its arguments."""
    made = [ToolCall(id=key, name=name, arguments=values) for key, name, values in calls]
    return AssistantMessage(id=message_id, tool_calls=made)


PAY = calling(("c1", "pay", {"amount": 1}), ("c2", "look", {}))
TWICE = calling(("c1", "pay", {"amount": 1}), ("c2", "pay", {"amount": 2}))


class House:
    """Agents on one store: `pay` is asked about, `look` is not; both note that they ran."""

    def __init__(self, store):
        self.store, self.effects, self.clock = store, [], FakeClock(1_000_000_000)
        self.models = []

    def tools(self):
        @tool
        async def pay(amount: int) -> str:
            self.effects.append(f"pay {amount}")
            return f"paid {amount}"

        @tool
        async def look() -> str:
            self.effects.append("look")
            return "seen"

        return [pay, look]

    def agent(self, *answers, session="s", asks=("pay",), wait=0.0, bus=None, notify=(), **options):
        """Return an agent as another process would make it."""
        self.models.append(ScriptedModel(answers))
        bus = bus or self.bus(asks)
        limits = dict.fromkeys(("max_open", "max_hourly", "max_denials"))
        approvals = StoredApprovals(wait=wait, clock=self.clock, notify=notify, **limits)
        options = {"tools": self.tools(), "store": self.store, "approver": approvals} | options
        return Agent(self.models[-1], bus=bus, session_id=session, **options)

    def bus(self, asks=("pay",)):
        bus = EventBus()
        bus.guard(
            TOOL_CALL_BEFORE,
            lambda ctx: Ask("pay it?") if ctx.value.name in asks else None,
            name="till",
        )
        return bus

    async def answer(self, question_id, *, approve=True, reason=""):
        question = await find_question(self.store, question_id)
        return await answer(
            self.store,
            question_id,
            question.digest,
            approve=approve,
            by="ann",
            reason=reason,
            clock=self.clock,
        )

    async def states(self, session="s"):
        return [question.state for question in await questions_of(self.store, session)]

    def read(self, number=-1):
        """Return what the latest model read of calls, by their ids; one result for each."""
        request = self.models[number].requests[-1]
        messages = [message for message in request.messages if message.role == "tool"]
        results = {message.tool_call_id: message.text for message in messages}
        assert len(results) == len(messages)
        return results


@pytest.fixture
def house(store):
    return House(store)


async def test_a_run_ends_as_pending(house):
    async with house.agent(PAY) as agent:
        result = await agent.run("go")
        pending = await agent.pending()

    (question,) = await questions_of(house.store, "s")
    assert (result.status, result.pending, pending) == ("pending", (question.id,), (question.id,))
    assert question.id in result.reason
    assert result.message.id == "ask"
    assert [message.role for message in result.messages] == ["user", "assistant", "tool"]
    assert result.messages[-1].tool_call_id == "c2"
    assert house.effects == ["look"]
    assert len(house.models[0].requests) == 1


async def test_another_process_resumes_after_a_late_approval(house):
    async with house.agent(PAY) as agent:
        waiting = await agent.run("go")
    house.clock.advance(HOUR)
    await house.answer(*waiting.pending)

    async with house.agent("Done.") as agent:
        result = await agent.resume()

    assert (result.status, result.text, result.turns) == ("ok", "Done.", 1)
    assert house.effects == ["look", "pay 1"]
    assert house.read() == {"c1": "paid 1", "c2": "seen"}
    assert await house.states() == ["done"]


async def test_a_denial_is_a_result(house):
    async with house.agent(PAY) as agent:
        waiting = await agent.run("go")
    await house.answer(*waiting.pending, approve=False, reason="not before Monday")

    async with house.agent("Then on Monday.") as agent:
        result = await agent.resume()

    assert (result.status, house.effects) == ("ok", ["look"])
    assert house.read()["c1"] == "not before Monday"
    assert await house.states() == ["denied"]


async def test_a_refused_call_leaves_its_approved_sibling(house):
    async with house.agent(TWICE) as agent:
        waiting = await agent.run("go")
    await house.answer(waiting.pending[0], approve=False)
    await house.answer(waiting.pending[1])

    async with house.agent("Done.") as agent:
        await agent.resume()

    assert house.effects == ["pay 2"]
    assert house.read()["c2"] == "paid 2"
    assert "refused" in house.read()["c1"]


async def test_an_unanswered_call_stays_pending(house):
    async with house.agent(TWICE) as agent:
        first = await agent.run("go")
    await house.answer(first.pending[1])

    async with house.agent() as agent:
        second = await agent.resume()
    effects = list(house.effects)
    await house.answer(*second.pending)
    async with house.agent("Done.") as agent:
        third = await agent.resume()

    assert (second.status, second.pending) == ("pending", first.pending[:1])
    assert effects == ["pay 2"]
    assert (third.status, house.effects) == ("ok", ["pay 2", "pay 1"])
    assert house.read() == {"c1": "paid 1", "c2": "paid 2"}


async def test_a_run_waits_for_its_answer(house):
    async with house.agent(PAY, "Done.", wait=HOUR) as agent:
        run = asyncio.create_task(agent.run("go"))
        while not (questions := await questions_of(house.store, "s")):
            await asyncio.sleep(0)
        await house.answer(questions[0].id)
        result = await run

    assert (result.status, house.effects) == ("ok", ["look", "pay 1"])


async def test_results_of_siblings_are_kept_meanwhile(house):
    async with house.agent(PAY, "Done.", wait=HOUR) as agent:
        run = asyncio.create_task(agent.run("go"))
        while "tool" not in [message.role for message in await house.store.read("s")]:
            await asyncio.sleep(0)
        while not (states := await house.states()):
            await asyncio.sleep(0)
        await house.answer((await questions_of(house.store, "s"))[0].id)
        await run

    assert states == ["pending"]
    assert [message.role for message in await house.store.read("s")][-3:] == [
        "tool",
        "tool",
        "assistant",
    ]


async def test_an_unreadable_question_affects_its_call_alone(store, caplog):
    house = House(store)
    waiting = await house.agent(TWICE).run("go")
    approved, other = waiting.pending
    await house.answer(approved)
    name = question_name(other)
    body = await store.read_state("s", name)
    await store.swap_state("s", name, body, body.replace(b'"id":"', b'"id":"x'))

    agent = house.agent("done", "more")
    first, second = await agent.resume(), await agent.run("and now?")

    texts = [message.text for message in agent.messages if isinstance(message, ToolMessage)]
    assert (first.status, second.status, house.effects) == ("ok", "ok", ["pay 1"])
    assert "paid 1" in texts
    assert sum("was interrupted" in text for text in texts) == 1
    assert f"{name} of session 's' cannot be read" in caplog.text
    assert await agent.pending() == ()


async def test_a_second_resume_runs_nothing(house):
    async with house.agent(PAY) as agent:
        waiting = await agent.run("go")
    await house.answer(*waiting.pending)
    async with house.agent("Done.") as agent:
        first = await agent.resume()

    async with house.agent() as agent:
        second = await agent.resume()

    assert (second.status, second.text, second.turns) == ("ok", first.text, 0)
    assert house.effects == ["look", "pay 1"]
    assert house.models[-1].requests == []


async def test_two_concurrent_resumes_run_once(house):
    async with house.agent(PAY) as agent:
        waiting = await agent.run("go")
    await house.answer(*waiting.pending)

    async with house.agent("Done.") as one, house.agent("Done.") as other:
        ends = await asyncio.gather(one.resume(), other.resume(), return_exceptions=True)

    assert house.effects == ["look", "pay 1"]
    busy = [end for end in ends if isinstance(end, SessionBusyError)]
    assert [str(end) for end in ends if end not in busy] == ["Done."] * (2 - len(busy))
    assert len(busy) <= 1


async def test_a_new_prompt_withdraws_pending_questions(house):
    async with house.agent(PAY, "Well.") as agent:
        waiting = await agent.run("go")
        result = await agent.run("never mind")
    late = await house.answer(*waiting.pending)

    assert (result.status, late.status, house.effects) == ("ok", "too_late", ["look"])
    assert "withdrawn" in house.read()["c1"]
    assert await house.states() == ["withdrawn"]


async def test_the_program_answers_a_call_itself(house):
    async with house.agent(PAY, "Well.") as agent:
        waiting = await agent.run("go")
        await agent.append(ToolMessage(tool_call_id="c1", tool_name="pay", content="by cheque"))
        late = await house.answer(*waiting.pending)
        result = await agent.resume()

    assert (late.status, result.status, house.effects) == ("too_late", "ok", ["look"])
    assert house.read()["c1"] == "by cheque"


async def test_the_next_run_completes_a_question(house):
    async with house.agent(PAY) as agent:
        waiting = await agent.run("go")
    await house.answer(*waiting.pending)
    async with house.agent("Done.") as agent:
        await agent.resume()
    (question,) = await questions_of(house.store, "s")
    assert await swap_question(house.store, question, replace(question, state="taken"))

    async with house.agent("More.") as agent:
        await agent.run("more")

    assert await house.states() == ["done"]


async def test_enqueued_messages_withdraw_nothing(house, caplog):
    with caplog.at_level(logging.WARNING, "toolbus"):
        async with house.agent(PAY) as agent:
            waiting = await agent.run("go")
            agent.enqueue("hurry")
    await house.answer(*waiting.pending)
    async with house.agent("Done.") as agent:
        result = await agent.resume()

    assert (result.status, house.effects) == ("ok", ["look", "pay 1"])
    assert "1 enqueued messages are lost" in caplog.text


async def test_resuming_without_a_run_is_refused(house):
    async with house.agent(system="be brief") as agent:
        with pytest.raises(AppendError, match=r"agent\.run\(prompt\)"):
            await agent.resume()


async def test_a_resumed_run_is_streamed(house):
    async with house.agent(PAY) as agent:
        waiting = await agent.run("go")
    await house.answer(*waiting.pending)

    async with house.agent("Done.") as agent:
        pieces = [piece async for piece in agent.resume_stream()]

    kinds = [type(piece) for piece in pieces]
    assert kinds == [ToolMessage, TurnEnd, ModelDelta, TurnEnd, RunResult]
    assert pieces[1].message.id == "ask"
    assert [message.tool_call_id for message in pieces[1].tool_messages] == ["c1"]


async def test_a_later_guard_denies(house):
    async with house.agent(PAY) as agent:
        waiting = await agent.run("go")
    await house.answer(*waiting.pending)

    async with house.agent("Well.") as agent:
        agent.guard(TOOL_CALL_BEFORE, lambda _ctx: Deny("the till is shut"))
        await agent.resume()

    assert house.effects == ["look"]
    assert house.read()["c1"] == "the till is shut"
    assert await house.states() == ["withdrawn"]


async def test_a_call_without_its_guard_runs_once(house):
    thrice = calling(*[(f"c{amount}", "pay", {"amount": amount}) for amount in (1, 2, 3)])
    async with house.agent(thrice) as agent:
        waiting = await agent.run("go")
    await house.answer(waiting.pending[0])
    await house.answer(waiting.pending[1], approve=False, reason="not that")
    seen = []

    @tool
    async def pay(amount: int) -> str:
        questions = await questions_of(house.store, "s")
        seen.extend(each.state for each in questions if each.arguments["amount"] == amount)
        return f"paid {amount}"

    async with house.agent("Done.", asks=(), tools=[pay]) as agent:
        await agent.resume()

    assert seen == ["taken", "taken"]
    assert house.read() == {"c1": "paid 1", "c2": "not that", "c3": "paid 3"}
    assert sorted(await house.states()) == ["denied", "done", "done"]


async def test_changed_arguments_are_another_question(house):
    async with house.agent(PAY) as agent:
        waiting = await agent.run("go")
    await house.answer(*waiting.pending)

    async with house.agent() as agent:
        agent.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"amount": 100}))
        result = await agent.resume()

    assert (result.status, house.effects) == ("pending", ["look"])
    assert result.pending != waiting.pending
    questions = {question.id: question for question in await questions_of(house.store, "s")}
    assert questions[result.pending[0]].arguments == {"amount": 100}
    assert questions[waiting.pending[0]].state == "withdrawn"


async def test_call_ids_of_two_sessions_stay_apart(house):
    results = []
    for session in ("s", "t"):
        async with house.agent(PAY, session=session) as agent:
            results.append(await agent.run("go"))
    await house.answer(*results[1].pending)
    house.effects.clear()

    ends = []
    for session in ("s", "t"):
        async with house.agent("Done.", session=session) as agent:
            ends.append((await agent.resume()).status)

    assert (ends, house.effects) == (["pending", "ok"], ["pay 1"])


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_secret_is_restored_after_the_approval(store, is_known):
    house, secret, got = House(store), "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8", []

    @tool
    async def give() -> str:
        return secret

    @tool
    async def use(key: str) -> str:
        got.append(key)
        return "used"

    def quote(request):
        return calling(("u1", "use", {"key": request.messages[-1].text}), message_id="m2")

    def made(*answers):
        vault = [RedactSecrets(vault=[{"tool": "use", "arguments": ["key"]}])]
        return house.agent(*answers, asks=("use",), tools=[give, use], components=vault)

    async with made(calling(("g1", "give", {})), quote, "Done.") as first:
        waiting = await first.run("go")
        question = await find_question(store, waiting.pending[0])
        await house.answer(question.id)
        if is_known:
            await first.resume()
    if not is_known:
        async with made("Well.") as second:
            await second.resume()

    assert secret not in str(question)
    assert got == ([secret] if is_known else [])
    assert await house.states() == (["done"] if is_known else ["withdrawn"])
    assert is_known or "is not known any more" in house.read()["u1"]


async def test_a_nested_call_is_not_left_open(house):
    @tool
    async def outer(context: ToolContext) -> str:
        return (await context.call("pay", {"amount": 3})).text

    asking = calling(("c1", "outer", {}))
    async with house.agent(asking, "Well.", tools=[outer, *house.tools()]) as agent:
        result = await agent.run("go")

    assert (result.status, house.effects) == ("ok", [])
    assert "a person must approve this call" in house.read()["c1"]
    assert await house.states() == ["withdrawn"]


DELEGATE = calling(("down", "worker", {"prompt": "pay it"}), message_id="delegate")
LOOK = calling(("w1", "look", {}), message_id="look")
WORK = calling(("w2", "pay", {"amount": 5}), message_id="work")


def family(house, above, below, **options):
    """Return an agent with a sub-agent `worker`, which has nothing of its own unless told."""
    bus = house.bus(options.pop("asks", ("pay",)))
    house.models.append(ScriptedModel(below))
    own = {name: options.pop(f"worker_{name}", None) for name in ("store", "approver")}
    worker = Agent(house.models[-1], tools=house.tools(), bus=bus, agent_id="worker", **own)
    return house.agent(*above, bus=bus, tools=[worker.as_tool("worker")], **options)


async def test_a_sub_agent_s_question_makes_its_parent_wait(house):
    async with family(house, [DELEGATE], [LOOK, WORK]) as agent:
        waiting = await agent.run("go")
        pending = await agent.pending()
    question = await find_question(house.store, waiting.pending[0])
    roles = [message.role for message in await house.store.read("s")]
    await house.answer(question.id)

    async with family(house, ["All done."], ["Paid it."]) as agent:
        result = await agent.resume()

    assert (waiting.status, pending, roles) == ("pending", (question.id,), ["user", "assistant"])
    assert question.session_id.startswith("s/down/")
    assert (result.status, result.text) == ("ok", "All done.")
    assert house.effects == ["look", "pay 5"]
    assert house.read() == {"down": "Paid it."}
    assert house.read(-2) == {"w1": "seen", "w2": "paid 5"}
    assert await house.states(question.session_id) == ["done"]


async def test_an_approved_sub_agent_waits_for_its_tool(house):
    async with family(house, [DELEGATE], [], asks=("pay", "worker")) as agent:
        first = await agent.run("go")
    await house.answer(*first.pending)
    async with family(house, [], [LOOK, WORK], asks=("pay", "worker")) as agent:
        second = await agent.resume()
    states = await house.states()
    below = await find_question(house.store, second.pending[0])
    await house.answer(below.id)

    async with family(house, ["All done."], ["Paid it."], asks=("pay", "worker")) as agent:
        third = await agent.resume()

    assert (first.status, second.status, third.status) == ("pending", "pending", "ok")
    assert states == ["taken"]
    assert house.effects == ["look", "pay 5"]
    assert await house.states() == await house.states(below.session_id) == ["done"]


async def test_a_sub_agent_s_messages_are_lost(house):
    async with family(house, [DELEGATE], [WORK], worker_store=MemoryStore()) as agent:
        waiting = await agent.run("go")
    question = await find_question(house.store, waiting.pending[0])
    await house.answer(question.id)

    async with family(house, ["Well."], [WORK], worker_store=MemoryStore()) as agent:
        result = await agent.resume()

    assert (result.status, house.effects) == ("ok", [])
    assert "its messages were lost with their store" in house.read()["down"]
    assert await house.states(question.session_id) == ["withdrawn"]


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_sub_agent_has_its_own_approvals(house, keeps):
    own = {"worker_approver": StoredApprovals()}
    above = {} if keeps else {"approver": None}
    async with family(house, [DELEGATE, "Well."], [WORK], **own, **above) as agent:
        waiting = await agent.run("go")
    question = await find_question(house.store, (*waiting.pending, "none")[0])
    if keeps:
        await house.answer(question.id)
        async with family(house, ["All done."], ["Paid it."], **own) as agent:
            await agent.resume()

    assert waiting.status == ("pending" if keeps else "ok")
    assert house.effects == (["pay 5"] if keeps else [])
    assert keeps or "its caller cannot wait for the answer" in house.read()["down"]


async def test_a_new_prompt_withdraws_questions_below(house):
    async with family(house, [DELEGATE, "Well."], [WORK]) as agent:
        waiting = await agent.run("go")
        result = await agent.run("never mind")
    late = await house.answer(*waiting.pending)

    assert (result.status, late.status, house.effects) == ("ok", "too_late", [])
    assert "withdrawn" in house.read()["down"]


def say_what_is_known(facts, mode):
    """Return what is wrong about a kill; nothing, if all is well."""
    if "error" in facts:
        return ["the rest did not end by itself"]
    then, end = facts["then"], facts["finally"]
    asked = {"pending", "approved", "denied", "withdrawn"}
    ids = [call_id for call_id, _ in end["results"]]
    checks = {
        "it ran twice": end["pay"] <= 1 and end["look"] <= 1,
        "it ran though it was not taken": then["pay"] == 0 or not asked & set(then["states"]),
        "it ran unasked": then["states"] or then["pay"] == 0,
        "it did not run though it is done": then["states"] != ["done"] or then["pay"] == 1,
        "the end of it is another one": "done" not in end["states"] or end["pay"] == 1,
        "a question has no end": set(end["states"]) <= {"done", "denied", "unknown"},
        "a yes is lost": then["states"] != ["approved"] or end["states"] == ["done"],
        "a question is lost": not then["states"] or len(end["states"]) == 1,
        "it ran though it was denied": mode != "deny" or end["pay"] == 0,
        "a call has two results": len(ids) == len(set(ids)),
        "a call has no result": len(ids) in ({1, 3} if mode == "below" else {2}),
    }
    return [name for name, holds in checks.items() if not holds]


@pytest.mark.full
@pytest.mark.parametrize("mode", ["approve", "deny", "below"])
def test_a_kill_at_any_step_repeats_nothing(killed, mode):
    kills = killed.kills("kill_asking_agent.py", mode)

    steps = {facts["step"] for facts in kills}
    assert {"before swap_state", "after swap_state", "before append", "after append"} <= steps
    assert {"before pay", "after pay"} <= steps or mode == "deny"
    assert {state for facts in kills for state in facts["then"]["states"]} >= (
        {"pending", "denied"} if mode == "deny" else {"pending", "approved", "taken", "done"}
    )
    bad = [(facts, flaws) for facts in kills if (flaws := say_what_is_known(facts, mode))]
    assert bad == []


@pytest.mark.parametrize("asks", [("pay",), ()])
async def test_an_unwritten_question_is_asked(house, asks):
    async with house.agent(PAY) as agent:
        waiting = await agent.run("go")
    name = question_name(*waiting.pending)
    body = await house.store.read_state("s", name)
    assert await house.store.swap_state("s", name, body, None)

    async with house.agent("Done.", "More.", asks=asks) as agent:
        result = await agent.resume()
        if asks:
            await house.answer(waiting.pending[0])
            await agent.resume()
        await agent.run("more")

    assert result.pending == (waiting.pending if asks else ())
    assert house.effects == ["look", "pay 1"]
    assert house.read() == {"c1": "paid 1", "c2": "seen"}


QUESTIONS = 10
"""The questions of one turn."""


def many_turns(session, turns):
    """Return a script that asks for ten payments a turn, each of another amount."""

    def turn(request):
        number = sum(message.role == "assistant" for message in request.messages)
        amounts = range(number * QUESTIONS, (number + 1) * QUESTIONS)
        calls = [(f"c{one}", "pay", {"amount": f"{session}{one}"}) for one in amounts]
        return calling(*calls, message_id=f"m{number}")

    return [*[turn] * turns, "Done."]


class Approver:
    """A channel, and who answers what it is told of: every third time no."""

    def __init__(self, house):
        self._house, self.answered = house, []

    async def notify(self, question):
        number = int(question.arguments["amount"][1:])
        facts = {"session_id": question.session_id, "clock": self._house.clock}
        store, yes = self._house.store, number % 3 != 0
        result = await answer(store, question.id, question.digest, approve=yes, by="ann", **facts)
        assert result.status == "accepted"
        self.answered.append(question.id)


@contextmanager
def unwritten(store, call_id):
    """Let no message that answers the call be written, as if the process were killed before."""
    append = store.append

    async def fails(session_id, stored):
        if isinstance(stored.message, ToolMessage) and stored.message.tool_call_id == call_id:
            raise StoreError(session_id, "it is full")
        await append(session_id, stored)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "append", fails)
        with pytest.raises(StoreError):
            yield


def tells(agent):
    told = []
    agent.on(TOOL_CALL_AFTER, lambda ctx: told.append((ctx.value.requested.id, ctx.value.again)))
    return told


@pytest.mark.parametrize("prompt", [None, "and now?"])
async def test_a_repeated_outcome_is_marked(house, prompt):
    async def goes_on(agent):
        await (agent.run(prompt) if prompt else agent.resume())

    waiting = await house.agent(TWICE).run("go")
    await house.answer(waiting.pending[0], approve=False)
    first = house.agent()
    told = [tells(first)]
    with unwritten(house.store, "c1"):
        await first.resume()
    second = house.agent("Done.")
    told.append(tells(second))
    await goes_on(second)
    third = family(house, [DELEGATE], ["Seen."], session="t")
    told.append(tells(third))
    with unwritten(house.store, "down"):
        await third.run("go")
    fourth = family(house, ["All done."], [], session="t")
    told.append(tells(fourth))
    await goes_on(fourth)

    assert told[0] == [("c1", False)]
    assert sorted(told[1]) == [("c1", True), *([("c2", False)] if prompt else [])]
    assert told[2:] == [[("down", False)], [("down", True)]]


@pytest.mark.parametrize("prompt", [None, "and now?"])
async def test_a_kept_result_ends_its_question(house, prompt):
    waiting = await house.agent(PAY).run("go")
    await house.answer(*waiting.pending)
    agent = house.agent("Done.")
    told = tells(agent)

    with unwritten(house.store, "c1"):
        await agent.resume()
    result = await (agent.run(prompt) if prompt else agent.resume())

    assert (result.text, house.read()["c1"]) == ("Done.", "paid 1")
    assert house.effects == ["look", "pay 1"]
    assert told == [("c1", False)]
    assert await house.states() == ["done"]


# Of two agents fifty turns are a thousand questions.
@pytest.mark.parametrize("turns", [5, pytest.param(50, marks=pytest.mark.full)])
async def test_two_agents_share_a_thousand_questions(house, turns):
    @tool
    async def pay(amount: str) -> str:
        house.effects.append(amount)
        return f"paid {amount}"

    approver = Approver(house)

    async def work(session):
        options = {"tools": [pay], "wait": HOUR, "max_turns": turns + 1, "notify": [approver]}
        async with house.agent(*many_turns(session, turns), session=session, **options) as agent:
            return (await agent.run("go")).status

    statuses = await asyncio.gather(*[work(session) for session in "st"])

    asked = QUESTIONS * turns
    approved = [number for number in range(asked) if number % 3]
    assert statuses == ["ok", "ok"]
    assert len({*approver.answered}) == len(approver.answered) == 2 * asked
    assert sorted(house.effects) == sorted(f"{name}{one}" for name in "st" for one in approved)
    states = await house.states("s") + await house.states("t")
    assert states.count("done") == 2 * len(approved)
    assert states.count("denied") == 2 * (asked - len(approved))
    for name in "st":
        results = [each for each in await house.store.read(name) if each.role == "tool"]
        texts = {each.tool_call_id: each.text for each in results}
        assert len(texts) == len(results) == asked
        assert {one: texts[f"c{one}"] for one in approved} == {
            one: f"paid {name}{one}" for one in approved
        }
