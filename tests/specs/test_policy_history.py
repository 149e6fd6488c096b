"""The scenarios of `specs/policy_history.md`."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolbus import (
    Agent,
    AgentComponent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    Scope,
    ToolCall,
    ToolMessage,
    ToolResponse,
    ToolRunner,
    Toolset,
    guard,
    tool,
)
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import find_question
from toolbus.components.state import State
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.toml.values import MisfitError


def rule(name, verdict, **conditions):
    return {"name": name, "verdict": verdict, **conditions}


class Clock:
    """Seconds of the epoch that pass when a test says so."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


class World:
    """An agent with tools that count, and a policy; each `run` is a turn of given calls."""

    name = "scripted"

    def __init__(
        self,
        *rules,
        calls=(),
        tools=(),
        components=(),
        approver=None,
        policy_default="allow",
        policy_tools=None,
        **options,
    ):
        self.ran, self.clock, self.ids = Counter(), Clock(), 0
        self.fails = False
        self.texts = []
        policy = Policy(
            rule=list(rules),
            call=list(calls),
            default=policy_default,
            tools=policy_tools,
            clock=self.clock,
        )
        options = {"session_id": "s", **options}
        self.agent = Agent(
            self,
            tools=[self.tool(name) for name in ("fetch", "deploy", "pay", "test", "read")]
            + [self.shell(), *tools],
            components=[*components, policy],
            approver=approver,
            **options,
        )
        self.pending = []

    async def complete(self, request):
        if self.pending:
            batch, self.pending = self.pending[0], self.pending[1:]
            return AssistantMessage(tool_calls=batch)
        return AssistantMessage(content="done")

    def tool(self, name):
        async def run(**arguments):
            self.ran[name] += 1
            if self.fails:
                raise RuntimeError("failed")
            return "x" * arguments.get("size", 1)

        schema = {"type": "object", "additionalProperties": True}
        return tool(name=name, description=name, input_schema=schema)(run)

    def shell(self):
        @tool
        def shell(command: str) -> ToolResponse:
            """Run a command."""
            self.ran["shell"] += 1
            return ToolResponse("ran", metadata={"exit_status": int(self.fails)})

        return shell

    async def run(self, *batches):
        """Run one turn a batch of (name, arguments); return what the calls were answered."""
        for batch in batches:
            made = []
            for name, arguments in batch:
                self.ids += 1
                made.append(ToolCall(id=f"c{self.ids}", name=name, arguments=arguments))
            self.pending.append(tuple(made))
        result = await self.agent.run("go")
        return [each.text for each in result.messages if each.role == "tool"]

    async def call(self, name, **arguments):
        """Return whether a single call ran."""
        before = self.ran[name]
        self.texts = await self.run([(name, arguments)])
        return self.ran[name] > before

    async def line(self, command):
        return await self.call("shell", command=command)


# --- counts have a limit -------------------------------------------------------------------------


async def test_calls_beyond_a_limit_are_denied():
    world = World(rule("fetches", "deny", tools="fetch", at_most={"calls": 3}))

    assert [await world.call("fetch") for _ in range(3)] == [True] * 3
    assert await world.call("read")
    assert not await world.call("fetch")
    assert "rule 'fetches': 4 of at most 3 calls" in world.texts[0]
    assert await world.call("read")


async def test_calls_leave_the_time_window():
    world = World(rule("fetches", "deny", tools="fetch", at_most={"calls": 2, "seconds": 10}))

    assert await world.call("fetch")
    world.clock.now += 6
    assert await world.call("fetch")
    assert not await world.call("fetch")
    world.clock.now += 5
    assert await world.call("fetch")
    assert not await world.call("fetch")


async def test_parallel_calls_count_each_other():
    asked = []

    async def approver(question, call, scope):
        asked.append(call)
        return True

    world = World(
        rule("fetches", "deny", tools="fetch", at_most={"calls": 3}),
        rule("careful", "ask", tools="fetch", at_most={"calls": 1}),
        approver=approver,
    )

    texts = await world.run([("fetch", {"n": n}) for n in range(6)])

    assert world.ran["fetch"] == 3
    assert len(asked) == 2
    assert sum("fetches" in text for text in texts) == 3


async def test_denied_calls_do_not_count():
    world = World(
        rule("fetches", "deny", tools="fetch", at_most={"calls": 2}),
        rule("inside", "deny", tools="fetch", arguments={"where": "outside"}),
    )

    assert not any([await world.call("fetch", where="outside") for _ in range(4)])
    assert [await world.call("fetch", where="here") for _ in range(3)] == [True, True, False]


