"""The scenarios of `specs/approvals.md`."""

import asyncio

from toolbus import Ask, EventBus, Scope, ToolCall, ToolRunner, Toolset, tool
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import digest_of, find_question, questions_of
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.testing.fakes import FakeClock

HOUR = 3_600


class Program:
    """A program with a tool `pay` that notes its effects; a guard asks about each call of it."""

    def __init__(self, store, *, session="s", effects=None, clock=None, **options):
        self.effects = [] if effects is None else effects
        self.clock = clock or FakeClock(1_000_000_000)
        self.store, self.session = store, session
        self.bus = EventBus()
        self.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("pay it?"), name="till")
        self.approvals = StoredApprovals(store=store, clock=self.clock, **options)

        @tool
        def pay(amount: int) -> str:
            """Pay."""
            self.effects.append(amount)
            return f"paid {amount}"

        self.toolset = Toolset([pay])

    def runner(self, **options):
        scope = Scope(agent_id="main", session_id=self.session)
        return ToolRunner(self.bus, self.toolset, scope, approver=self.approvals, **options)

    async def pay(self, amount=1):
        self.clock.advance(0.001)  # So that questions have an order.
        return await self.runner().call("pay", {"amount": amount})

    async def answer(self, outcome_or_id, *, approve=True, by="ann", **options):
        """Answer as somebody who was shown the question."""
        pending = getattr(outcome_or_id, "pending", (outcome_or_id,))
        question = await find_question(self.store, pending[0])
        options = {"clock": self.clock} | options
        return await answer(
            self.store, question.id, question.digest, approve=approve, by=by, **options
        )

    async def questions(self):
        return await questions_of(self.store, self.session)

    async def asked(self, count=1):
        """Return the questions of the session once there are *count*."""
        while len(questions := await self.questions()) < count:
            await asyncio.sleep(0)
        return questions


async def test_a_call_that_nobody_answers_is_pending(store):
    program = Program(store)

    outcome = await program.pay()

    (question,) = await program.questions()
    assert (outcome.status, outcome.pending, program.effects) == ("pending", (question.id,), [])
    assert outcome.executed is None
    assert outcome.response.is_error
    assert outcome.response.text == (
        f"a person must approve this call; question {question.id} waits. "
        "Call it again with the same arguments to learn the answer"
    )
    assert (question.state, question.guard, question.prompt) == ("pending", "till", "pay it?")
    assert question.expires_ns - question.asked_ns == 24 * HOUR * 10**9


async def test_an_approver_sees_what_runs(store):
    program = Program(store)
    double = lambda ctx: ToolCall(  # noqa: E731 - shorter
        id=ctx.value.id, name="pay", arguments={"amount": ctx.value.arguments["amount"] * 2}
    )
    program.bus.on(TOOL_CALL_BEFORE, double)

    await program.answer(await program.pay(4))
    outcome = await program.pay(4)

    (question,) = await program.questions()
    assert (question.tool, question.arguments) == ("pay", {"amount": 8})
    assert (question.requested_tool, question.requested_arguments) == ("pay", {"amount": 4})
    assert program.effects == [8]
    assert question.digest == digest_of(outcome.executed.name, outcome.executed.arguments)


async def test_a_yes_counts_once(store):
    program = Program(store)
    await program.answer(await program.pay())

    first, second = await program.pay(), await program.pay()

    assert (first.status, second.status, program.effects) == ("ok", "pending", [1])
    assert [question.state for question in await program.questions()] == ["done", "pending"]


async def test_a_no_is_told_once(store):
    program = Program(store)
    await program.answer(await program.pay(), approve=False, reason="not before Monday")

    first, second = await program.pay(), await program.pay()

    assert (first.status, first.response.text) == ("denied", "not before Monday")
    assert (second.status, program.effects) == ("pending", [])
    states = [(question.state, question.delivered) for question in await program.questions()]
    assert states == [("denied", True), ("pending", False)]


async def test_changed_arguments_need_a_new_question(store):
    program = Program(store)
    await program.answer(await program.pay(1))

    changed = await program.pay(2)
    same = await program.pay(1)

    assert (changed.status, same.status, program.effects) == ("pending", "ok", [1])
    states = {
        question.arguments["amount"]: question.state for question in await program.questions()
    }
    assert states == {1: "done", 2: "pending"}


async def test_a_waiting_call_goes_on_by_itself(place):
    program, other = Program(place.open(), wait=60), Program(place.open())

    call = asyncio.create_task(program.pay())
    (question,) = await other.asked()
    result = await other.answer(question.id)
    outcome = await call

    assert (result.status, outcome.status, program.effects) == ("accepted", "ok", [1])
    (question,) = await other.questions()
    assert (question.state, question.answered_by) == ("done", "ann")


async def test_approved_an_hour_later_in_another_process(place):
    clock, effects = FakeClock(10**18), []
    asked = await Program(place.open(), clock=clock, effects=effects).pay()
    clock.advance(HOUR)
    await Program(place.open(), clock=clock).answer(asked)
    clock.advance(HOUR)
    later = Program(place.open(), clock=clock, effects=effects)

    outcome = await later.pay()

    (question,) = await later.questions()
    assert (outcome.status, effects, question.state) == ("ok", [1], "done")
    hours = [
        round((moment - 10**18) / HOUR / 10**9)
        for moment in (question.asked_ns, question.answered_ns, question.taken_ns)
    ]
    assert hours == [0, 1, 2]


async def test_of_two_answers_exactly_one_counts(place):
    here, there = Program(place.open()), Program(place.open())

    for amount in range(10):
        asked = await here.pay(amount)
        yes, no = await asyncio.gather(
            here.answer(asked, by="ann"), there.answer(asked, by="bob", approve=False)
        )
        outcome = await here.pay(amount)

        accepted = [result for result in (yes, no) if result.status == "accepted"]
        (refused,) = [result for result in (yes, no) if result.status == "already_answered"]
        assert accepted[0].question.answered_by in refused.text
        assert outcome.status == ("ok" if accepted[0] is yes else "denied")
        assert (amount in here.effects) is (accepted[0] is yes)


async def test_an_answer_to_something_else_counts_nothing(store):
    program = Program(store)
    asked = await program.pay()
    (before,) = await program.questions()
    name, digest = before.id, before.digest
    other = digest_of("pay", {"amount": 2})

    strange = await answer(store, "nobody", digest, approve=True, by="ann")
    moved = await answer(store, name, other, approve=True, by="ann")
    (unchanged,) = await program.questions()
    await program.answer(asked, approve=False)
    again = await program.answer(asked, approve=True, by="bob")

    assert [result.status for result in (strange, moved, again)] == [
        "unknown_question",
        "other_digest",
        "already_answered",
    ]
    assert [result.text for result in (strange, moved, again)] == [
        "there is no question 'nobody'",
        f"question {name!r} is about another call than was shown; look at it again",
        f"question {name!r} was answered already by 'ann', and is denied",
    ]
    assert unchanged == before
    assert (await program.pay()).status == "denied"


async def test_a_late_answer_counts_nothing(store):
    program = Program(store, expires_after=HOUR)
    asked = await program.pay()
    program.clock.advance(HOUR)

    late = await program.answer(asked)
    first, second = await program.pay(), await program.pay()

    assert (late.status, late.question.state) == ("too_late", "expired")
    assert (first.status, first.response.text) == ("denied", "approval was not given in time")
    assert (second.status, program.effects) == ("pending", [])
