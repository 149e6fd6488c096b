"""The scenarios of `specs/approvals.md`."""

import asyncio
import hashlib
import itertools
import json
import logging
import re

import pytest
from msgspec.structs import replace
from tests.plugins.three_stores import StorePlace

from toolbus import (
    Agent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    Retry,
    Scope,
    ToolCall,
    ToolRunner,
    Toolset,
    tool,
)
from toolbus.approvals import StoredApprovals, answer, revoke_grant
from toolbus.approvals.records import (
    canonical,
    digest_of,
    find_question,
    questions_of,
    swap_question,
)
from toolbus.approvals.steps import transition
from toolbus.errors import FreezeError, RegistrationError, StoreError
from toolbus.events import MESSAGE_PERSIST_BEFORE, TOOL_CALL_BEFORE, TOOL_CALL_ERROR
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.settings.user_folders import value_key_file
from toolbus.testing.fakes import FakeClock

HOUR = 3_600
MOST_OPERATIONS = 40
SECRET = "hunter" + "2-of-the-till"


class Program:
    """A program with a tool `pay` that notes its effects; a guard asks about each call of it."""

    def __init__(self, store, *, session="s", effects=None, clock=None, root="", **options):
        self.effects = [] if effects is None else effects
        self.clock = clock or FakeClock(1_000_000_000)
        self.store = store
        self.scope = Scope(agent_id="main", session_id=session, root_session_id=root)
        self.bus = EventBus()
        self.approvals = StoredApprovals(
            options.pop("approver", None), store=store, clock=self.clock, **options
        )

        @tool
        def pay(amount: int | str) -> str:
            """Pay."""
            self.effects.append(amount)
            return f"paid {amount}"

        @tool
        def wipe() -> str:
            """Wipe."""
            self.effects.append("wiped")
            return "wiped"

        self.toolset = Toolset([pay, wipe])

    def asking(self):
        """Return it with a guard that asks about each call."""
        self.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("pay it?"), name="till")
        return self

    def runner(self, **options):
        return ToolRunner(self.bus, self.toolset, self.scope, approver=self.approvals, **options)

    async def pay(self, amount=1):
        self.clock.advance(0.001)  # So that questions have an order.
        return await self.runner().call("pay", {"amount": amount})

    async def pay_all(self, *amounts):
        """Make a call of each of *amounts*, which is its id as well; it stays open."""
        calls = [
            ToolCall(id=str(amount), name="pay", arguments={"amount": amount}) for amount in amounts
        ]
        return await self.runner(leaves_pending=True).call_all(calls)

    async def answer(self, outcome_or_id, *, approve=True, by="ann", **options):
        """Answer as somebody who was shown the question."""
        pending = getattr(outcome_or_id, "pending", (outcome_or_id,))
        question = await find_question(self.store, pending[0])
        options = {"clock": self.clock} | options
        return await answer(
            self.store, question.id, question.digest, approve=approve, by=by, **options
        )

    async def questions(self):
        return await questions_of(self.store, self.scope.session_id)

    async def states(self):
        return [question.state for question in await self.questions()]

    async def asked(self, count=1):
        """Return the questions of the session once there are *count*."""
        while len(questions := await self.questions()) < count:
            await asyncio.sleep(0)
        return questions


class FailingStore:
    """A store of which one operation with states fails: it was done before that, or was not."""

    def __init__(self, store, number, *, is_done):
        self._store, self._remaining, self._is_done = store, number, is_done

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def read_state(self, *args):
        return await self._do(self._store.read_state, *args)

    async def swap_state(self, *args):
        return await self._do(self._store.swap_state, *args)

    async def _do(self, operation, *args):
        self._remaining -= 1
        if self._remaining == 0 and not self._is_done:
            raise StoreError("here", "it fails")
        result = await operation(*args)
        if self._remaining == 0:
            raise StoreError("here", "it fails")
        return result

    @property
    def has_failed(self):
        return self._remaining <= 0


class HidesSecrets:
    """A handler that keeps the secret out of the store."""

    def __init__(self, bus):
        bus.on(MESSAGE_PERSIST_BEFORE, self.hide)

    def hide(self, ctx):
        message = ctx.value
        calls = [
            replace(call, arguments=json.loads(json.dumps(call.arguments).replace(SECRET, "[1]")))
            for call in message.tool_calls
        ]
        content = message.content.replace(SECRET, "[1]")
        return replace(message, tool_calls=tuple(calls), content=content)


def state_bodies(store):
    """Return all that the store keeps beside messages, as one text."""
    with store.reader() as reader:
        return b"\n".join(row.name.encode() + b"=" + row.body for _, row in reader.states_like(""))


async def test_an_unanswered_call_is_pending(store):
    program = Program(store).asking()

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


async def test_a_question_shows_the_final_call(store):
    program = Program(store).asking()
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


async def test_an_approval_counts_once(store):
    program = Program(store).asking()
    await program.answer(await program.pay())

    first, second = await program.pay(), await program.pay()

    assert (first.status, second.status, program.effects) == ("ok", "pending", [1])
    assert [question.state for question in await program.questions()] == ["done", "pending"]


async def test_a_refusal_is_delivered_once(store):
    program = Program(store).asking()
    await program.answer(await program.pay(), approve=False, reason="not before Monday")

    first, second = await program.pay(), await program.pay()

    assert (first.status, first.response.text) == ("denied", "not before Monday")
    assert (second.status, program.effects) == ("pending", [])
    states = [(question.state, question.delivered) for question in await program.questions()]
    assert states == [("denied", True), ("pending", False)]


