"""The scenarios of `specs/streaming.md`."""

import asyncio
import json
import logging
import sys
from contextlib import asynccontextmanager, suppress

import anthropic
import httpx
import httpx2
import openai
import pytest
from msgspec.structs import replace
from tests.servers.fake_provider import WIRES, FakeProvider, sent
from tests.servers.providers import CHAT, MESSAGES, model_for

from toolbus import (
    Agent,
    AgentComponent,
    Ask,
    AssistantMessage,
    Deny,
    ToolAdapter,
    ToolCall,
    ToolMessage,
    guard,
    on,
    tool,
)
from toolbus.errors import ModelError, RegistrationError
from toolbus.events import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    MODEL_CALL_DELTA,
    MODEL_CALL_ERROR,
    TOOL_CALL_BEFORE,
    ModelDelta,
    TurnEnd,
)
from toolbus.messages import ReasoningPart
from toolbus.models import ScriptedModel
from toolbus.store import SqliteStore

EVERY_WIRE = pytest.mark.parametrize("path", WIRES)
WORD = "b0mb-" + "r3c1pe"


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"file {path}"


@tool
async def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


class Speaker:
    """A model that says *answers*, each a message and the texts in which it is said."""

    name = "speaker"

    def __init__(self, *answers, before=None, error=None):
        self._answers, self._before, self._error = list(answers), before, error
        self.said = 0

    async def complete(self, request):
        return self._answers.pop(0)[0]

    async def stream(self, request):
        message, deltas = self._answers.pop(0)
        for delta in deltas:
            if self._before is not None:
                self._before(self.said)
            self.said += 1
            yield delta
        if self._error is not None:
            raise self._error
        yield message


def texts(*pieces, kind="text"):
    """Return an answer that says *pieces*."""
    whole = "".join(pieces)
    deltas = [ModelDelta(kind=kind, text=piece) for piece in pieces]
    if kind == "reasoning":
        return AssistantMessage(reasoning=(ReasoningPart(whole),)), deltas
    return AssistantMessage(content=whole), deltas


def call(*pieces, name="write", call_id="c1"):
    """Return an answer that calls a tool with the arguments in *pieces*."""
    asked = ToolCall(id=call_id, name=name, arguments=json.loads("".join(pieces)))
    deltas = [ModelDelta(kind="tool_call", text=piece, name=name, id=call_id) for piece in pieces]
    return AssistantMessage(tool_calls=(asked,)), deltas


ARGUMENTS = ('{"path"', ':"', "a", '"}')


async def streamed(agent, prompt="go"):
    return [piece async for piece in agent.stream(prompt)]


def joined(pieces, kind="text", index=0):
    parts = [piece for piece in pieces if isinstance(piece, ModelDelta)]
    return "".join(piece.text for piece in parts if (piece.kind, piece.index) == (kind, index))


def shapes_of(pieces):
    """Return the kinds of *pieces* in order; those that go on are one."""
    seen = []
    for piece in pieces:
        is_delta = isinstance(piece, ModelDelta)
        shape = (piece.kind, piece.index) if is_delta else type(piece).__name__
        if not seen or seen[-1] != shape:
            seen.append(shape)
    return seen


def is_answered(messages):
    """Tell whether each call is followed by its message."""
    waiting = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not waiting or message.tool_call_id != waiting.pop(0):
                return False
        elif waiting:
            return False
        else:
            waiting = [one.id for one in getattr(message, "tool_calls", ())]
    return not waiting


# --- a stream shows the whole run ----------------------------------------------------------------


