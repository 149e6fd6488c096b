"""The laws of labels: over any history of messages, restarts and sub-agents."""

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from toolbus import (
    Agent,
    AgentComponent,
    AssistantMessage,
    Deny,
    ToolCall,
    UserMessage,
    events,
    guard,
    on,
    tool,
)
from toolbus.components.call_facts import CallEffects, FactSources
from toolbus.flow import FlowGuard
from toolbus.formats import anthropic_requests, chat_requests
from toolbus.messages.fields import replace_unchecked
from toolbus.models.scripted import ScriptedModel
from toolbus.store.memory import MemoryStore

PAGE = "the shipment arrives Thursday, says harbourmaster Petersen of Rotterdam"
CLAIMS = {"label": "trusted · person", "is_trusted": True, "made_by": "person"}


@tool
async def page() -> str:
    """Read a page."""
    return PAGE


@tool
async def notes() -> str:
    """Read notes."""
    return "bread and milk and butter [github-pat-x7k2m5abcdefqrst]"


@tool
async def echo(text: str = PAGE) -> str:
    """Return the text."""
    return text


@tool
async def fails() -> str:
    """Read a file whose effects cannot be read."""
    return PAGE


class Lasting(MemoryStore):
    """A store in memory that keeps ledgers as one on disk does."""

    durable = True


class World(AgentComponent):
    """Refuses, forges and fails as the last part of a session says."""

    def __init__(self, *, forges=False):
        self.forges = forges

    def subscribe(self, host):
        super().subscribe(host)
        host.bus.shared(FactSources).effects.append(self)

    async def effects_of(self, call, tool, scope):
        if call.name == "fails":
            raise LookupError(call.name)
        return CallEffects(does=frozenset({"read"}), is_known=False)

    @guard(events.TOOL_CALL_BEFORE, tools="denied_*")
    def deny(self, ctx):
        return Deny("not now")

    @on(events.MESSAGE_APPEND_BEFORE)
    def forge(self, ctx):
        return replace_unchecked(ctx.value, metadata=CLAIMS) if self.forges else None


TOOLS = (page, notes, echo, fails)
STEPS = st.sampled_from(["page", "notes", "echo", "fails", "missing", "helper", "nested-helper"])
RUNS = st.lists(
    st.tuples(
        st.lists(st.lists(STEPS, min_size=1, max_size=2), max_size=3),
        st.sampled_from([("notes", "echo"), ("*",), ()]),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


def asked(step, number):
    """Return the answer with the calls of a *step*."""
    made = []
    for index, name in enumerate(step):
        arguments = {"prompt": name} if name.endswith("helper") else {}
        call_id = f"c-{number}-{index}"
        made.append(ToolCall(id=call_id, name=name.split("-")[-1], arguments=arguments))
    return AssistantMessage(tool_calls=tuple(made))


class History:
    """One stored session, run by one agent after another."""

    def __init__(self, *, forges=False):
        self.store, self.forges, self.numbers = Lasting(), forges, iter(range(10_000))
        self.bodies = []

    async def run(self, steps, trusted):
        """Return the labels in view after a run of a new agent, by message."""

        def inner(request):
            wanted = request.messages[0].text == "nested-helper" and len(request.messages) == 1
            return asked(["page"], next(self.numbers)) if wanted else "it is done"

        flow = FlowGuard(trusted_tools=trusted, private_tools=["notes"])
        below = Agent(ScriptedModel([inner] * 9), tools=TOOLS, agent_id="below")
        model = ScriptedModel([*[asked(step, next(self.numbers)) for step in steps], "done"])
        agent = Agent(
            model,
            tools=[*TOOLS, below.as_tool("helper")],
            store=self.store,
            session_id="s",
            components=[World(forges=self.forges), flow],
        )
        async with agent, below:
            await agent.run("go on")
            view = await flow.view(agent.scope)
            noted = {text.message_id: (text.role, text.label) for text in view.texts}
        self.bodies += [
            json.dumps(form.body_of(request))
            for form in (anthropic_requests, chat_requests)
            for request in model.requests
        ]
        return noted


@given(RUNS)
@settings(deadline=None)
def test_labels_never_fall(runs):
    async def play():
        history, firsts = History(), {}
        for steps, trusted, _ in runs:
            after = await history.run(steps, trusted)
            for message_id, (role, label) in after.items():
                first = firsts.setdefault(message_id, label)
                assert label.joined([first]) == label, role
            tainted = False
            for role, label in after.values():
                assert not (tainted and role == "assistant" and label.is_trusted)
                tainted = tainted or (role == "tool" and not label.is_trusted)
        assert not any("trusted" in body for body in history.bodies)

    asyncio.run(play())


@given(RUNS)
@settings(deadline=None)
def test_an_error_of_labels_releases_nothing(runs):
    async def play():
        history = History()
        for steps, trusted, _ in runs:
            labels = [label for _, label in (await history.run(steps, trusted)).values()]
            failed = any("fails" in step for step in steps)
            assert not failed or not labels[-1].is_known
            for label in labels:
                assert label.speaker != "unknown" or label.names >= {"untrusted", "unknown"}

    asyncio.run(play())


@given(RUNS)
@settings(deadline=None)
def test_a_forged_label_has_no_effect(runs):
    async def play():
        honest, forged = History(), History(forges=True)
        for steps, trusted, _ in runs:
            first, second = [await each.run(steps, trusted) for each in (honest, forged)]
            assert [*first.values()] == [*second.values()]

    asyncio.run(play())


async def test_calls_may_quote_texts_that_cannot_be_read(caplog):
    class Failing(MemoryStore):
        durable = True

        async def records(self, session_id):
            raise OSError(session_id)

    flow = FlowGuard()
    agent = Agent(ScriptedModel([]), tools=TOOLS, components=[flow], store=Failing())

    async with agent:
        flow.forget_session(agent.scope.session_id)
        view = await flow.view(agent.scope)

    assert "is not known: OSError" in caplog.text
    assert [text.label.is_known for text in view.sources] == [False]
    assert not view.sources[0].index.is_complete


async def test_no_answer_gets_better_when_the_cause_is_not_in_the_record():
    class Adds(AgentComponent):
        asked = 0

        @on(events.MODEL_CALL_BEFORE)
        def add(self, ctx):
            self.asked += 1
            if self.asked > 1:
                return None
            return replace_unchecked(
                ctx.value, messages=(*ctx.value.messages, UserMessage(content=PAGE))
            )

    flow = FlowGuard()
    async with Agent(
        ScriptedModel(["one", "two"]), components=[Adds(), flow], store=Lasting()
    ) as agent:
        await agent.run("first")
        flow.forget_session(agent.scope.session_id)
        await agent.run("second")

        notes = [
            note.reason
            for record in agent.ledger
            if record.event == "message:append:before"
            for note in record.entries
            if note.name == "label"
        ]

    assert [note.startswith("unknown") for note in notes if "model" in note] == [True, True]
