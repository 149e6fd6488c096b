"""The conformance kit of agent-hooks plays our agent as a host: `python agent_hooks_kit.py`.

It runs in an environment with `agent-hooks-sdk[ctk]`, and prints one JSON line a vector. The kit's
runner drives an `Agent` with an `AgentHooksComponent`; its interceptors and checks are the kit's.
"""

import asyncio
import json
import sys
from contextlib import aclosing
from functools import partial

from agent_hooks.ctk import harness as kit
from agent_hooks.ctk.runner import load_vectors, run_vector
from agent_hooks.ctk.scripted import redact_paths

from toolbus import Agent, AssistantMessage, Tool, ToolCall, ToolResponse
from toolbus.bridges.agent_hooks import AgentHooksComponent, IdentityProvider
from toolbus.errors import FreezeError, MessageDenied, ModelError
from toolbus.events import ModelDelta, ToolSpec
from toolbus.messages import encode
from toolbus.models import ScriptedModel
from toolbus.store import MemoryStore

CAPABILITIES = {
    "model_calls",
    "tool_calls",
    "parallel_tool_calls",
    "streaming",
    "multi_turn",
    "int64_json",
    "bigint_json",
    "incremental_output",
    "host_declaration",
}
"""What our agent says as a host, 3.2; `incremental_output` by an option."""
BOUND = "a piece is released once the next one has come, and its text was judged"


class KitTool(Tool):
    """A tool of a vector, for any arguments, which keeps its invocations."""

    is_async = True

    def __init__(self, tool, invocations):
        self.spec = ToolSpec(name=tool.name)
        self._tool, self._invocations = tool, invocations

    def fit(self, arguments):
        return {"arguments": arguments}, None

    def bind(self, values, context):
        return partial(self.run, **values)

    async def run(self, arguments):
        plain = json.loads(encode(arguments))
        value, is_error = self._tool.invoke(plain)
        self._invocations.append({"name": self._tool.name, "args": plain})
        text = value if isinstance(value, str) else json.dumps(value)
        structured = None if isinstance(value, str) else value
        return ToolResponse(text, structured=structured, is_error=is_error)


class KitModel(ScriptedModel):
    """The model of a vector, which streams the pieces that the vector gives."""

    name = "mock"

    def __init__(self, turns):
        super().__init__([])
        self._turns = list(turns)

    async def complete(self, request):
        return message_of(self._turns.pop(0))

    async def stream(self, request):
        turn = self._turns.pop(0)
        for piece in turn.get("stream", ()):
            yield ModelDelta(kind="text", text=piece)
        if turn.get("stream_truncated"):
            raise ModelError(self.name, "the stream ended early")
        yield message_of(turn)


def message_of(turn):
    """Return the answer of a model in *turn* of a vector."""
    calls = tuple([call_of(call) for call in turn["tool_calls"]])
    return AssistantMessage(
        content=turn["content"] or "", tool_calls=calls, stop_reason=turn["finish_reason"]
    )


def call_of(wire):
    """Return the call in *wire*, as a provider's reader makes it."""
    try:
        return ToolCall(id=wire["id"], name=wire["name"], arguments=wire["args"])
    except FreezeError:
        return ToolCall(id=wire["id"], name=wire["name"], raw=json.dumps(wire["args"]))


def fault(_):
    raise RuntimeError("the provider of the vector fails")


class ToolbusHarness:
    """Our agent as a host of the kit, for the vector that is *played*."""

    name = "toolbus"
    tool_seam_host_error = "continue"

    def __init__(self, played):
        self._vector = played
        # Its answers are held until they were judged, unless it is told to judge pieces.
        names = CAPABILITIES if self.is_streamed else CAPABILITIES - {"incremental_output"}
        self.capabilities = {kit.Capability(name) for name in names}
        self.released, self.persisted = "", []

    def host_surface(self):
        surface = kit.HostSurface.from_capabilities(
            sorted(each.value for each in self.capabilities), self.tool_seam_host_error
        )
        return surface.with_exposure_bound(BOUND) if self.is_streamed else surface

    @property
    def is_streamed(self):
        return "incremental_output" in self._vector.get("capabilities", ())

    def setup(  # noqa: PLR0917 - the kit's signature
        self, scenario, interceptors, resolver, mode, composition, identity_provider, redact=None
    ):
        identity = identity_provider
        if identity not in {None, "jcs-sha256"}:
            identity = IdentityProvider(identity, fault)
        self._start(
            scenario,
            AgentHooksComponent(
                interceptors,
                composition=composition,
                mode=mode.value,
                resolver=resolver,
                redactor=(lambda context: redact_paths(context, redact)) if redact else None,
                identity=identity,
                incremental=self.is_streamed,
            ),
        )

    def setup_declared(self, scenario, document, registry):
        self._start(scenario, AgentHooksComponent.from_declaration(document, registry))

    def _start(self, scenario, hooks):
        self._invocations, self._hooks, self._store = [], hooks, MemoryStore()
        self._prompt = scenario.input["content"]
        tools = [KitTool(tool, self._invocations) for tool in scenario.tools.values()]
        turns = [turn["respond"] for turn in self._vector["scenario"].get("model_script", ())]
        self._agent = Agent(
            KitModel(turns), tools=tools, components=[hooks], store=self._store, session_id="s"
        )

    async def run(self):
        outcome, final = kit.RunOutcome.COMPLETED, None
        async with self._agent:
            try:
                result = await (self._stream() if self.is_streamed else self._complete())
            except ModelError as error:
                outcome = self._outcome_of_failure(error)
            except MessageDenied:
                outcome = kit.RunOutcome.BLOCKED
            else:
                blocked = result.status == "denied"
                outcome = kit.RunOutcome.BLOCKED if blocked else outcome
                final = None if blocked else result.text
        self.persisted = [encode(each).decode() for each in await self._store.read("s")]
        records = list(self._hooks.records)
        return kit.RunRecord(
            outcome=outcome,
            final_output=final,
            tool_invocations=self._invocations,
            identities=[(each["input_identity"], each["enforced_identity"]) for each in records],
            records=records,
        )

    def _outcome_of_failure(self, error):
        """Return "blocked" for a run that the host itself denied."""
        if self._hooks.records[-1]["verdict"]["decision"] == "deny":
            return kit.RunOutcome.BLOCKED
        raise error

    async def _complete(self):
        return await self._agent.run(self._prompt)

    async def _stream(self):
        async with aclosing(self._agent.stream(self._prompt)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelDelta) and piece.kind == "text":
                    self.released += piece.text
        return piece

    def teardown(self):
        self._agent = None


async def play(vector):
    """Return the result of *vector*, with checks that the kit's runner leaves out."""
    harness = ToolbusHarness(vector)
    result = await run_vector(harness, vector)
    failures, expect = list(result.failures), vector["expect"]
    if "released_output" in expect and harness.released != expect["released_output"]:
        failures.append(f"released {harness.released!r}, not {expect['released_output']!r}")
    stored, forbidden = "\n".join(harness.persisted), expect.get("persisted_must_not_contain", ())
    failures += [f"{text!r} was persisted" for text in forbidden if text in stored]
    status = "fail" if failures else result.status
    return {"id": vector["id"], "status": status, "detail": result.detail, "failures": failures}


def main(*ids):
    for vector in load_vectors():
        if not ids or vector["id"] in ids:
            print(json.dumps(asyncio.run(play(vector))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