async def test_each_kind_of_piece_has_a_type():
    asked = ToolCall(id="c1", name="read", arguments={"path": "a"})
    asking = AssistantMessage(
        content="I look.", reasoning=(ReasoningPart("A file."),), tool_calls=(asked,)
    )
    agent = Agent(ScriptedModel([asking, "It is fine."]), tools=[read])

    pieces = await streamed(agent)

    assert shapes_of(pieces) == [
        ("reasoning", 0),
        ("text", 0),
        ("tool_call", 0),
        "ToolMessage",
        "TurnEnd",
        ("text", 0),
        "TurnEnd",
        "RunResult",
    ]
    (piece,) = [one for one in pieces if getattr(one, "kind", "") == "tool_call"]
    assert (piece.text, piece.name, piece.id) == ('{"path":"a"}', "read", "c1")
    answered, first, last, result = [one for one in pieces if not isinstance(one, ModelDelta)]
    assert [first, last] == [
        TurnEnd(turn=1, message=agent.messages[1], tool_messages=(answered,)),
        TurnEnd(turn=2, message=agent.messages[3]),
    ]
    assert answered is agent.messages[2]
    assert result.text == "It is fine."


async def test_an_answer_of_a_handler_is_shown():
    agent = Agent(ScriptedModel([]))
    cached = AssistantMessage(id="m", content="as before")
    agent.on(MODEL_CALL_BEFORE, lambda ctx: cached)

    pieces = await streamed(agent)

    assert pieces[:2] == [
        ModelDelta(kind="text", text="as before"),
        TurnEnd(turn=1, message=cached),
    ]


# --- text is held while it may change ------------------------------------------------------------


class Judging(AgentComponent):
    """Has handlers of all that a model says."""

    @on(MESSAGE_APPEND_BEFORE, roles="assistant")
    def change(self, ctx): ...

    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx): ...


class Shortening(AgentComponent):
    """Has an adapter of what tools return."""

    def __init__(self):
        class Short(ToolAdapter):
            def adapt_response(self, response, call):
                return response.with_text("short")

        self.register_tool_adapter(Short())


def unconcerned(agent):
    """Subscribe handlers on the bus of *agent* that have nothing to do with its answers."""
    agent.bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: None, roles=["user", "tool"])
    agent.bus.guard(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no"), sender="another")
    agent.bus.guard(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no"), tools="other")
    agent.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("no"), tools="other*")


def agent_for(*answers, components=(), error=None, **options):
    """Return an agent, and how many pieces it had given when the model said each."""
    given, progress = [], []
    model = Speaker(*answers, before=lambda _: progress.append(len(given)), error=error)
    agent = Agent(model, tools=[read, write], components=components, **options)
    agent.on(MODEL_CALL_DELTA, lambda ctx: given.append(ctx.value))
    return agent, progress


@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_unconcerned_handlers_hold_nothing_back(kind):
    components = [Shortening(), Judging(enabled=False)]
    agent, progress = agent_for(texts("a", "b", "c", kind=kind), components=components)
    unconcerned(agent)

    pieces = await streamed(agent)

    assert progress == [0, 1, 2]
    assert pieces[:3] == [ModelDelta(kind=kind, text=text) for text in "abc"]
    assert shapes_of(pieces) == [(kind, 0), "TurnEnd", "RunResult"]


HOLDING = {
    "transformer": lambda agent: agent.bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: None),
    "assistant's": lambda agent: agent.on(
        MESSAGE_APPEND_BEFORE, lambda ctx: None, roles="assistant"
    ),
    "guard": lambda agent: agent.guard(MESSAGE_APPEND_BEFORE, lambda ctx: None),
    "predicate": lambda agent: agent.guard(
        MESSAGE_APPEND_BEFORE, lambda ctx: None, when=lambda ctx: False
    ),
}


@pytest.mark.parametrize("holding", [*HOLDING, "component"])
@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_a_handler_of_answers_holds_pieces(kind, holding):
    components = [Judging()] if holding == "component" else []
    agent, progress = agent_for(texts("a", "b", "c", kind=kind), components=components)
    HOLDING.get(holding, lambda agent: None)(agent)
    order = []
    agent.on(MESSAGE_APPEND_AFTER, lambda ctx: order.append(ctx.value.role))
    agent.on(MODEL_CALL_DELTA, lambda ctx: order.append(ctx.value.text))

    pieces = await streamed(agent)

    assert progress == [0, 0, 0]
    assert order == ["user", "assistant", "abc"]
    assert pieces[0] == ModelDelta(kind=kind, text="abc")
    assert shapes_of(pieces) == [(kind, 0), "TurnEnd", "RunResult"]


