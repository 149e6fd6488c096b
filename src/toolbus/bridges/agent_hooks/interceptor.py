"""The interceptor: our components in every host of agent-hooks.

    guard = AgentHooksInterceptor([RedactSecrets(), Policy.read("policy.toml")], store=store)
    agent = Agent(client, tools=tools, middleware=[create_agent_hooks_middleware([guard])])

This is Microsoft's agent-framework; other hosts take the same object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.bridges.agent_hooks.contract import ContractError, Transform, transformed
from toolbus.bridges.agent_hooks.hosted_session import HostedSession
from toolbus.bridges.agent_hooks.wire_records import (
    results_in,
    text_place,
    wire_value,
    with_results,
)
from toolbus.bridges.host import FrameworkBridge
from toolbus.bridges.session import PromptDenied
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Ask, Deny, ToolSpec
from toolbus.messages.codec import changed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from toolbus.bridges.agent_hooks.contract import Context
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent

_MAX_SESSIONS = 1_000
DENIED = "toolbus:denied"
"""The machine's reason of each denial; its message is the handler's reason."""
ALLOW = {"decision": "allow"}


class AgentHooksInterceptor(FrameworkBridge):
    """An interceptor with *components*, for each host of agent-hooks.

    Register it last: a later interceptor could rewrite a call after the guards have judged it.

    Args:
        components: components and adapters, installed in this order.
        tools: the specs of the host's tools, by which the model's arguments are validated; hosts
            that declare tools without schemas validate arguments themselves, later.
        host_asks: the host's resolver decides the questions of guards, as liftable denials; else
            the approver does, within the host's timeout for interceptors.
        options: those of `BridgeHost`, but for `timeout` and `idempotent`: the host runs the tools.

    Raises `RegistrationError` for a component that cannot work by this contract.
    """

    def __init__(
        self,
        components: Iterable[AgentComponent | ToolAdapter] = (),
        *,
        tools: Iterable[ToolSpec] = (),
        host_asks: bool = False,
        **options: Any,
    ) -> None:
        for option in sorted({"timeout", "idempotent"} & options.keys()):
            raise RegistrationError(f"option {option!r}", "no verdict stops or repeats a tool")
        super().__init__("agent_hooks", components, **options)
        self._specs, self._host_asks = {spec.name: spec for spec in tools}, host_asks
        self._sessions: dict[str, HostedSession] = {}

    async def intercept(self, context: Context, /) -> dict[str, Any]:
        """Return the verdict of the components on *context*; raises for an unknown point."""
        point = context["interception_point"]
        if point not in self._points:
            raise ContractError("context_invalid", f"unknown point {point!r}")
        return await self._points[point](self, self._session_of(context), context)

    async def aclose(self) -> None:
        """End all open calls, write the last records, and close the components."""
        for session in tuple(self._sessions.values()):
            await session.close("cancelled")
        self._sessions.clear()
        await super().aclose()

    def _session_of(self, context: Context) -> HostedSession:
        key = context["session"]["id"]
        if key not in self._sessions:
            self._sessions[key] = HostedSession(
                self.host.session(key),
                context["agent"]["framework"],
                self._specs,
                host_asks=self._host_asks,
            )
            self._forget_idle()
        return self._sessions[key]

    def _forget_idle(self) -> None:
        """Forget the oldest idle sessions but the newest: some hosts never end theirs."""
        idle = [key for key, session in self._sessions.items() if session.is_idle]
        for key in idle[:-1][: max(0, len(self._sessions) - _MAX_SESSIONS)]:
            del self._sessions[key]

    # --- the points ------------------------------------------------------------------------------

    async def _on_agent_startup(self, _: HostedSession, __: Context) -> dict[str, Any]:
        await self.host.ready()
        return ALLOW

    async def _on_input(self, session: HostedSession, context: Context) -> dict[str, Any]:
        path, prompt = text_place(context["input"]["content"], "user")
        try:
            entered = await session.begin(prompt)
        except PromptDenied as error:
            return denial(error.reason)
        if entered != prompt and not path:
            return denial("a handler changed a prompt without text")
        return replacement(path, prompt, entered)

    async def _on_pre_model_call(self, session: HostedSession, context: Context) -> dict[str, Any]:
        messages = context["messages"]
        await session.settle(results_in(messages))
        await session.provide([spec_of(tool) for tool in context.get("tools") or ()])
        shown = with_results(messages, session.results)
        request = await session.request(context["model"]["id"], shown)
        if isinstance(request, Deny):
            return denial(request.reason)
        return replacement("$target", messages, request)

    async def _on_post_model_call(self, session: HostedSession, context: Context) -> dict[str, Any]:
        session.announce(context["response"]["tool_calls"])
        path, text = text_place(context["response"]["content"], "assistant")
        if not path or not text:
            return ALLOW  # An answer in another form is judged at `output`.
        return replacement(path, text, await session.answer(text))

    async def _on_pre_tool_call(self, session: HostedSession, context: Context) -> dict[str, Any]:
        call = context["tool_call"]
        judged = await session.judge(call)
        if isinstance(judged, Ask):
            return {**denial(judged.prompt), "approval": {}}
        if isinstance(judged, Deny):
            return denial(judged.reason)
        return replacement("$target", call["args"], judged)

    async def _on_post_tool_call(self, session: HostedSession, context: Context) -> dict[str, Any]:
        result = context["tool_result"]
        end = await session.end_call(context["tool_call"], result)
        if isinstance(end, Deny):
            return denial(end.reason)
        if end is None or not end.is_changed:
            return ALLOW
        response, value = end.response, result["value"]
        if response.is_error and not result["is_error"]:
            return denial(response.text)
        read = response.text if isinstance(value, str) else wire_value(response)
        return replacement("$target", value, read)

    async def _on_output(self, session: HostedSession, context: Context) -> dict[str, Any]:
        content = context["output"]["content"]
        await session.settle(results_in(content))
        path, answer = text_place(content, "assistant")
        finished = await session.finish(answer)
        if finished != answer and not path:
            return denial("a handler changed an answer without text")
        if finished != answer:
            context = transformed(context, Transform(path, finished))
        shown = with_results(context["output"]["content"], session.results)
        return replacement("$target.content", content, shown)

    async def _on_agent_shutdown(self, session: HostedSession, context: Context) -> dict[str, Any]:
        self._sessions.pop(context["session"]["id"], None)
        await session.close(context["summary"]["reason"])
        return ALLOW

    _points: ClassVar[Mapping[str, Callable[..., Awaitable[dict[str, Any]]]]] = {
        "agent_startup": _on_agent_startup,
        "input": _on_input,
        "pre_model_call": _on_pre_model_call,
        "post_model_call": _on_post_model_call,
        "pre_tool_call": _on_pre_tool_call,
        "post_tool_call": _on_post_tool_call,
        "output": _on_output,
        "agent_shutdown": _on_agent_shutdown,
    }


def denial(reason: str) -> dict[str, Any]:
    """Return the verdict that denies for *reason*, which is for the model."""
    return {"decision": "deny", "reason": DENIED, "message": reason}


def replacement(path: str, before: Any, after: Any) -> dict[str, Any]:
    """Return the verdict that puts *after* in place of *before* at *path*."""
    if not changed(before, after):
        return ALLOW
    return {"decision": "transform", "transform": {"path": path, "value": after}}


def spec_of(tool: dict[str, Any]) -> ToolSpec:
    """Return the spec of *tool*, as a host declares it; hosts may leave out its schema."""
    schema = tool.get("schema")
    return ToolSpec(
        name=tool["name"],
        description=tool.get("description") or "",
        input_schema=schema if isinstance(schema, dict) else {"type": "object"},
    )