async def test_changed_arguments_need_a_new_question(store):
    program = Program(store).asking()
    await program.answer(await program.pay(1))

    changed = await program.pay(2)
    same = await program.pay(1)

    assert (changed.status, same.status, program.effects) == ("pending", "ok", [1])
    states = {
        question.arguments["amount"]: question.state for question in await program.questions()
    }
    assert states == {1: "done", 2: "pending"}


async def test_a_waiting_call_continues_after_its_answer(place):
    program, other = Program(place.open(), wait=60).asking(), Program(place.open())

    call = asyncio.create_task(program.pay())
    (question,) = await other.asked()
    result = await other.answer(question.id)
    outcome = await call

    assert (result.status, outcome.status, program.effects) == ("accepted", "ok", [1])
    (question,) = await other.questions()
    assert (question.state, question.answered_by) == ("done", "ann")


async def test_another_process_uses_a_late_approval(place):
    clock, effects = FakeClock(10**18), []
    asked = await Program(place.open(), clock=clock, effects=effects).asking().pay()
    clock.advance(HOUR)
    await Program(place.open(), clock=clock).answer(asked)
    clock.advance(HOUR)
    later = Program(place.open(), clock=clock, effects=effects).asking()

    outcome = await later.pay()

    (question,) = await later.questions()
    assert (outcome.status, effects, question.state) == ("ok", [1], "done")
    hours = [
        round((moment - 10**18) / HOUR / 10**9)
        for moment in (question.asked_ns, question.answered_ns, question.taken_ns)
    ]
    assert hours == [0, 1, 2]


async def test_one_of_two_answers_counts(place):
    here, there = Program(place.open()).asking(), Program(place.open())

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


async def test_a_wrong_answer_has_no_effect(store):
    program = Program(store).asking()
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
        f"question {name!r} is about another call than the one shown; show it again",
        f"question {name!r} was answered already by 'ann', and is denied",
    ]
    assert unchanged == before
    assert (await program.pay()).status == "denied"


async def test_a_late_answer_has_no_effect(store):
    program = Program(store, expires_after=HOUR).asking()
    asked = await program.pay()
    program.clock.advance(HOUR)

    late = await program.answer(asked)
    first, second = await program.pay(), await program.pay()

    assert (late.status, late.question.state) == ("too_late", "expired")
    assert (first.status, first.response.text) == ("denied", "approval was not given in time")
    assert (second.status, program.effects) == ("pending", [])


async def test_an_answer_is_checked(store):
    program = Program(store).asking()
    asked = await program.pay()

    wrong = [
        ({"by": " "}, "the name of the person"),
        ({"by": "a" * 4_001}, "at most 4000 characters"),
        ({"reason": "\ud800", "approve": False}, "lone surrogate"),
        ({"channel": 3}, "expected text"),
        ({"channel": "terminal"}, "is reserved for a person's terminal"),
        ({"channel": " Terminal\n"}, "is reserved for a person's terminal"),
        ({"channel": "Page"}, "is reserved for a person's terminal or page"),
        ({"grant": 0}, "'session' or a positive number of seconds"),
        ({"grant": float("inf")}, "'session' or a positive number of seconds"),
        ({"grant": "ever"}, "'session' or a positive number of seconds"),
        ({"grant": "session", "approve": False}, "a no cannot have a grant"),
    ]
    for options, reason in wrong:
        with pytest.raises(FreezeError, match=reason):
            await program.answer(asked, **options)

    assert await program.states() == ["pending"]


async def test_a_run_restored_twice_runs_once(place):
    effects = []
    here = Program(place.open(), effects=effects).asking()
    there = Program(place.open(), effects=effects).asking()

    for amount in range(10):
        (asked,) = await here.pay_all(amount)
        await here.answer(asked)
        outcomes = await asyncio.gather(here.pay_all(amount), there.pay_all(amount))

        (ran,) = [outcome for (outcome,) in outcomes if outcome.status == "ok"]
        (other,) = [outcome for (outcome,) in outcomes if outcome.status == "denied"]
        assert ran.response.text == f"paid {amount}"
        assert other.response.text == "the call may have run already, and does not run again"
    assert effects == list(range(10))
    assert set(await here.states()) == {"done"}


async def test_an_approval_expires_before_the_tool_starts(store):
    program = Program(store, expires_after=HOUR).asking()
    await program.answer(await program.pay())
    program.clock.advance(HOUR)

    first, second = await program.pay(), await program.pay()

    assert (first.status, first.response.text) == ("denied", "approval was not given in time")
    assert (second.status, program.effects) == ("pending", [])
    assert await program.states() == ["expired", "pending"]


async def test_an_edited_call_meets_other_guards(store):
    program = Program(store).asking()
    await program.answer(await program.pay())
    wipe = ToolCall(id="w", name="wipe")
    edit = program.bus.on(TOOL_CALL_BEFORE, lambda ctx: replace(wipe, id=ctx.value.id))
    program.bus.guard(
        TOOL_CALL_BEFORE, lambda ctx: Deny("never") if ctx.value.name == "wipe" else None
    )

    edited = await program.pay()
    unused = await program.states()
    edit.cancel()
    plain = await program.pay()

    assert (edited.status, edited.response.text, unused) == ("denied", "never", ["approved"])
    assert (plain.status, program.effects) == ("ok", [1])