def splits(before="say ", after=" now"):
    """Give a text with the forbidden word, cut in two at every letter, and letter by letter."""
    whole = before + WORD + after
    yield from ((whole[:at], whole[at:]) for at in range(1, len(whole)))
    yield tuple(whole)


@asynccontextmanager
async def watched(tmp_path, caplog, handler, kind, said):
    """Stream *said* past *handler*; give the pieces, and all else that can be read of the run."""
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    observed, records = [], []
    path = tmp_path / "store.db"
    async with SqliteStore(path) as store:
        agent = Agent(Speaker(texts(*said, kind=kind)), store=store)
        handler(agent)
        agent.on(MODEL_CALL_DELTA, lambda ctx: observed.append(repr(ctx.value)))
        agent.on(MESSAGE_APPEND_AFTER, lambda ctx: observed.append(repr(ctx.value)))
        end = agent.bus.tap(lambda record: records.append(repr(record)))
        shown = agent.bus.tap(
            lambda record: (
                records.append(repr(record)) if record.event == MODEL_CALL_DELTA.name else None
            ),
            values=True,
        )
        pieces = await streamed(agent)
        end()
        shown()
        await agent.aclose()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for file in tmp_path.iterdir():
        file.unlink()
    yield agent, pieces, [*map(repr, pieces), *observed, *records, caplog.text, repr(stored)]


def changing(agent):
    @agent.on(MESSAGE_APPEND_BEFORE, roles="assistant")
    def change(ctx):
        parts = [replace(part, text=part.text.replace(WORD, "***")) for part in ctx.value.reasoning]
        content = ctx.value.content.replace(WORD, "***")
        return replace(ctx.value, content=content, reasoning=tuple(parts))


def refusing(agent):
    @agent.guard(MESSAGE_APPEND_BEFORE, roles="assistant")
    def refuse(ctx):
        said = ctx.value.content + ctx.value.reasoning_text
        return Deny("not that") if WORD in said else None


@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_changed_text_is_shown_changed(tmp_path, caplog, kind):
    count = 0
    for said in splits():
        async with watched(tmp_path, caplog, changing, kind, said) as (agent, pieces, traces):
            assert not [trace for trace in traces if WORD in trace]
            answer = agent.messages[-1]
            assert joined(pieces, kind) == "say *** now"
            assert joined(pieces, kind) in {answer.content, answer.reasoning_text}
            count += 1
    assert count == len(WORD) + 8


@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_refused_text_is_never_shown(tmp_path, caplog, kind):
    for said in splits():
        async with watched(tmp_path, caplog, refusing, kind, said) as (agent, pieces, traces):
            assert not [trace for trace in traces if WORD in trace]
            assert shapes_of(pieces) == ["RunResult"]
            assert (pieces[-1].status, pieces[-1].reason) == ("denied", "not that")
            assert [message.role for message in agent.messages] == ["user"]


@pytest.mark.parametrize("way", ["subscribed", "left again", "enabled"])
async def test_handlers_in_mid_answer_count_at_once(way):
    component, given, progress = Judging(enabled=False), [], []

    def interfere(said):
        progress.append(len(given))
        if said == 1 and way == "enabled":
            component.enabled = True
        elif said == 1:
            subscriptions.append(agent.guard(MESSAGE_APPEND_BEFORE, lambda ctx: None))
        elif said == 2 and way == "left again":
            subscriptions.pop().cancel()

    subscriptions = []
    agent = Agent(Speaker(texts("a", "b", "c", "d"), before=interfere), components=[component])
    agent.on(MODEL_CALL_DELTA, lambda ctx: given.append(ctx.value.text))
    pieces = await streamed(agent)

    assert progress == [0, 1, 1, 1]
    assert given == [piece.text for piece in pieces[:2]] == ["a", "bcd"]
    assert shapes_of(pieces) == [("text", 0), "TurnEnd", "RunResult"]


