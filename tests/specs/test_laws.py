"""The scenarios of `specs/laws.md`."""

import asyncio
import pickle
import re
import signal
from copy import deepcopy
from itertools import count
from typing import get_args

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.subjects.broken import (
    BROKEN,
    CountsCalls,
    ForgetsTheCall,
    NeverAsked,
    RequiresPath,
    SaysItAgain,
    nested_guard,
    split_guard,
    writing_guard,
)
from tests.subjects.good import FILES, GOOD, PRICED, Blank, inside_only

from toolbus import AgentComponent, Deny, ToolAdapter, ToolCall, ToolResponse, guard, on, tool
from toolbus.errors import LawBroken, RegistrationError, ToolbusError
from toolbus.events import MESSAGE_APPEND_BEFORE, RUN_BEFORE, TOOL_CALL_AFTER, TOOL_CALL_BEFORE
from toolbus.messages import Message, encode
from toolbus.messages.immutable import thaw
from toolbus.testing.checks import check_adapter, check_guard, check_handler
from toolbus.testing.laws import LAWS


def broken_by(check, subject, *more, **options) -> LawBroken:
    with pytest.raises(LawBroken) as caught:
        check(subject, *more, **options)
    return caught.value


@pytest.mark.full
@pytest.mark.parametrize("broken", BROKEN, ids=[one.name for one in BROKEN])
def test_each_broken_law_is_found(broken):
    subject, options = broken.subject, broken.options

    error = broken_by(broken.check, subject, **options)

    assert error.law == broken.law


@pytest.mark.parametrize("good", GOOD, ids=[one.name for one in GOOD])
def test_correct_handlers_pass(good, thorough):
    subject, options = good.subject, good.options

    good.check(subject, examples=1_000 if thorough else 25, **options)

    assert subject


def test_every_law_has_a_breach():
    laws = set(LAWS)

    broken = {one.law for one in BROKEN}

    assert broken == laws


def test_a_report_has_law_case_advice():
    adapter = ForgetsTheCall()

    error = broken_by(check_adapter, adapter)

    assert str(error).splitlines()[:3] == [
        "adapter 'ForgetsTheCall' breaks the law 'keeps-identity': ids, role and tool name stay",
        "  adapt_response changed the tool_name: '_' → None",
        "  the smallest case found:",
    ]
    assert re.search(
        r"response  ToolResponse\(tool_name='_', tool_call_id='call-1'\)\n", str(error)
    )
    assert re.search(r"returned  ToolResponse\(content=\[TextPart\(text=''\)\]\)\n", str(error))
    assert "what to do: derive the result from the input" in str(error)
    assert (error.law, error.subject) == ("keeps-identity", "adapter 'ForgetsTheCall'")
    assert list(error.case) == ["tool", "response", "call", "returned"]


def test_the_case_is_the_smallest():
    def short(response):
        if any(len(part.text) > 3 for part in response.content if part.type == "text"):
            raise ValueError("too long")

    error = broken_by(check_adapter, short)

    response = error.case["response"]
    assert [part.text for part in response.content] == ["0000"]
    assert response.structured is response.parameters is response.duration_ns is None


@pytest.mark.full
def test_long_values_are_shortened():
    def bounded(response):
        if len(response.text) > 50_000:
            raise ValueError(response.text)

    error = broken_by(check_adapter, bounded)

    assert len(error.report) < 3_000
    assert re.search(r"\(\d{5,6} characters\)", error.report)


def test_the_same_seed_finds_the_same_case():
    adapter, options = ForgetsTheCall(), {"seed": 7, "examples": 20}

    reports = [broken_by(check_adapter, adapter, **options).report for _ in range(2)]

    assert reports[0] == reports[1]


def test_it_is_a_failed_assertion():
    adapter = ForgetsTheCall()

    error = broken_by(check_adapter, adapter)

    assert isinstance(error, AssertionError)
    assert isinstance(error, ToolbusError)


def test_a_law_can_be_excluded():
    adapter = CountsCalls()

    check_adapter(adapter, without=["repeatable"], examples=20)

    assert broken_by(check_adapter, adapter, examples=20).law == "repeatable"


def test_a_claim_is_checked():
    adapter = SaysItAgain()

    check_adapter(adapter, examples=20, without=["result-fits"])
    error = broken_by(check_adapter, adapter, examples=20, without=["result-fits"], idempotent=True)

    assert error.law == "idempotent"


def test_an_unknown_law_is_refused():
    names = ["repeatable", "shines"]

    with pytest.raises(ValueError, match="unknown law 'shines'; known: raises-nothing, ends"):
        check_adapter(Blank(), without=names)