async def test_changed_rules_need_a_new_question(place):
    def program(**rule):
        made = Program(place.open(), effects=effects, clock=clock)
        policy = Policy(rule=[{"name": "till", "verdict": "ask", "tools": ["pay"]} | rule])
        return made, policy

    effects, clock, outcomes = [], FakeClock(10**18), []
    variants = [{}, {"reason": "it is Sunday"}, {"tools": ["pay"]}]
    for variant in variants:
        made, policy = program(**variant)
        async with policy.installed(made.bus):
            outcomes.append(await made.pay())
        if len(outcomes) == 1:
            await made.answer(outcomes[0])

    assert [outcome.status for outcome in outcomes] == ["pending", "pending", "ok"]
    assert effects == [1]
    first, second = await made.questions()
    assert (first.rule, second.rule) == ("rule 'till'", "rule 'till'")
    assert first.rules != second.rules


async def test_rules_change_while_a_call_waits(store):
    def denies(ctx):
        return Deny("not any more")

    def asks(ctx):
        return Ask("pay it now?", rules="later ones")

    def edits(ctx):
        return replace(ctx.value, arguments={"amount": 2})

    statuses, states = [], []
    for later in (denies, asks, edits):
        program = Program(store, session=later.__name__, wait=60).asking()
        call = asyncio.create_task(program.pay())
        (question,) = await program.asked()
        add = program.bus.on if later is edits else program.bus.guard
        add(TOOL_CALL_BEFORE, later)
        await program.answer(question.id)
        if later is not denies:
            (anew,) = [each for each in await program.asked(2) if each.state == "pending"]
            await program.answer(anew.id, approve=False)
        statuses.append((await call).status)
        states.append(sorted(await program.states()))
        assert program.effects == []

    assert statuses == ["denied"] * 3
    assert states == [["withdrawn"], ["denied", "withdrawn"], ["denied", "withdrawn"]]


async def test_a_changing_call_asks_only_twice(store):
    shown, numbers = [], iter(range(10))

    async def approver(ask, call, scope):
        shown.append(call.arguments["amount"])
        return True

    program = Program(store, approver=approver).asking()
    program.bus.on(
        TOOL_CALL_BEFORE, lambda ctx: replace(ctx.value, arguments={"amount": next(numbers)})
    )

    outcome = await program.pay()

    assert (outcome.status, shown, program.effects) == ("ok", [0, 1], [1])
    assert sorted(await program.states()) == ["done", "withdrawn"]


async def test_invalid_arguments_withdraw_the_question(store):
    program = Program(store).asking()
    await program.answer(await program.pay([]))

    outcome = await program.pay([])

    assert (outcome.status, program.effects) == ("invalid_arguments", [])
    (question,) = await program.questions()
    assert (question.state, question.taken_ns) == ("withdrawn", 0)


async def test_a_cancelled_call_withdraws_its_question(store):
    program = Program(store, wait=60).asking()
    call = asyncio.create_task(program.pay())
    (question,) = await program.asked()

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    late = await program.answer(question.id)

    assert await program.states() == ["withdrawn"]
    assert (late.status, program.effects) == ("too_late", [])


async def test_a_stopping_program_leaves_its_questions(place):
    async def approver(ask, call, scope):
        await asyncio.Event().wait()

    effects = []
    stopped = Program(place.open(), wait=60, approver=approver).asking()
    waiting = Program(place.open(), session="w", wait=60).asking()
    calls = [asyncio.create_task(each.pay()) for each in (stopped, waiting)]
    for each in (stopped, waiting):
        await each.asked()
    any_wait = [each.approvals.stop_waiting() for each in (stopped, waiting)]
    outcomes = await asyncio.gather(*calls)

    later = Program(place.open(), effects=effects).asking()
    await later.answer(outcomes[0])
    resumed = await later.pay()
    again = asyncio.create_task(waiting.pay(2))
    (_, anew) = await waiting.asked(2)
    await waiting.answer(anew.id)

    assert any_wait == [True, True]
    assert [outcome.status for outcome in outcomes] == ["pending", "pending"]
    assert (resumed.status, effects, (await again).status) == ("ok", [1], "ok")
    assert not waiting.approvals.stop_waiting()


async def test_a_refused_call_leaves_its_siblings(store):
    program = Program(store, wait=60).asking()
    calls = asyncio.create_task(program.pay_all(1, 2, 3))
    for question in await program.asked(3):
        approve = question.arguments["amount"] != 2
        await program.answer(question.id, approve=approve, reason="" if approve else "not this")

    outcomes = await calls

    texts = [(outcome.status, outcome.response.text) for outcome in outcomes]
    assert texts == [("ok", "paid 1"), ("denied", "not this"), ("ok", "paid 3")]
    assert sorted(program.effects) == [1, 3]


async def test_equal_ids_in_two_sessions_are_separate(store):
    effects = []
    here, there = [
        Program(store, session=session, effects=effects).asking() for session in ("a", "b")
    ]
    (asked,) = await here.pay_all(1)
    await there.pay_all(1)
    await here.answer(asked)

    (waits,), (ran,) = await there.pay_all(1), await here.pay_all(1)

    assert (waits.status, ran.status, effects) == ("pending", "ok", [1])
    assert (await here.states(), await there.states()) == (["done"], ["pending"])


def change(call, amount):
    """Change the arguments of *call* as no frozen mapping can prevent."""
    dict.__setitem__(call.arguments, "amount", amount)