@pytest.mark.parametrize("kind", ["text", "reasoning", "tool_call"])
async def test_late_changes_of_shown_text_are_denied(kind):
    def interfere(said):
        if said == 1:
            agent.on(MESSAGE_APPEND_BEFORE, changed, roles="assistant")

    def changed(ctx):
        return AssistantMessage(id=ctx.value.id, content="other")

    answer = call(*ARGUMENTS) if kind == "tool_call" else texts("a", "b", kind=kind)
    agent = Agent(Speaker(answer, before=interfere), tools=[write])
    pieces = await streamed(agent)

    assert shapes_of(pieces) == [(kind, 0), ("void", 0), "RunResult"]
    assert pieces[-1].status == "denied"
    assert (
        pieces[-1].reason
        == "a handler subscribed in mid-answer changed text that was already shown"
    )
    assert [message.role for message in agent.messages] == ["user"]


SAYING = [
    ("reasoning", "A file.", "seal"),
    ("text", "I look: ä €."),
    ("call", "c1", "read", '{"path": "a"}'),
]


@pytest.mark.parametrize("judged", [False, True])
@EVERY_WIRE
async def test_every_wire_format_holds_alike(path, judged):
    asked = ToolCall(id="c1", name="read", arguments={"path": "a"})
    reasoning = (ReasoningPart(SAYING[0][1]),)
    asking = AssistantMessage(content=SAYING[1][1], reasoning=reasoning, tool_calls=(asked,))

    async def seen(model):
        agent = Agent(model, tools=[read])
        if judged:
            agent.guard(MESSAGE_APPEND_BEFORE, lambda ctx: None)
            agent.guard(TOOL_CALL_BEFORE, lambda ctx: None)
        pieces = await streamed(agent)
        said = [joined(pieces, kind) for kind in ("reasoning", "text")]
        named = {piece.name for piece in pieces if getattr(piece, "kind", "") == "tool_call"}
        return shapes_of(pieces), said, json.loads(joined(pieces, "tool_call")), named

    expected = await seen(ScriptedModel([asking, "Fine."]))
    async with (
        FakeProvider([SAYING, [("text", "Fine.")]], chunk=1) as server,
        model_for(path, server) as model,
    ):
        found = await seen(model)

    assert found == expected
    assert found[1:] == (["A file.", "I look: ä €.Fine."], {"path": "a"}, {"read"})


# --- handlers may judge increments ---------------------------------------------------------------


def cleaned(text):
    return text.replace(WORD, "***")


def clean_increments(agent, **options):
    """Change the forbidden word, also in mid-answer."""

    @agent.on(MESSAGE_APPEND_BEFORE, incremental=True, roles="assistant", **options)
    def clean(ctx):
        if (window := ctx.window) is not None:
            text = cleaned(window.text)
            window.release(max(window.released, text[: -len(WORD)], key=len))
            return None
        parts = [replace(part, text=cleaned(part.text)) for part in ctx.value.reasoning]
        return replace(ctx.value, content=cleaned(ctx.value.content), reasoning=tuple(parts))


def refuse_increments(agent, seen=None, keep=10):
    """Refuse the forbidden word, as soon as it was said."""

    @agent.guard(MESSAGE_APPEND_BEFORE, incremental=True, roles="assistant")
    async def refuse(ctx):
        window = ctx.window
        if seen is not None:
            seen.append(ctx.value.text if window is None else window.text)
        if WORD in ctx.value.content + ctx.value.reasoning_text:
            return Deny("not that")
        if window is not None:
            window.release(max(window.released, window.text[:-keep], key=len))
        return None