def test_given_tools_are_used():
    @tool
    def rotate(angle: int) -> str:
        """Turn it."""
        return str(angle)

    def no_full_turn(ctx):
        return Deny("too far") if 360 % ctx.value.arguments.get("angle", 1) else None

    error = broken_by(check_guard, no_full_turn, tools=[rotate])

    assert error.law == "raises-nothing"
    assert error.case["value"].name == "rotate"
    assert error.case["value"].arguments == {"angle": 0}


def test_values_can_be_given():
    responses, calls, values = [], [], []
    call = ToolCall(id="c", name="read", arguments={"a": 1})

    class Keep(ToolAdapter):
        def adapt_parameters(self, call):
            calls.append(call)

        def adapt_response(self, response, call):
            responses.append(response)

    check_adapter(
        Keep(),
        calls=st.just(call),
        responses=st.just(ToolResponse.from_text("given")),
        examples=5,
    )
    check_guard(PRICED, lambda ctx: values.append(ctx.value), values=st.just(3), examples=5)
    check_handler(PRICED, lambda ctx: values.append(ctx.value), values=st.just(4), examples=5)

    assert call.arguments in [one.arguments for one in calls]
    assert {(one.text, one.tool_call_id) for one in responses} == {("given", "c")}
    assert set(values) == {3, 4}


def test_more_examples_give_more_cases():
    seen = count()

    def counted(**options):
        before = next(seen)
        check_guard(PRICED, lambda ctx: next(seen) and None, **options)
        return next(seen) - before

    few, many = counted(examples=5), counted(examples=50)

    assert few < many


@pytest.mark.full
def test_looked_up_arguments_are_drawn():
    def in_a_list(ctx):
        edits = ctx.value.arguments.get("edits")
        for edit in edits if isinstance(edits, tuple) else ():
            if isinstance(edit, dict) and edit.get("path", "").startswith("/"):
                return Deny("only inside the project")
        return None

    def matched(ctx):
        match ctx.value:
            case ToolCall(arguments={"mode": mode}):
                return Deny("no") if mode & 2 else None

    guards = [split_guard, nested_guard, in_a_list, matched]

    errors = [broken_by(check_guard, one) for one in guards]

    assert [error.law for error in errors] == ["raises-nothing"] * 4
    shown = [list(error.case["value"].arguments) for error in errors]
    assert shown == [["command"], ["options"], ["edits"], ["mode"]]


@pytest.mark.full
def test_unreached_code_is_reported():
    @tool
    def write_file(path: str) -> str:
        """Write it."""
        return path

    def forces(ctx):
        if not ctx.value.arguments:
            return Deny("no") if ctx.value.arguments.get("force") else None
        return None

    guards = [writing_guard, NeverAsked(), forces]

    errors = [broken_by(check_guard, one) for one in guards]
    found = broken_by(check_guard, writing_guard, tools=[write_file])
    check_guard(writing_guard, without=["is-reached"])
    check_guard(NeverAsked(), tools=[write_file])

    assert [error.law for error in errors] == ["is-reached"] * 3
    problems = [re.sub(r"\d+", "N", error.problem) for error in errors]
    assert problems == [
        "writing_guard let all N cases pass and looked up no argument",
        "NeverAsked.judge has a predicate that accepted none of N cases",
        "forces looked up `arguments['force']`, which no case has",
    ]
    assert all("what to do: give `tools=[…]`" in str(error) for error in errors)
    assert found.law == "raises-nothing"


def test_iteration_is_not_a_lookup(thorough):
    def texts_in(value):
        match value:
            case str():
                yield value
            case dict():
                yield from [text for item in value.values() for text in texts_in(item)]
                yield str(value.get("also", ""))
            case tuple():
                yield from [text for item in value for text in texts_in(item)]

    def walks(ctx):
        texts = list(texts_in(dict(ctx.value.arguments)))
        return Deny("a key") if any("PRIVATE KEY" in text for text in texts) else None

    def looks_up(ctx):
        arguments = ctx.value.arguments
        sizes = [len(str(arguments[name])) for name in arguments]
        return Deny("too long") if sum(sizes) > 10_000 else None

    for judge in (walks, looks_up):
        check_guard(judge, examples=1_000 if thorough else 25)

    assert issubclass(LawBroken, AssertionError)