async def test_each_command_of_a_line_counts():
    world = World(rule("fetches", "deny", command="curl", at_most={"calls": 2}))
    fetch = "curl https://example.com"

    assert not await world.line(f"{fetch}; {fetch} && {fetch}")
    assert await world.line(fetch)
    assert not await world.line(f"{fetch}; {fetch}")
    assert await world.line(fetch)
    assert not await world.line(fetch)


async def test_a_run_has_its_own_limits():
    world = World(rule("fetches", "deny", tools="fetch", at_most={"calls": 2, "per": "run"}))

    for _ in range(2):
        await world.run(*[[("fetch", {"n": n})] for n in range(3)])

    assert world.ran["fetch"] == 4


async def test_amounts_of_an_argument_add_up():
    limit = {"total": 100, "of": "amount"}
    world = World(rule("money", "deny", tools="pay", at_most=limit))

    assert await world.call("pay", amount=60)
    assert not await world.call("pay", amount=50)
    assert "110 of at most 100 amount" in world.texts[0]
    assert await world.call("pay", amount=40)
    assert await world.call("pay", amount=-20)
    assert not await world.call("pay", amount=1)
    assert await world.call("pay")
    assert not await world.call("pay", amount="1")
    assert "rule 'money' cannot judge this call: at_most: amount" in world.texts[0]


async def test_bytes_and_seconds_have_limits():
    world = World(rule("bytes", "deny", tools="read", at_most={"bytes": 100}))

    assert await world.call("read", size=60)
    assert await world.call("read", size=60)
    assert not await world.call("read", size=1)

    async def slow():
        """Work."""
        world.ran["slow"] += 1
        await asyncio.sleep(0.002)
        return "done"

    world = World(
        rule("seconds", "deny", tools="slow", at_most={"tool_seconds": 0.001}), tools=[tool(slow)]
    )

    assert await world.call("slow")
    assert not await world.call("slow")


async def test_an_allowance_is_exhausted():
    asked = []
    world = World(
        rule("free", "allow", tools="fetch", at_most={"calls": 2}),
        approver=lambda question, call, scope: asked.append(question) or False,
        policy_default="ask",
    )

    assert [await world.call("fetch") for _ in range(3)] == [True, True, False]
    assert len(asked) == 1


# --- calls before count --------------------------------------------------------------------------

TESTS_PASSED = {"name": "tests-passed", "command": "pytest", "outcome": "success"}


async def test_a_deployment_waits_for_tests():
    world = World(
        rule("tested", "deny", tools="deploy", only_after="tests-passed"),
        calls=[{"name": "tests-passed", "tools": "test", "outcome": "success"}],
    )

    assert not await world.call("deploy")
    assert "'tests-passed' has not happened yet" in world.texts[0]
    world.fails = True
    assert await world.call("test")
    assert not await world.call("deploy")
    world.fails = False
    assert await world.call("test")
    assert await world.call("deploy")


@pytest.mark.parametrize(
    "line",
    ["pytest || true", "pytest & true", "echo pytest", "pytest; cd .", "! pytest", "pytest | cat",
     "if pytest; then :; fi", "pytest &", "(pytest; true)", "cd src || pytest", "$X pytest"],
)  # fmt: skip
async def test_success_cannot_be_faked(line):
    world = World(
        rule("tested", "deny", tools="deploy", only_after="tests-passed"), calls=[TESTS_PASSED]
    )

    await world.line(line)
    assert not await world.call("deploy")
    await world.line("cd src && pytest")
    assert await world.call("deploy")


async def test_some_calls_end_network_access():
    world = World(
        rule("no way out", "deny", tools="fetch", never_after="secret-read"),
        calls=[{"name": "secret-read", "tools": "read", "arguments": {"path": "secret"}}],
    )

    assert await world.call("fetch")
    await world.call("read", path="other")
    assert await world.call("fetch")
    world.fails = True
    await world.call("read", path="secret")
    world.fails = False
    assert not await world.call("fetch")
    assert "'secret-read' may have happened" in world.texts[0]


async def test_a_refused_call_did_not_happen():
    class Refuse(AgentComponent):
        @guard(TOOL_CALL_BEFORE)
        def refuse(self, ctx):
            return Ask("sure?") if ctx.value.arguments.get("ask") else None

    class RefuseLater(AgentComponent):
        @guard(TOOL_CALL_BEFORE)
        def refuse_later(self, ctx):
            return Deny("no") if ctx.value.arguments.get("deny") else None

    def world():
        return World(
            rule("no way out", "deny", tools="fetch", never_after="secret-read"),
            calls=[{"name": "secret-read", "tools": "read"}],
            components=[Refuse(), RefuseLater()],
            approver=lambda question, call, scope: False,
        )

    for arguments in ({"ask": True}, {"deny": True}):
        refused = world()
        assert not await refused.call("read", **arguments)
        assert await refused.call("fetch")