@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_released_increments_are_shown_at_once(kind):
    letters = "0123456789" * 3
    message, deltas = texts(*letters, kind=kind)
    if kind == "reasoning":
        parts = (ReasoningPart(letters[:15]), ReasoningPart(letters[15:]))
        message = replace(message, reasoning=parts)
    agent, progress = agent_for((message, deltas))
    seen = []
    clean_increments(agent)
    refuse_increments(agent, seen, keep=3)

    pieces = await streamed(agent)

    held = len(WORD) + 3
    assert progress == [max(0, count - held) for count in range(30)]
    assert seen[:-1] == [letters[: max(0, count - len(WORD))] for count in range(1, 31)]
    assert seen[-1] == agent.messages[1].text
    assert joined(pieces, kind).replace("\n", "") == letters
    assert shapes_of(pieces) == [(kind, 0), "TurnEnd", "RunResult"]


@pytest.mark.parametrize("handler", [clean_increments, refuse_increments])
@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_increments_never_show_forbidden_words(tmp_path, caplog, kind, handler):
    before = "word by word " * 2
    for said in splits(before):
        async with watched(tmp_path, caplog, handler, kind, said) as (agent, pieces, traces):
            assert not [trace for trace in traces if WORD in trace]
            if handler is clean_increments:
                assert joined(pieces, kind) == before + "*** now"
            else:
                assert pieces[-1].status == "denied"
                assert before.startswith(joined(pieces, kind))
                assert [message.role for message in agent.messages] == ["user"]


async def test_a_refused_increment_ends_the_stream():
    closed, said, failures = [], [], []

    class Endless:
        name = "endless"

        async def stream(self, request):
            try:
                for text in ["harmless words, ", WORD[:4], WORD[4:], *["more "] * 9]:
                    said.append(text)
                    yield ModelDelta(kind="text", text=text)
            finally:
                closed.append(True)

    agent = Agent(Endless())
    refuse_increments(agent)
    agent.on(MODEL_CALL_ERROR, lambda ctx: failures.append(ctx.value))
    pieces = await streamed(agent)

    assert (len(said), closed, failures) == (3, [True], [])
    assert "harmless words".startswith(joined(pieces))
    assert joined(pieces)
    assert (pieces[-1].status, pieces[-1].reason) == ("denied", "not that")
    assert [message.role for message in agent.messages] == ["user"]
    (record,) = [one for one in agent.ledger if one.outcome == "denied"]
    assert record.event == MESSAGE_APPEND_BEFORE.name


HELD = 4


def released_so_far(ctx):
    if ctx.window:
        ctx.window.release(ctx.window.text[: max(0, len(ctx.window.text) - HELD)])


async def test_released_text_is_recorded_once():
    class Breaking:
        name = "breaking"

        async def stream(self, request):
            for text in said[:-1]:
                yield ModelDelta(kind="text", text=text)
            raise ModelError("breaking", "it broke")

    def agent_with(model, *options):
        agent = Agent(model)
        for name in options:
            agent.on(
                MESSAGE_APPEND_BEFORE,
                released_so_far,
                name=name,
                roles="assistant",
                incremental=True,
            )
        return agent

    said = ["one ", "two ", "three ", "four"]
    whole = agent_with(ScriptedModel(["".join(said)] * 2), "a", "b")
    await streamed(whole)
    await whole.run("again")
    broken, refused = (
        agent_with(Breaking(), "a"),
        agent_with(ScriptedModel([f"many harmless words, {WORD} bad"])),
    )
    with pytest.raises(ModelError):
        await streamed(broken)
    refuse_increments(refused)
    await streamed(refused)
    bare = agent_with(ScriptedModel(["words"]))
    await streamed(bare)

    def noted(agent):
        records = [one for one in agent.ledger if one.event == MODEL_CALL_DELTA.name]
        return [[(entry.name, entry.reason) for entry in one.entries] for one in records]

    count = len("".join(said)) - HELD
    assert noted(whole) == [
        [("a", f"released {count} characters"), ("b", f"released {count - HELD} characters")]
    ]
    (record,) = [one for one in whole.ledger if one.event == MODEL_CALL_DELTA.name]
    assert (record.subject, record.reason) == (
        whole.messages[1].id,
        "shown before the answer was complete",
    )
    assert noted(broken) == [[("a", f"released {count - len(said[-1])} characters")]]
    assert len(noted(refused)) == 1
    assert noted(bare) == []