def test_observed_arguments_behave_normally(thorough):
    def normalise(ctx):
        call = ctx.value
        plain = ToolCall(id=call.id, name=call.name, arguments=dict(call.arguments), raw=call.raw)
        assert call == plain
        assert hash(call) == hash(plain)
        assert encode(call) == encode(plain)
        assert repr(call) == repr(plain)
        assert deepcopy(call) == pickle.loads(pickle.dumps(call)) == plain
        assert thaw(call.arguments) == thaw(plain.arguments)
        match call:
            case ToolCall(arguments={"path": str(path)}):
                return call.merge_arguments({"path": path.strip()})

    def changes(ctx):
        ctx.value.arguments["path"] = "/"

    def reads(ctx):
        return Deny("no") if ctx.value.arguments.size else None

    examples = 1_000 if thorough else 25
    check_handler(TOOL_CALL_BEFORE, normalise, idempotent=True, examples=examples)
    error = broken_by(check_handler, TOOL_CALL_BEFORE, changes)

    assert "a FrozenDict cannot be changed" in error.problem
    error = broken_by(check_guard, reads)
    assert "'FrozenDict' object has no attribute 'size'" in error.problem


def test_the_event_comes_first():
    seen = []

    def judge(ctx):
        seen.append(type(ctx.value))
        return Deny("no") if "1" in ctx.value.id else None

    def handle(ctx):
        seen.append(type(ctx.value))

    check_guard(MESSAGE_APPEND_BEFORE, judge, examples=5)
    check_handler(MESSAGE_APPEND_BEFORE, handle, examples=5)
    messages = set(seen)
    seen.clear()
    check_guard(judge, examples=5)

    assert messages <= set(get_args(Message))
    assert set(seen) == {ToolCall}
    with pytest.raises(RegistrationError, match=r"give the event: `check_handler\(EVENT, handler"):
        check_handler(handle)


def test_swapped_arguments_are_explained():
    wrong = [
        (check_handler, (inside_only, TOOL_CALL_BEFORE), "the event comes first: `check_handler("),
        (check_guard, (inside_only, MESSAGE_APPEND_BEFORE), "the event comes first: `check_guard("),
        (check_guard, (TOOL_CALL_BEFORE,), "the handler is missing: `check_guard(EVENT, handler"),
        (
            check_handler,
            ("tool:call:before", inside_only),
            "event 'tool:call:before': events are objects, not strings; use",
        ),
        (check_handler, (NeverAsked,), "component 'NeverAsked': it is a class; give an instance"),
        (check_guard, (TOOL_CALL_AFTER, inside_only), "this event is only observed"),
    ]

    for check, arguments, reason in wrong:
        with pytest.raises(RegistrationError, match=re.escape(reason)):
            check(*arguments)


def test_the_mark_of_a_method_is_read():
    seen = []

    class Both(AgentComponent):
        ready = False

        async def install(self, agent):
            self.ready = True

        @on(TOOL_CALL_AFTER)
        @on(MESSAGE_APPEND_BEFORE)
        def look(self, ctx):
            seen.append((ctx.event, self.ready))

        @guard(MESSAGE_APPEND_BEFORE)
        def judge(self, ctx):
            return Deny("no") if ctx.value.status else None

        @guard(TOOL_CALL_BEFORE, tools=["write_*", "delete_file"])
        def chosen(self, ctx):
            assert re.match("write_|delete_file", ctx.value.name)
            return Deny("no") if ctx.value.arguments.get("path") == "/" else None

        def plain(self, ctx):
            seen.append((ctx.event, self.ready))

    component = Both()

    check_handler(component.look, examples=5)
    check_handler(RUN_BEFORE, component.plain, examples=5)
    check_guard(component.chosen, examples=20)

    events = (TOOL_CALL_AFTER, MESSAGE_APPEND_BEFORE, RUN_BEFORE)
    assert set(seen) == {(event, True) for event in events}
    assert broken_by(check_guard, component.judge).law == "raises-nothing"
    with pytest.raises(RegistrationError, match=r"marked with `@on`; use `check_handler`"):
        check_guard(component.look)
    with pytest.raises(RegistrationError, match=r"marked with `@guard`; use `check_guard`"):
        check_handler(component.judge)


@pytest.mark.full
def test_an_endless_handler_is_interrupted():
    def loops(ctx):
        while True:
            pass

    async def waits(ctx):
        await asyncio.Event().wait()

    def explodes(ctx):
        return Deny("no") if re.match(r"(a+)+$", "a" * 64 + "!") else None

    def swallows(ctx):
        for _ in range(2):
            try:
                while True:
                    pass
            except BaseException:  # noqa: BLE001 - it means to
                continue

    guards = [loops, waits, explodes, swallows]

    errors = [broken_by(check_guard, one, limit=0.1) for one in guards]

    assert [error.law for error in errors] == ["ends"] * 4
    assert errors[0].problem == "loops took longer than 0.1 s"


async def test_a_check_works_inside_a_loop():
    async def patient(ctx):
        await asyncio.sleep(0)

    async def waits(ctx):
        await asyncio.Event().wait()

    check_guard(inside_only, examples=10)
    check_guard(patient, examples=10, without=["is-reached"])
    error = broken_by(check_guard, waits, limit=0.1)

    assert error.law == "ends"