# --- loops are found -----------------------------------------------------------------------------


async def test_a_repeated_call_is_a_loop():
    world = World(rule("loop", "deny", repeats=3))

    assert await world.call("read", a=1, b=[2])
    assert await world.call("read", b=[2], a=1)
    assert not await world.call("read", a=1, b=[2])
    assert "the same call, 3 times" in world.texts[0]
    assert not await world.call("read", a=1, b=[2])
    assert await world.call("read", a=1, b=[3])


async def test_alternating_calls_are_a_loop():
    world = World(rule("loop", "deny", repeats=3))

    ran = [await world.call(name) for name in ["read", "fetch"] * 3]

    assert ran == [True] * 5 + [False]
    assert "the same 2 calls in turn, 3 times" in world.texts[0]


# --- it is the session's -------------------------------------------------------------------------


async def test_a_resumed_session_keeps_its_counts(tmp_path):
    fetches = rule("fetches", "deny", tools="fetch", at_most={"calls": 2})
    for expected in ([True, True], [False]):
        async with SqliteStore(tmp_path / "s.db") as store:
            world = World(fetches, store=store)
            world.ids = len(expected) * 10

            assert [await world.call("fetch") for _ in expected] == expected
            await world.agent.aclose()


ONCE = [
    {"at_most": {"calls": 1}},
    {"at_most": {"calls": 1, "seconds": 60}},
    {"at_most": {"calls": 1, "per": "session"}},
    {"at_most": {"total": 50, "of": "amount"}},
    {"at_most": {"total": 50, "of": "amount", "seconds": 60}},
    {"repeats": 2},
    {"never_after": "payment"},
]


async def answered(store, pending):
    question = await find_question(store, *pending)
    await answer(store, question.id, question.digest, approve=True, by="ann")


@pytest.mark.parametrize("limit", ONCE, ids=str)
async def test_a_call_that_waits_counts_once(limit):
    store, ran = MemoryStore(), []
    asks = rule("asks", "ask", tools="pay")
    calls = [{"name": "payment", "tools": "pay"}]
    policy = Policy(rule=[asks, rule("once", "deny", tools="pay", **limit)], call=calls)

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    def asking(name):
        call = ToolCall(id=name, name="pay", arguments={"amount": 40})
        return AssistantMessage(id=name, tool_calls=(call,))

    agent = Agent(
        ScriptedModel([asking("a"), "done", asking("b"), "done"]),
        tools=[pay],
        components=[policy],
        approver=StoredApprovals(),
        store=store,
        session_id="s",
    )
    async with agent:
        await agent.run("go")
        waiting = await agent.resume()
        await answered(store, waiting.pending)
        assert (await agent.resume()).status == "ok"
        assert (await agent.run("again")).status == "ok"
    assert ran == [40]

    policy = Policy(rule=[asks, rule("once", "deny", tools="pay", **limit)], call=calls)
    bus = EventBus()
    async with policy.installed(bus):
        scope, approvals = Scope(session_id="t"), StoredApprovals(store=store)
        runner = ToolRunner(bus, Toolset([pay]), scope, approver=approvals)
        outcomes = [await runner.call("pay", {"amount": 40}) for _ in range(3)]
        await answered(store, outcomes[0].pending)
        outcomes += [await runner.call("pay", {"amount": 40}) for _ in range(2)]
    assert [outcome.status for outcome in outcomes] == [*["pending"] * 3, "ok", "denied"]
    assert ran == [40, 40]


async def test_sub_agents_share_the_limits():
    fetches = rule("fetches", "deny", tools="fetch", at_most={"calls": 3})
    below = World(fetches, agent_id="below", session_id=None)
    above = World(
        fetches, tools=[below.agent.as_tool("helper", "Helps.")], agent_id="above",
        bus=below.agent.bus,
    )  # fmt: skip
    below.pending = [(ToolCall(id=f"b{n}", name="fetch", arguments={"n": n}),) for n in range(2)]

    assert await above.call("fetch", n=10)
    await above.run([("helper", {"prompt": "go"})])
    assert below.ran["fetch"] == 2
    assert not await above.call("fetch", n=11)