def raising(ctx):
    raise ValueError(ctx.window.text)


def answering(ctx):
    return ctx.value if ctx.window else None


def silent(ctx):
    return None


def taking_back(ctx):
    if ctx.window:
        ctx.window.release(ctx.window.text if len(ctx.window.text) < 3 else "")


def inventing(ctx):
    if ctx.window:
        ctx.window.release("a" if ctx.window.text == "a" else "ax")


def passing(ctx):
    if ctx.window:
        ctx.window.release(ctx.window.text)


@pytest.mark.parametrize("broken", [raising, answering, silent, taking_back, inventing, None])
async def test_invalid_releases_hold_the_text(broken, caplog):
    agent, progress = agent_for(texts("a", "b", "c", "d"))
    agent.on(MESSAGE_APPEND_BEFORE, passing, incremental=True, roles="assistant")
    if broken is None:
        agent.guard(MESSAGE_APPEND_BEFORE, silent, roles="assistant")
    else:
        subscribe = agent.guard if broken is inventing else agent.on
        subscribe(MESSAGE_APPEND_BEFORE, broken, incremental=True, roles="assistant")

    pieces = await streamed(agent)

    assert progress == {taking_back: [0, 1, 2, 2], inventing: [0, 1, 1, 1]}.get(broken, [0] * 4)
    assert joined(pieces) == "abcd"
    assert shapes_of(pieces) == [("text", 0), "TurnEnd", "RunResult"]
    assert "abc" not in "".join(record.message for record in caplog.records)


async def test_the_whole_answer_must_match_its_increments():
    agent, _ = agent_for(texts("a", "b", "c"))

    @agent.on(MESSAGE_APPEND_BEFORE, incremental=True, roles="assistant")
    def change(ctx):
        if ctx.window is None:
            return replace(ctx.value, content="other")
        return passing(ctx)

    pieces = await streamed(agent)

    assert joined(pieces) == "abc"
    assert pieces[-1].status == "denied"
    assert [message.role for message in agent.messages] == ["user"]


def test_only_answers_are_incremental():
    agent = Agent(ScriptedModel([]))

    with pytest.raises(RegistrationError, match="only answers grow, at MESSAGE_APPEND_BEFORE"):
        agent.guard(TOOL_CALL_BEFORE, silent, incremental=True)
    with pytest.raises(RegistrationError, match="runs more than once; leave out once=True"):
        agent.guard(MESSAGE_APPEND_BEFORE, silent, incremental=True, once=True)


# --- arguments are held while they may change ----------------------------------------------------


async def test_an_unjudged_call_is_streamed():
    agent, progress = agent_for(call(*ARGUMENTS), texts("done"), components=[Shortening()])
    unconcerned(agent)

    pieces = await streamed(agent)

    assert progress == [0, 1, 2, 3, 4]
    assert [piece.text for piece in pieces[:4]] == list(ARGUMENTS)
    assert [piece.text for piece in pieces if isinstance(piece, ToolMessage)] == ["short"]


class Moving(AgentComponent):
    """Has an adapter that gives each path another one."""

    def __init__(self):
        class Move(ToolAdapter):
            def adapt_parameters(self, call):
                return call.merge_arguments({"path": "b"})

        self.register_tool_adapter(Move())


def move_call(ctx):
    return ctx.value.merge_arguments({"path": "b"})