def changing_approver():
    """Return an approver that says yes, and makes another amount of each that it is shown."""
    numbers = itertools.count(100)
    return lambda ask, call, scope: change(call, next(numbers)) or True


async def test_arguments_changed_in_place_never_run(store):
    outcomes, shown, effects = [], [], []
    stored = Program(store, approver=changing_approver(), effects=effects).asking()
    outcomes.append(await stored.pay())

    here = Program(store, effects=effects).asking()
    approver = ToolRunner(here.bus, here.toolset, here.scope, approver=changing_approver())
    outcomes.append(await approver.call("pay", {"amount": 1}))

    judged = await approver.judge(ToolCall(id="j", name="pay", arguments={"amount": 1}))
    change(judged.call, float("nan"))
    outcomes.append(await approver.finish(judged))

    @tool(idempotent=True)
    def fail(amount: int) -> str:
        """Fail."""
        effects.append(amount)
        raise ValueError(amount)

    def retry(ctx):
        change(ctx.value.call, 7)
        return Retry()

    retried = Program(store, approver=lambda ask, call, scope: shown.append(call) or True).asking()
    retried.toolset.add(fail)
    retried.bus.on(TOOL_CALL_ERROR, retry)
    failed = await retried.runner().call("fail", {"amount": 5})

    texts = [(outcome.status, outcome.response.text) for outcome in outcomes]
    changed = "the call changed after its approval; call again for a new approval"
    assert texts == [("denied", changed)] * 3
    assert set(await stored.states()) <= {"withdrawn", "done"}
    assert (failed.status, failed.response.text, effects) == ("error", changed, [5])


def other_pay(effects, *, about="Pay.", kind=int):
    """Return a tool in the place of `pay`, with another description or other parameters."""

    def pay(amount):
        effects.append(amount)

    pay.__doc__, pay.__annotations__ = about, {"amount": kind}
    return tool(pay)


async def test_a_replaced_tool_needs_a_new_question(store):
    for number, change_to in enumerate([{"about": "Pay all."}, {"kind": int | str | bool}]):
        program = Program(store, session=str(number)).asking()
        for amount, options in [(1, {}), (2, {}), (3, {"grant": "session"})]:
            await program.answer(await program.pay(amount), **options)
        old = (await program.questions())[1]
        await swap_question(store, old, replace(old, definition=""))

        program.toolset.remove("pay")
        program.toolset.add(other_pay(program.effects, **change_to))
        outcomes = [await program.pay(amount) for amount in (1, 2, 3)]

        assert [outcome.status for outcome in outcomes] == ["pending"] * 3
        assert program.effects == []
        assert await program.states() == [*["withdrawn"] * 3, *["pending"] * 3]
        assert [question.settled_by for question in (await program.questions())[:2]] == [
            "toolbus: the tool has changed since this was asked",
            "toolbus: an older version asked this without a digest of the tool",
        ]


async def test_a_tool_replaced_meanwhile_is_denied(store):
    program = Program(store).asking()
    await program.answer(await program.pay())
    here = ToolRunner(
        program.bus, program.toolset, program.scope, approver=lambda ask, call, scope: True
    )
    call, outcomes = ToolCall(id="j", name="pay", arguments={"amount": 1}), []
    for runner in (program.runner(), here):
        judged = await runner.judge(call)
        program.toolset.remove("pay")
        program.toolset.add(other_pay(program.effects, about=f"Pay {runner.call}."))
        outcomes.append(await runner.finish(judged))

    assert {outcome.response.text for outcome in outcomes} == {
        "the tool changed after its approval; call again for a new approval"
    }
    assert (await program.states(), program.effects) == (["withdrawn"], [])


async def test_a_hidden_value_is_never_shown(store):
    program = Program(store)
    HidesSecrets(program.bus)
    program.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask(f"pay {SECRET}?"))
    await program.answer(await program.pay(SECRET))

    (question,) = await program.questions()
    outcome = await program.pay(SECRET)

    assert (question.hidden, question.arguments) == (True, {"amount": "[1]"})
    assert question.prompt == "pay [1]?"
    assert (outcome.status, program.effects) == ("ok", [SECRET])
    kept = state_bodies(store)
    assert SECRET.encode() not in kept
    plain = [digest_of("pay", {"amount": SECRET}), hashlib.sha256(SECRET.encode()).hexdigest()]
    assert not [digest for digest in plain if digest.encode() in kept]


async def test_a_hidden_value_is_missing_elsewhere(place):
    here, there = [Program(place.open()).asking() for _ in range(2)]
    HidesSecrets(here.bus)
    (asked,) = await here.pay_all(SECRET)
    await here.answer(asked)
    call = ToolCall(id=SECRET, name="pay", arguments={"amount": "[1]"})

    (outcome,) = await there.runner(leaves_pending=True).call_all([call])

    assert outcome.status == "denied"
    assert (
        outcome.response.text
        == "a value of the call that was never stored is lost; make the call again"
    )
    assert (there.effects, await there.states()) == ([], ["withdrawn"])