async def test_a_changed_limit_counts_once(tmp_path):
    text = 'default = "allow"\n[[rule]]\nname = "r"\nverdict = "deny"\ntools = "t"\n'
    texts = [f"{text}at_most = {{ calls = {calls} }}\nrepeats = 8\n" for calls in (9, 3, 5, 5)]
    file, verdicts = tmp_path / "policy.toml", []
    file.write_text(texts[0], "utf-8")
    policy = Policy.read(file)
    async with policy.installed(bus := EventBus()):
        for number, text in enumerate(texts):
            file.write_text(text, "utf-8")
            call = {"tool": "t", "n": 0, "run": 0, "id": f"c{number}"}
            verdicts.append(await judged(SimpleNamespace(bus=bus), call))

    assert verdicts == ["allow", "allow", "allow", "deny"]


CALLS = [{"name": "ok", "tools": "test"}, {"name": "bad", "tools": "read", "outcome": "error"}]
LIMITS = [
    ("deny", {"at_most": {"calls": 2}}),
    ("deny", {"at_most": {"calls": 2, "per": "run"}}),
    ("deny", {"at_most": {"calls": 2, "seconds": 5}}),
    ("deny", {"at_most": {"calls": 1, "seconds": 9, "per": "run"}}),
    ("deny", {"at_most": {"total": 10, "of": "n"}}),
    ("deny", {"only_after": "ok"}),
    ("deny", {"never_after": "bad"}),
    ("deny", {"repeats": 2}),
    ("deny", {"repeats": 3}),
    ("allow", {"at_most": {"calls": 3}}),
    ("allow", {"only_after": "ok"}),
    ("allow", {"repeats": 3}),
]
STEPS = st.one_of(
    st.tuples(st.just("call"), st.sampled_from(["fetch", "test", "read"]), st.integers(0, 6),
              st.booleans(), st.integers(0, 1), st.integers(0, 1)),
    st.tuples(st.just("end"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("wait"), st.integers(1, 6)),
)  # fmt: skip


class Trace:
    """The verdicts of a rule about `fetch`, counted from the list of all that was before."""

    def __init__(self, verdict, limit):
        self.verdict, self.limit, self.calls, self.now = verdict, limit, [], 0

    def broken(self, call):
        before = [each for each in self.calls if each["tool"] == "fetch"]
        key, value = next(iter(self.limit.items()))
        if key == "at_most":
            near = [
                each
                for each in before
                if ("seconds" not in value or each["at"] > self.now - value["seconds"])
                and (value.get("per") != "run" or each["run"] == call["run"])
            ]
            if "total" in value:
                return call["n"] and sum(each["n"] for each in [*near, call]) > value["total"]
            return len(near) + 1 > value["calls"]
        if key == "only_after":
            return not any(each["tool"] == "test" and each["ok"] is True for each in self.calls)
        if key == "never_after":
            return any(each["tool"] == "read" and each["ok"] is not True for each in self.calls)
        same = [each["n"] for each in before if each["session"] == call["session"]] + [call["n"]]
        return any(
            len(same) >= size * value and same[-size * value :] == same[-size:] * value
            for size in range(1, 5)
        )

    def judge(self, call):
        broken = call["tool"] == "fetch" and self.broken(call)
        if call["tool"] != "fetch":
            verdict = "ask"
        elif self.verdict == "deny":
            verdict = "deny" if broken else "ask"
        else:
            verdict = "ask" if broken else "allow"
        if verdict != "deny":
            self.calls.append(call)
        return verdict


class SharedPolicy(Policy):
    """A policy of one of several processes on a session: its bus, and the store that all have."""

    def __init__(self, store, **options):
        super().__init__(**options)
        self.bus, self.store = EventBus(), store

    def state(self, scope=None, *, shared=False):
        return State(self.store, scope.session_id, self.name)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(limit=st.sampled_from(LIMITS), steps=st.lists(STEPS, max_size=14))
def test_traces_agree_with_a_plain_count(limit, steps):
    asyncio.run(agrees(limit, steps))


async def agrees(limit, steps):
    trace, clock, store = Trace(*limit), Clock(), MemoryStore()
    rules = [rule("r", limit[0], tools="fetch", **limit[1])]
    running = []
    async with AsyncExitStack() as stack:
        hosts = [SharedPolicy(store, rule=rules, call=CALLS, clock=clock) for _ in range(2)]
        for host in hosts:
            await stack.enter_async_context(host.installed(host.bus))
        for number, step in enumerate(steps):
            if step[0] == "wait":
                clock.now += step[1]
                trace.now += step[1]
            elif step[0] == "end":
                if running:
                    await ended(running.pop(step[1] % len(running)), step[2], hosts)
            else:
                _, tool_name, n, twice, run, host = step
                made = [
                    {"tool": tool_name, "n": n, "run": run, "host": (host + at) % 2, "ok": None,
                     "at": trace.now, "session": 0, "verdict": "", "id": f"{number}-{at}"}
                    for at in range(1 + twice)
                ]  # fmt: skip
                verdicts = await asyncio.gather(
                    *[judged(hosts[each["host"]], each) for each in made]
                )
                expected = [trace.judge(each) for each in made]

                assert sorted(verdicts) == sorted(expected), steps[: number + 1]
                # Which of two equal calls came first is theirs: the count takes over their names.
                begun = [each["id"] for each in made if each["verdict"] != "deny"]
                for each, name in zip([e for e in trace.calls if e in made], begun, strict=True):
                    each["id"] = name
                running += [each for each in made if each in trace.calls]


async def judged(host, call):
    """Return the verdict of a host on a call that begins."""
    scope = Scope(session_id="s", run_id=str(call["run"]))
    value = ToolCall(id=call["id"], name=call["tool"], arguments={"n": call["n"]})
    context = await host.bus.apply(TOOL_CALL_BEFORE, value, scope=scope)
    call["verdict"] = "deny" if context.denied else "ask" if context.asked else "allow"
    return call["verdict"]


async def ended(call, ok, hosts):
    """Tell a host how a call ended."""
    call["ok"] = ok
    response = ToolResponse("x", is_error=not ok, duration_ns=1)
    message = ToolMessage(tool_call_id=call["id"], tool_name=call["tool"], tool_response=response)
    scope = Scope(session_id="s", run_id=str(call["run"]))
    await hosts[call["host"]].bus.apply(MESSAGE_APPEND_BEFORE, message, scope=scope)


# --- a shell may go on ---------------------------------------------------------------------------


def shell_world(tmp_path, **options):
    (tmp_path / "src").mkdir()
    tools = {"shell": {"folder": str(tmp_path), "keeps_folder": True}, **options.pop("tools", {})}
    never = rule("never", "deny", reads=[f"{tmp_path}/src/x.key"])
    return World(never, policy_tools=tools, **options)


async def test_a_shell_may_have_moved(tmp_path):
    world = shell_world(tmp_path)

    assert await world.line("cat x.key")
    assert await world.line("ls; echo x")
    assert await world.line("cat x.key")
    assert await world.line("cd src")
    assert not await world.line("cat x.key")
    assert world.texts == ["approval is needed, and no approver is available"]
    assert not await world.line(f"cat {tmp_path}/src/x.key")
    assert "rule 'never'" in world.texts[0]
    assert await world.line(f"cat {tmp_path}/y")

    (tmp_path / "other").mkdir()
    tools = {"shell": {"folder": str(tmp_path / "other")}}
    world = shell_world(tmp_path / "other", tools=tools)
    assert await world.line("cd src")
    assert await world.line("cat x.key")


async def test_a_refused_call_moves_nothing(tmp_path):
    asked = []

    def approver(question, call, scope):
        asked.append(call.arguments["command"])
        return False

    world = shell_world(tmp_path, approver=approver)

    assert not await world.line("cd $UNKNOWN && cat z")
    assert await world.line("cat x.key")
    assert asked == ["cd $UNKNOWN && cat z"]


# --- mistakes are told ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"at_most": 20}, "rule 'r': key 'at_most': expected a table such as"),
        ({"at_most": {"call": 20}}, "unknown key 'call'; did you mean 'calls'"),
        ({"at_most": {"seconds": 20}}, "it has nothing to count"),
        ({"at_most": {"calls": -1}}, "expected a number above 0, got -1"),
        ({"at_most": {"calls": True}}, "got True"),
        ({"at_most": {"total": 1}}, "`total` and `of`"),
        ({"at_most": {"calls": 1, "per": "day"}}, 'expected "session" or "run", got \'day\''),
        ({"only_after": "test"}, "there is no [[call]] 'test'; did you mean 'tests'"),
        ({"never_after": []}, "expected the name of a [[call]]"),
        ({"repeats": 1}, "expected a number from 2 to 16, got 1"),
        ({"atmost": {}}, "unknown key 'atmost'"),
    ],
)
def test_wrong_limits_are_errors(limit, words):
    with pytest.raises(MisfitError) as raised:
        Policy(rule=[rule("r", "deny", **limit)], call=[{"name": "tests", "tools": "test"}])

    assert words in str(raised.value.reason)