@pytest.mark.parametrize("way", ["handler", "adapter", "callback"])
async def test_judged_arguments_are_shown_as_executed(way):
    components = [Moving()] if way == "adapter" else []
    callback = {"before_tool_callback": lambda name, arguments: {"path": "b"}}
    options = callback if way == "callback" else {}
    agent, progress = agent_for(call(*ARGUMENTS), texts("done"), components=components, **options)
    if way == "handler":
        agent.on(TOOL_CALL_BEFORE, move_call, tools="write")

    pieces = await streamed(agent)

    assert progress[:4] == [0, 0, 0, 0]
    assert pieces[:2] == [
        ModelDelta(kind="tool_call", text=text, name="write", id="c1")
        for text in ("", '{"path":"b"}')
    ]
    assert pieces[2].text == "wrote b"


@pytest.mark.parametrize("verdict", [Deny("not there"), Ask("may it?")])
async def test_refused_arguments_are_never_shown(verdict):
    agent, _ = agent_for(call('{"path": "', WORD, '"}'), texts("done"))
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: verdict)

    pieces = await streamed(agent)

    deltas = [piece for piece in pieces if isinstance(piece, ModelDelta)]
    assert [(piece.kind, piece.text, piece.name) for piece in deltas] == [
        ("tool_call", "", "write"),
        ("text", "done", ""),
    ]
    (answered,) = [piece for piece in pieces if isinstance(piece, ToolMessage)]
    assert answered.tool_response.error_type == "denied"


# --- shown pieces are not taken back -------------------------------------------------------------


def released_at_once(ctx):
    if ctx.window:
        ctx.window.release(ctx.window.text)


def refused_when_whole(ctx):
    if ctx.window is None:
        return Deny("not that")
    return released_at_once(ctx)


@pytest.mark.parametrize("kind", ["text", "reasoning", "tool_call"])
@pytest.mark.parametrize("handler", ["none", "guard", "incremental"])
async def test_a_fallback_follows_void_pieces(kind, handler):
    answer = call(*ARGUMENTS) if kind == "tool_call" else texts("a", "b", kind=kind)
    agent, observed = Agent(Speaker(answer, error=ConnectionError("gone away"))), []
    agent.on(MODEL_CALL_ERROR, lambda ctx: AssistantMessage(content="another"))
    agent.on(MODEL_CALL_DELTA, lambda ctx: observed.append(ctx.value))
    if handler == "guard":
        agent.guard(MESSAGE_APPEND_BEFORE, lambda ctx: None)
    elif handler == "incremental":
        agent.on(MESSAGE_APPEND_BEFORE, released_at_once, incremental=True)

    pieces = await streamed(agent)

    is_shown = handler == "none" or (handler == "incremental" and kind != "tool_call")
    void = [(kind, 0), ("void", 0)] if is_shown else []
    assert shapes_of(pieces) == [*void, ("text", 0), "TurnEnd", "RunResult"]
    assert observed == pieces[:-2]
    assert pieces[-3].text == pieces[-1].text == agent.messages[-1].text == "another"


@pytest.mark.parametrize("way", ["refused", "failed"])
async def test_refused_and_failed_pieces_are_void(way):
    error = ConnectionError("gone away") if way == "failed" else None
    agent = Agent(Speaker(texts("a", "b"), error=error))
    if way == "refused":
        options = {"roles": "assistant", "incremental": True}
        agent.guard(MESSAGE_APPEND_BEFORE, refused_when_whole, **options)

    pieces = []
    with suppress(ConnectionError):
        async for piece in agent.stream("go"):
            pieces.append(piece)  # noqa: PERF401 - a comprehension would lose them to the error

    result = ["RunResult"] if way == "refused" else []
    assert shapes_of(pieces) == [("text", 0), ("void", 0), *result]
    assert [message.role for message in agent.messages] == ["user"]


async def cut_off(web, data, count):
    """Give *count* bytes of *data*, and if those are not all of them, the error of *web*."""
    yield data[:count]
    if count < len(data):
        raise web.ReadError("cut off")