async def test_a_hidden_value_returns_elsewhere(place):
    effects, clock, outcomes = [], FakeClock(10**18), []

    async def pay(amount):
        program = Program(place.open(), effects=effects, clock=clock).asking()
        HidesAll(program.bus)
        outcomes.append(await program.pay(amount))
        return program

    first = await pay(SECRET)
    await first.answer(outcomes[0])
    for amount in (f"{SECRET}!", SECRET, SECRET):
        await pay(amount)

    assert [one.status for one in outcomes] == ["pending", "pending", "ok", "pending"]
    assert effects == [SECRET]
    assert len({question.digest for question in await first.questions()}) == 1
    assert sorted(await first.states()) == ["done", "pending", "pending"]
    kept = state_bodies(place.open())
    call = ["s", "pay", {"amount": SECRET}]
    assert SECRET.encode() not in kept
    assert hashlib.sha256(canonical(call)).hexdigest().encode() not in kept


class HidesAll(HidesSecrets):
    """A handler that keeps all that begins as the secret out of the store, by one name."""

    def hide(self, ctx):
        calls = [replace(call, arguments={"amount": "[1]"}) for call in ctx.value.tool_calls]
        return replace(ctx.value, tool_calls=tuple(calls))


async def test_only_the_key_recognizes_a_value(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    value_key_file().parent.mkdir(parents=True)
    value_key_file().write_bytes(b"short")
    effects, clock, place = [], FakeClock(10**18), StorePlace("sqlite", tmp_path / "s.db")
    here, there = [Program(place.open(), effects=effects, clock=clock).asking() for _ in range(2)]
    for program in (here, there):
        HidesAll(program.bus)
    await here.answer(await here.pay(SECRET))

    other, same = await there.pay(SECRET), await here.pay(SECRET)
    await place.close()

    assert (other.status, same.status, effects) == ("pending", "ok", [SECRET])


class Vault:
    """An agent that reads a key and then uses what it has read; a guard asks about that."""

    def __init__(self, store):
        self.key = "ghp_" + hashlib.sha256(b"of the till").hexdigest()[:36]
        self.store, self.got = store, []

    def agent(self, *answers):
        """Return the agent as a new process makes it."""

        def give() -> str:
            """Give the key."""
            return f"the key is {self.key}"

        def use(key: str) -> str:
            """Use a key."""
            self.got.append(key)
            return "used"

        agent = Agent(
            ScriptedModel(answers),
            tools=[give, use],
            components=[RedactSecrets(vault=[{"tool": "use", "arguments": ["key"]}])],
            approver=StoredApprovals(),
            store=self.store,
            session_id="s",
        )
        agent.guard(
            TOOL_CALL_BEFORE, lambda ctx: Ask("use it?") if ctx.value.name == "use" else None
        )
        return agent

    def quote(self, request):
        """Answer as a model that passes on what it has read."""
        placeholder = re.search(r"\[[a-z-]+-[a-z2-7]{16}\]", request.messages[-1].text)[0]
        call = ToolCall(id="c-2", name="use", arguments={"key": placeholder})
        return AssistantMessage(id="m-2", tool_calls=(call,))

    async def ask(self):
        """Run an agent until its question waits, answer that with a yes, return the agent."""
        give = AssistantMessage(id="m-1", tool_calls=(ToolCall(id="c-1", name="give"),))
        agent = self.agent(give, self.quote, "done")
        result = await agent.run("go")
        question = await find_question(self.store, *result.pending)
        await answer(self.store, question.id, question.digest, approve=True, by="ann")
        return agent


async def test_a_secret_is_restored_after_the_approval(store):
    vault = Vault(store)

    async with await vault.ask() as agent:
        result = await agent.resume()

    (question,) = await questions_of(store, "s")
    assert (result.text, vault.got, question.state) == ("done", [vault.key], "done")
    assert question.arguments["key"].startswith("[")
    kept = state_bodies(store) + repr(await store.read("s")).encode()
    assert vault.key.encode() not in kept


async def test_a_lost_secret_is_reported(place):
    vault = Vault(place.open())
    await (await vault.ask()).aclose()
    vault.store = place.open()

    async with vault.agent("done") as agent:
        result = await agent.resume()

    (question,) = await questions_of(vault.store, "s")
    read = result.messages[0].tool_response
    assert (vault.got, result.text, read.is_error) == ([], "done", True)
    assert "not known any more" in read.text
    assert (question.state, question.taken_ns) == ("withdrawn", 0)


async def test_a_returning_secret_is_restored(place):
    vault = Vault(place.open())
    asked = vault.key
    await (await vault.ask()).aclose()
    vault.store = place.open()

    async with vault.agent("done") as agent:
        scope = Scope(agent_id=agent.scope.agent_id, session_id="s")
        for vault.key in (asked[:-1] + "z", asked):
            await ToolRunner(agent.bus, agent.tools, scope).call("give")
        result = await agent.resume()

    (question,) = await questions_of(vault.store, "s")
    assert (vault.got, result.text) == ([asked], "done")
    assert question.state == "done"


async def test_a_call_that_cannot_be_stored_is_denied(store):
    def failing(ctx):
        raise ValueError(SECRET)

    outcomes = []
    for handler in (lambda ctx: Deny("not this"), failing, None):
        program = Program(store).asking()
        if handler is not None:
            program.bus.on(MESSAGE_PERSIST_BEFORE, handler, on_error="closed")
        outcomes.append(await program.pay("a" * 2_000_000))

    assert {outcome.status for outcome in outcomes} == {"denied"}
    texts = [outcome.response.text for outcome in outcomes]
    assert [text.rpartition(", and ")[2] for text in texts] == [
        "it cannot be stored for a question",
        "it cannot be stored for a question",
        "is longer than 1,000,000 bytes",
    ]
    assert await program.questions() == ()


async def test_a_grant_approves_later_calls(store):
    program = Program(store).asking()
    below = Program(store, session="s/1", root="s", effects=program.effects).asking()
    other = Program(store, session="other").asking()
    granted = await program.answer(await program.pay(1), grant="session", channel="here")

    outcomes = [await each.pay(2) for each in (program, below, other)]

    assert [outcome.status for outcome in outcomes] == ["ok", "ok", "pending"]
    assert program.effects == [2, 2]
    questions = [*await program.questions(), *await below.questions()]
    by_grant = [question for question in questions if question.grant]
    assert [(question.state, question.grant) for question in by_grant] == [
        ("done", granted.grant.id),
        ("done", granted.grant.id),
    ]
    assert {(each.answered_by, each.answered_from) for each in by_grant} == {("ann", "here")}


async def test_a_grant_ends(store):
    clock, by_time = FakeClock(10**18), []
    timed = Program(store, session="timed", clock=clock).asking()
    await timed.answer(await timed.pay(0), grant=HOUR)
    for _ in range(3):
        by_time.append((await timed.pay()).status)
        clock.advance(HOUR / 2)

    lasting = Program(store, session="lasting").asking()
    granted = (await lasting.answer(await lasting.pay(0), grant="session")).grant

    runner = lasting.runner()
    judged = await runner.judge(ToolCall(id="j", name="pay", arguments={"amount": 1}))
    revoked = await revoke_grant(store, "lasting", granted.id, by="bob", clock=lasting.clock)
    refusal = await judged.permit.take()
    again = await revoke_grant(store, "lasting", granted.id, by="eve", clock=lasting.clock)

    assert by_time == ["ok", "ok", "pending"]
    assert refusal.reason == "the grant that approved it has ended; call again to ask anew"
    assert (revoked.revoked_by, again, (await lasting.pay()).status) == ("bob", revoked, "pending")
    assert lasting.effects == []


async def test_a_grant_never_overrides_a_denial(store):
    program = Program(store).asking()
    await program.answer(await program.pay(0), grant="session")

    def limits(ctx):
        amount = ctx.value.arguments["amount"]
        return Deny("too much") if amount > 100 else Ask("so much?") if amount > 10 else None

    program.bus.guard(TOOL_CALL_BEFORE, limits, name="limits")

    statuses = [(await program.pay(amount)).status for amount in (1, 1_000, 50)]

    assert statuses == ["ok", "denied", "pending"]
    assert program.effects == [1]


class Channel:
    """A channel that remembers what it was told, after *turns* of the loop."""

    def __init__(self, turns=0, error=None):
        self.questions, self._turns, self._error = [], turns, error

    async def notify(self, question):
        for _ in range(self._turns):
            await asyncio.sleep(0)
        self.questions.append(question)
        if self._error is not None:
            raise self._error


async def test_channels_are_notified_once(store, caplog):
    channels = [Channel(), Channel(turns=50), Channel(error=ValueError("no network"))]
    program = Program(store, notify=channels).asking()

    await program.pay()
    told = [len(channel.questions) for channel in channels]
    await program.pay()

    (question,) = await program.questions()
    assert told == [1, 1, 1]
    assert [channel.questions for channel in channels] == [[question]] * 3
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert f"question {question.id}: notifying {channels[2]!r} failed" in caplog.text


async def test_an_approver_is_one_channel(store, caplog):
    answers = {1: True, 2: Deny("not this"), 3: ValueError("no terminal"), 4: "yes"}
    seen = []

    async def approver(ask, call, scope):
        seen.append((ask.prompt, call.arguments["amount"], scope.session_id))
        value = answers[call.arguments["amount"]]
        if isinstance(value, Exception):
            raise value
        return value

    program = Program(store, approver=approver).asking()
    with caplog.at_level(logging.CRITICAL, "toolbus"):
        outcomes = [await program.pay(amount) for amount in answers]

    assert [outcome.status for outcome in outcomes] == ["ok", "denied", "pending", "denied"]
    assert [outcome.response.text for outcome in outcomes[1::2]] == [
        "not this",
        "approval was refused",
    ]
    assert seen == [("pay it?", amount, "s") for amount in answers]
    assert await program.states() == ["done", "denied", "pending", "denied"]
    assert {each.answered_by for each in await program.questions()} == {"approver", ""}


async def test_an_answer_from_elsewhere_comes_first(place):
    asked, cancelled = asyncio.Event(), []

    async def approver(ask, call, scope):
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(call.name)
            raise

    program, other = Program(place.open(), approver=approver).asking(), Program(place.open())
    call = asyncio.create_task(program.pay())
    await asked.wait()

    (question,) = await other.questions()
    await other.answer(question.id, approve=False, by="bob", reason="no")
    outcome = await call
    late = await other.answer(question.id, by="approver")

    assert (outcome.status, outcome.response.text) == ("denied", "no")
    assert (cancelled, late.status, program.effects) == (["pay"], "already_answered", [])


async def test_pending_questions_are_limited(place, caplog):
    told = []

    class Person(Channel):
        async def notify_limit(self, session_id, reason):
            told.append((session_id, reason))

    here, there = [
        Program(place.open(), max_open=3, notify=[Person(), Channel()]).asking() for _ in range(2)
    ]
    below = Program(place.open(), session="below", root="s", max_open=3).asking()
    await below.pay(0)

    outcomes = await asyncio.gather(*map(here.pay, (1, 2)), *map(there.pay, (3, 4)))
    pending = [outcome for outcome in outcomes if outcome.status == "pending"]
    refused = [outcome for outcome in outcomes if outcome.status == "denied"]
    same = await here.pay(pending[0].requested.arguments["amount"])
    await here.answer(same, approve=False)
    others = [await there.pay(amount) for amount in (10, 11)]

    limit = "3 questions of this session are pending, the maximum"
    assert sorted(await here.states()) == ["denied", "pending", "pending"]
    assert len({outcome.pending for outcome in pending}) == 2
    assert {outcome.response.text for outcome in refused} == {
        f"{limit}; continue without this call, or wait for a person's answers"
    }
    assert same.pending == pending[0].pending
    assert [outcome.status for outcome in others] == ["pending", "denied"]
    assert told == [("s", limit)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_questions_per_hour_are_limited(store):
    program = Program(store, max_hourly=2).asking()
    program.bus.guard(
        TOOL_CALL_BEFORE, lambda ctx: Ask("wipe?") if ctx.value.name == "wipe" else None
    )
    await program.answer(await program.pay(1), grant="session")

    granted = [await program.pay(amount) for amount in range(5)]
    wipes = [await program.runner(leaves_pending=True).call("wipe") for _ in range(2)]
    program.clock.advance(HOUR)
    later = await program.runner(leaves_pending=True).call("wipe")

    assert {outcome.status for outcome in granted} == {"ok"}
    assert [outcome.status for outcome in wipes] == ["pending", "denied"]
    assert wipes[1].response.text.startswith("a person was asked 2 questions within an hour")
    assert (later.status, program.effects) == ("pending", [0, 1, 2, 3, 4])


async def test_refused_calls_are_limited(store):
    program, other = Program(store, max_denials=2).asking(), Program(store, session="o").asking()
    for number in range(2):
        (asked,) = await program.runner(leaves_pending=True).call_all(
            [ToolCall(id=f"c{number}", name="pay", arguments={"amount": 1})]
        )
        await program.answer(asked, approve=False)
        await program.runner(leaves_pending=True).call_all([asked.requested])

    outcomes = [await program.pay(1), await program.pay(2), await other.pay(1)]

    assert [outcome.status for outcome in outcomes] == ["denied", "pending", "pending"]
    assert outcomes[0].response.text == (
        "a person has refused this call 2 times, and is not asked again in this session"
    )
    assert await program.states() == ["denied", "denied", "pending"]


async def test_a_failing_store_never_allows_a_second_run(slow_place, caplog):
    store = slow_place.open()
    caplog.set_level(logging.CRITICAL, "toolbus")
    failures = 0

    for number in range(1, MOST_OPERATIONS):
        for is_done in (False, True):
            failing = FailingStore(store, number, is_done=is_done)
            program = Program(failing, session=f"s-{number}-{is_done}").asking()
            person, yes = Program(store, session=program.scope.session_id), 0
            for _ in range(5):
                outcome = await program.pay()
                if outcome.status == "ok":
                    break
                if outcome.status == "pending":
                    yes += (await person.answer(outcome)).status == "accepted"

            states, effects = await person.states(), len(program.effects)
            failures += failing.has_failed
            assert outcome.status == "ok"
            assert 1 <= effects <= yes
            # What was taken, and is not done, may have run.
            assert states.count("done") <= effects
            assert effects <= states.count("done") + states.count("taken")

    # The walk above was long enough to reach every operation.
    assert failures < 2 * (MOST_OPERATIONS - 1)


async def test_a_killed_process_leaves_known_states(place):
    killed = Program(place.open()).asking()
    outcomes = await killed.pay_all(1, 2, 3, 4)
    for outcome in outcomes[1:]:
        await killed.answer(outcome)
    for question in (await killed.questions())[:]:
        if question.call_id in {"3", "4"}:
            await transition(killed.store, question, "take", taken_by="killed", taken_ns=1)

    later = Program(place.open()).asking()
    found = await later.approvals.find_open("s", ["1", "2", "3"], lambda call_id: call_id == "4")
    again = await later.pay_all(1, 2, 3)

    states = {question.call_id: question.state for question in await later.questions()}
    assert set(found.waiting) == {"1", "2"}
    assert states == {"1": "pending", "2": "done", "3": "unknown", "4": "done"}
    assert [outcome.status for outcome in again] == ["pending", "ok", "denied"]
    assert later.effects == [2]


async def test_a_repeated_call_mentions_the_first(store):
    program = Program(store).asking()
    first = await program.pay(1)
    await program.answer(first)
    (approved,) = await program.questions()
    taken = await transition(store, approved, "take", taken_ns=program.clock(), taken_by="gone/1")

    await program.answer(await program.pay(1), approve=False)
    await program.pay(2)
    await transition(store, await transition(store, taken, "lose"), "settle_never_ran")
    await program.pay(1)
    await program.pay(1)

    asked = [question.may_have_run_ns for question in await program.questions()]
    assert asked == [0, taken.taken_ns, 0, 0]


class Killed(BaseException):
    """What a process does not survive."""


class Fate:
    """A process that ends at its step *number*, and does nothing more."""

    def __init__(self, store, number):
        self._store, self._remaining = store, number

    def __getattr__(self, name):
        return getattr(self._store, name)

    def step(self):
        self._remaining -= 1
        if self._remaining <= 0:
            raise Killed

    async def read_state(self, *args):
        return await self._store.read_state(*args)

    async def swap_state(self, *args):
        self.step()
        result = await self._store.swap_state(*args)
        self.step()
        return result


class Life(Program):
    """A program whose call, effect and message may each be the last thing that it does."""

    def __init__(self, store, effects, messages, fate=None):
        super().__init__(fate or store, effects=effects)
        self.person, self.messages, self.fate = Program(store), messages, fate
        self.asking()

        @tool
        def pay(amount: int) -> str:
            """Pay."""
            self.step()
            effects.append(amount)
            self.step()
            return "paid"

        self.toolset = Toolset([pay])

    def step(self):
        if self.fate is not None:
            self.fate.step()

    async def append(self, message, scope, spec):
        self.step()
        self.messages.append(message.tool_call_id)
        self.step()
        return message

    async def live(self):
        """Make the call, answer its question, and make it again; return how it ended."""
        runner = self.runner(leaves_pending=True, append=self.append)
        call = ToolCall(id="1", name="pay", arguments={"amount": 1})
        (outcome,) = await runner.call_all([call])
        while outcome.status == "pending":
            await self.person.answer(outcome)
            (outcome,) = await runner.call_all([call])
        return outcome.status


async def test_nothing_runs_twice_after_a_kill(slow_place):
    store, number, ended = slow_place.open(), 0, Killed
    seen = set()

    while ended is Killed:
        number += 1
        await store.forget_states("s")
        effects, messages = [], []
        try:
            ended = await Life(store, effects, messages, Fate(store, number)).live()
        except Killed:
            ended = Killed
        later = Life(store, effects, messages)
        open_calls = [] if messages else ["1"]
        found = await later.approvals.find_open("s", open_calls, messages.__contains__)
        known = await later.states()
        before = len(effects)
        if open_calls and (found.waiting or not known):
            assert before == 0
            assert await later.live() == "ok"
        elif open_calls:
            assert known == ["unknown"]
            assert await later.live() == "denied"
        else:
            assert known == ["done"]
        seen.add((*known, before))
        assert len(effects) <= 1
        assert len(effects) == 1 or await later.states() == ["unknown"]

    assert ended == "ok"
    assert seen == {
        *[(0,), ("pending", 0), ("approved", 0)],
        *[("unknown", 0), ("unknown", 1), ("done", 1)],
    }


async def test_a_pointer_without_a_question_is_repaired(place):
    first = Program(place.open()).asking()
    # Behind the pointer: a grant is looked for, and the question counted.
    killed = FailingStore(first.store, 6, is_done=False)
    broken = Program(killed).asking()
    denied = await broken.pay()
    pointed = [
        json.loads(row.partition(b"=")[2])["id"]
        for row in state_bodies(first.store).splitlines()
        if row.startswith(b"asked:")
    ]

    second = Program(place.open()).asking()
    outcomes = await asyncio.gather(first.pay(), second.pay())

    assert denied.status == "denied"
    assert [outcome.pending for outcome in outcomes] == [tuple(pointed)] * 2
    assert await first.states() == ["pending"]


@pytest.mark.full
async def test_many_questions_stay_apart(place):
    count = 150
    programs = [
        Program(place.open(), session=session, wait=300, max_open=None).asking()
        for session in ("a", "b")
    ]
    person = Program(place.open())
    calls = [asyncio.create_task(program.pay_all(*range(count))) for program in programs]

    answered = {}
    while len(answered) < 2 * count:
        questions = [each for program in programs for each in await program.questions()]
        fresh = {each.id: each for each in questions if each.id not in answered}
        results = await asyncio.gather(
            *[
                person.answer(name, approve=each.arguments["amount"] % 3 != 0)
                for name, each in fresh.items()
            ]
        )
        answered |= {result.question_id: result.status for result in results}

    assert set(answered.values()) == {"accepted"}
    expected = ["denied" if amount % 3 == 0 else "ok" for amount in range(count)]
    for program, outcomes in zip(programs, await asyncio.gather(*calls), strict=True):
        assert [outcome.status for outcome in outcomes] == expected
        assert sorted(program.effects) == [amount for amount in range(count) if amount % 3]
        assert [outcome.requested.id for outcome in outcomes] == [*map(str, range(count))]


async def test_wrong_arguments_are_refused(store):
    class NoChannel:
        pass

    wrong = [
        ({"wait": -1}, "wait: expected seconds to wait, not -1"),
        ({"wait": float("inf")}, "wait: expected seconds to wait, not inf"),
        ({"wait": True}, "wait: expected seconds to wait, not True"),
        ({"expires_after": 0}, "expires_after: expected a number of seconds from 0 to 315360000"),
        ({"notify": [NoChannel()]}, "it has no method `async def notify"),
        ({"notify": [Channel]}, "it has no method `async def notify"),
        ({"key": b"short"}, "key: expected at least 32 bytes"),
        ({"max_open": 0}, "max_open: expected a positive number or None, not 0"),
        ({"max_hourly": 1.5}, "max_hourly: expected a positive number or None, not 1.5"),
        ({"max_denials": True}, "max_denials: expected a positive number or None, not True"),
    ]
    for options, reason in wrong:
        with pytest.raises(RegistrationError, match=reason):
            StoredApprovals(store=store, **options)

    nowhere, nobody = Program(None).asking(), Program(store, session="").asking()
    with pytest.raises(RegistrationError, match=r"use `StoredApprovals\(store=...\)`"):
        await nowhere.pay()
    with pytest.raises(RegistrationError, match=r"use `scope=Scope\(session_id=...\)`"):
        await nobody.pay()
