"""What a message passes before it may enter a session."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from toolbus.bus.bus import EventBus
from toolbus.components.adapters import ToolAdapter
from toolbus.components.components import AgentComponent
from toolbus.errors import MessageDenied
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, Deny, Scope, ToolSpec
from toolbus.messages.records import TextPart, ToolCall, ToolMessage, ToolResponse, UserMessage
from toolbus.tools.toolset import Toolset
from toolbus.transcript.admission import admit, parameters_of, refused, without_stale_content

SCOPE = Scope(agent_id="main")
SPEC = ToolSpec(name="count", output_schema={"type": "object", "required": ["n"]})
FIT, UNFIT = ToolResponse(structured={"n": 1}), ToolResponse(structured={"m": 1})
BROKEN = "handler 'break' made the result invalid: missing required property `n` - at `$`"


def message_of(response: ToolResponse | None = None, **fields) -> ToolMessage:
    known = {"id": "m", "tool_call_id": "c", "tool_name": "count", "tool_response": response}
    return ToolMessage(**{**known, **fields})


class Says(ToolAdapter):
    """Gives *response* in place of any, and promises *schema*."""

    def __init__(self, name: str, response: ToolResponse | None, schema: Any = None) -> None:
        self.name, self.response, self.schema = name, response, schema

    def adapt_signature(self, spec: ToolSpec) -> ToolSpec | None:
        return replace(spec, output_schema=self.schema) if self.schema else None

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse | None:
        return self.response


def bus_with(*adapters: ToolAdapter) -> EventBus:
    component, bus = AgentComponent(), EventBus()
    for adapter in adapters:
        component.register_tool_adapter(adapter)
    component.setup(SimpleNamespace(bus=bus, tools=Toolset(), scope=SCOPE))
    return bus


async def admitted(before, after, spec=SPEC):
    """Return the response that enters if a handler makes *after* of *before*."""
    bus = EventBus()
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: ctx.value.with_tool_response(after), name="break")
    return (await admit(bus, message_of(before), SCOPE, spec)).tool_response


@pytest.mark.parametrize(
    "before",
    [FIT, None, ToolResponse.from_text("one"), replace(UNFIT, is_error=True)],
    ids=["fits", "no response", "text", "error"],
)
async def test_who_breaks_a_result_is_named(before):
    response = await admitted(before, UNFIT)

    assert response == ToolResponse(
        content=(TextPart(text=BROKEN),),
        is_error=True,
        error_type="invalid_result",
        tool_name="count",
        tool_call_id="c",
    )


@pytest.mark.parametrize(
    ("before", "after", "spec"),
    [
        (FIT, replace(FIT, structured={"n": 2}), SPEC),
        (FIT, ToolResponse.from_text("one"), SPEC),
        (FIT, replace(UNFIT, is_error=True), SPEC),
        (UNFIT, replace(UNFIT, metadata={"a": 1}), SPEC),
        (FIT, UNFIT, replace(SPEC, output_schema=None)),
        (FIT, UNFIT, None),
    ],
    ids=["fits", "text", "error", "never fitted", "no schema", "no spec"],
)
async def test_what_breaks_nothing_enters(before, after, spec):
    assert await admitted(before, after, spec) == after


async def test_a_component_mends_before_it_breaks():
    bus = bus_with(Says("mend", FIT), Says("break", UNFIT))

    message = await admit(bus, message_of(UNFIT), SCOPE, SPEC)

    assert message.text == BROKEN


async def test_an_unchanged_result_breaks_no_promise():
    bus = bus_with(Says("promise", None, {"required": ["total"]}))

    message = await admit(bus, message_of(FIT), SCOPE, SPEC)

    assert message.tool_response is FIT


async def test_a_promise_is_kept_or_broken():
    bus = bus_with(Says("break", UNFIT, {"required": ["total"]}))

    message = await admit(bus, message_of(FIT), SCOPE, SPEC)

    assert message.text == BROKEN.replace("`n`", "`total`")


async def test_a_result_may_keep_to_the_tool_s_own_schema():
    kept = replace(FIT, structured={"n": 2})
    bus = bus_with(Says("promise", kept, {"required": ["total"]}))

    message = await admit(bus, message_of(FIT), SCOPE, SPEC)

    assert message.tool_response == kept


async def test_a_promise_is_judged_by_what_held_before():
    bus = bus_with(
        Says("first", ToolResponse(structured={"total": 1}), {"required": ["total"]}),
        Says("break", UNFIT, {"required": ["sum"]}),
    )

    message = await admit(bus, message_of(FIT), SCOPE, SPEC)

    assert message.text == BROKEN.replace("`n`", "`sum`")


async def test_what_fitted_the_tool_s_own_schema_can_be_broken():
    bus = bus_with(Says("promise", None, {"required": ["total"]}), Says("break", UNFIT))

    message = await admit(bus, message_of(FIT), SCOPE, SPEC)

    assert message.text == BROKEN.replace("`n`", "`total`")


async def test_a_denied_message_keeps_the_facts_of_the_call():
    bus, said = EventBus(), replace(FIT, parameters={"a": 1}, duration_ns=7, metadata={"b": 2})
    bus.guard(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no"))

    message = await admit(bus, message_of(said, content="stale", metadata={"c": 3}), SCOPE)

    assert message == message_of(
        ToolResponse(
            content=(TextPart(text="no"),),
            is_error=True,
            error_type="denied",
            tool_name="count",
            tool_call_id="c",
            parameters={"a": 1},
            duration_ns=7,
        )
    )


async def test_a_denied_message_shows_the_parameters_as_they_were_left():
    bus, said = EventBus(), replace(FIT, parameters={"token": "secret"})
    bus.on(
        MESSAGE_APPEND_BEFORE,
        lambda ctx: ctx.value.with_tool_response(replace(said, parameters={"token": "***"})),
    )
    bus.guard(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no"))

    message = await admit(bus, message_of(said), SCOPE)

    assert message.tool_response.parameters == {"token": "***"}


async def test_a_broken_result_keeps_no_parameters():
    said = replace(FIT, parameters={"token": "secret"})

    assert (await admitted(said, UNFIT)).parameters is None


async def test_a_refusal_without_a_response_knows_the_call():
    message = refused(message_of(content="secret"), "no", "denied")

    assert message.content == ""
    assert (message.tool_response.tool_name, message.tool_response.tool_call_id) == ("count", "c")
    assert (message.tool_response.parameters, message.tool_response.duration_ns) == (None, None)


async def test_another_role_raises():
    bus = EventBus()
    bus.guard(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no"))

    with pytest.raises(MessageDenied, match="user message 'u' was denied: no"):
        await admit(bus, UserMessage(id="u", content="hi"), SCOPE)


async def test_the_text_stands_in_one_place():
    bus = EventBus()
    seen = []
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: seen.append(ctx.value.content))
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: replace(ctx.value, content="again"))

    message = await admit(bus, message_of(FIT, content="stale"), SCOPE)

    assert seen == [""]
    assert message == message_of(FIT)


def test_only_stale_content_is_cleared():
    kept = [message_of(FIT), message_of(content="text"), UserMessage(id="u", content="hi")]

    assert [without_stale_content(one) is one for one in kept] == [True, True, True]
    assert without_stale_content(message_of(FIT, content="stale")) == message_of(FIT)


def test_parameters_are_those_of_a_response():
    said = replace(FIT, parameters={"a": 1})
    messages = [message_of(said), message_of(FIT), message_of(), UserMessage(id="u", content="")]

    assert [parameters_of(one) for one in messages] == [{"a": 1}, None, None, None]