def test_another_alarm_stays_set():
    def ring(*_):
        raise AssertionError("it rang")

    former = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 1_000)

    try:
        check_guard(inside_only, examples=5)

        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        assert 0 < left <= 1_000
        assert signal.getsignal(signal.SIGALRM) is ring
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


@pytest.mark.full
def test_each_part_is_checked():
    class Parts(AgentComponent):
        def __init__(self):
            self.register_tool_adapter(Blank())
            self.register_tool_adapter(RequiresPath())

        @guard(TOOL_CALL_BEFORE)
        def fine(self, ctx):
            return Deny("so long") if len(ctx.value.name) > 3 else None

        @guard(TOOL_CALL_BEFORE)
        def silent(self, ctx):
            return Deny("")

        @on(TOOL_CALL_BEFORE)
        def wordy(self, ctx):
            return ctx.value.name

    component = Parts()

    errors = [broken_by(one, component) for one in (check_adapter, check_guard, check_handler)]

    assert [(error.subject, error.law) for error in errors] == [
        ("adapter 'RequiresPath'", "raises-nothing"),
        ("guard 'Parts.silent'", "says-why"),
        ("handler 'Parts.wordy'", "right-type"),
    ]


def test_adapters_are_called_as_in_an_agent():
    class Signed(ToolAdapter):
        def adapt_signature(self, spec):
            return replace(spec, description="signed")

        def adapt_response(self, response, call, ctx):
            return replace(response, metadata={"for": ctx.scope.agent_id})

    class Raises(ToolAdapter):
        priority = 50

        async def adapt_response(self, response, call, *, ctx):
            raise LookupError(ctx.scope.agent_id)

    class Telling(AgentComponent):
        def __init__(self, *adapters):
            for adapter in adapters:
                self.register_tool_adapter(adapter)

    component = Telling(Raises(), Signed())
    before = component.adapters

    for subject in (Signed(), Telling(Signed())):
        check_adapter(subject, idempotent=True, examples=20)
    error = broken_by(check_adapter, component, examples=20)

    assert (error.subject, error.law) == ("adapter 'Raises'", "raises-nothing")
    assert "LookupError: checked at test_laws.py:" in error.problem
    assert component.adapters == before


def test_a_checked_component_is_installed():
    steps = []

    class Needy(AgentComponent):
        def setup(self, agent):
            super().setup(agent)
            steps.append("setup")

        async def install(self, agent):
            steps.append("install")

        async def close(self):
            steps.append("close")

        @guard(TOOL_CALL_BEFORE)
        def judge(self, ctx):
            return None if steps[-1] == "install" else Deny("not installed")

    component = Needy()

    check_guard(component, examples=3, without=["is-reached"])

    assert steps == ["setup", "install", "close"]
    assert component.host is None


def test_a_predicate_applies(thorough):
    class Some(AgentComponent):
        @guard(TOOL_CALL_BEFORE, when=lambda ctx: "path" in ctx.value.arguments)
        def judge(self, ctx):
            return Deny("no") if ctx.value.arguments["path"] == "/" else None

    class Fewer(AgentComponent):
        @guard(TOOL_CALL_BEFORE, when=lambda ctx: ctx.value.arguments["path"] == "/")
        def judge(self, ctx):
            return Deny("no")

    check_guard(Some(), examples=1_000 if thorough else 25)
    error = broken_by(check_guard, Fewer())

    assert error.law == "raises-nothing"
    assert error.problem.startswith("its predicate raised KeyError: 'path'")


def test_a_restricted_component_gets_its_tools():
    def only_one(name):
        if name != "read_file":
            raise LookupError(name)

    class One(ToolAdapter):
        def adapt_response(self, response, call):
            only_one(call.name)

    class Reading(AgentComponent):
        def __init__(self):
            self.register_tool_adapter(One())

        @guard(TOOL_CALL_BEFORE)
        def judge(self, ctx):
            only_one(ctx.value.name)

        @on(TOOL_CALL_BEFORE)
        def rewrite(self, ctx):
            only_one(ctx.value.name)

    checks, tools = [check_adapter, check_guard, check_handler], FILES[:2]

    for check in checks:
        check(Reading().restrict(tools=["read_file"]), tools=tools, examples=20)
        assert broken_by(check, Reading(), tools=tools, examples=20).law == "raises-nothing"


def test_nothing_to_check_is_an_error():
    class Empty(AgentComponent):
        pass

    checks = [check_adapter, check_guard, check_handler]

    for check in checks:
        with pytest.raises(RegistrationError, match=r"component 'Empty': .* to check"):
            check(Empty())
        with pytest.raises(RegistrationError):
            check(3)