def body_of(path, items):
    """Return the stream of *items* over the wire of *path*, in bytes."""
    named = path != CHAT
    data = b"".join([sent(event, named=named) for event in WIRES[path][1](items)])
    return data if named else data + b"data: [DONE]\n\n"


@pytest.mark.full
@EVERY_WIRE
async def test_a_cut_answer_leaves_valid_transcripts(path, monkeypatch):
    asking = [("text", "I look."), ("call", "c1", "read", '{"path": "a"}')]
    # Others say more about a call, and would be longer than all these cuts are worth.
    whole = body_of(path, asking if path == MESSAGES else asking[1:])
    last = body_of(path, [("text", "Fine.")])
    bodies = []

    def respond(request):
        headers = {"content-type": "text/event-stream"}
        body = cut_off(web, *bodies.pop(0))
        return web.Response(200, headers=headers, content=body)

    # Each SDK has a library of its own for HTTP.
    sdk, web = (anthropic, httpx2) if path == MESSAGES else (openai, httpx)
    transport = web.MockTransport(respond)
    monkeypatch.setattr(
        sdk, "DefaultAsyncHttpxClient", lambda **_: web.AsyncClient(transport=transport)
    )
    kinds = set()
    server = type("Server", (), {"url": "http://127.0.0.1:1"})
    async with model_for(path, server) as model:
        for count in range(len(whole) + 1):
            bodies[:] = [(whole, count), (last, len(last))]
            agent, pieces = Agent(model, tools=[read]), []
            try:
                async for piece in agent.stream("go"):
                    pieces.append(piece)  # noqa: PERF401 - as above
            except ModelError:
                kinds.add("cut")
                assert [message.role for message in agent.messages] == ["user"]
                assert "I look.".startswith(joined(pieces))
                assert '{"path": "a"}'.startswith(joined(pieces, "tool_call"))
            else:
                kinds.add("whole")
                assert [message.role for message in agent.messages][1:] == [
                    "assistant",
                    "tool",
                    "assistant",
                ]
            assert is_answered(agent.messages)

    assert kinds == {"cut", "whole"}
    assert 500 < len(whole) <= 3_100


async def test_many_sessions_keep_their_order():
    class Counting:
        name = "counting"

        async def stream(self, request):
            number, said = request.messages[-1].text, []
            for count in range(40):
                await asyncio.sleep(0)
                said.append(f"{number}.{count} ")
                yield ModelDelta(kind="text", text=said[-1])
            yield AssistantMessage(content="".join(said))

    model = Counting()

    async def run(number):
        agent = Agent(model)
        if number % 2:
            agent.guard(MESSAGE_APPEND_BEFORE, lambda ctx: None)
        return await streamed(agent, str(number))

    runs = await asyncio.gather(*map(run, range(200)))

    for number, (*pieces, end, result) in enumerate(runs):
        assert len(pieces) == (1 if number % 2 else 40)
        expected = "".join([f"{number}.{count} " for count in range(40)])
        assert joined(pieces) == end.message.text == result.text == expected


# --- holding nothing costs little ----------------------------------------------------------------


async def calls_of(count):
    """Return how many functions of Python are called to stream *count* pieces."""
    agent = Agent(Speaker(texts(*["word "] * count)), components=[Shortening()])
    unconcerned(agent)
    called = 0

    def profile(frame, event, _):
        nonlocal called
        called += event == "call" and "toolbus" in frame.f_code.co_filename

    sys.setprofile(profile)
    try:
        await streamed(agent)
    finally:
        sys.setprofile(None)
    return called


async def test_a_piece_is_examined_once():
    _, few, some, many = [await calls_of(count) for count in (10, 100, 200, 1_000)]

    # Some more come now and then, from the garbage collector.
    assert abs((many - some) / 800 - (some - few) / 100) <= 1
    assert (many - some) / 800 <= 20
