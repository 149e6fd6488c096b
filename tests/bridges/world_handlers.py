"""The handlers of a scenario: as components of toolbus, and as functions for a framework's hooks.

A handler is data with one leading word, such as `{"deny": "echo"}`; the words are the keys of
`COMPONENTS`. Both forms do the same, so that their cells can be compared.
"""

import asyncio
import json
from typing import Any, NamedTuple

from scenarios import HIDDEN, REASON, SECRET

from toolbus import AgentComponent, Ask, Deny, ToolAdapter, ToolResponse, guard, on
from toolbus.events import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    RUN_AFTER,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
    Retry,
)


def redacted(value: Any) -> Any:
    """Return *value*, any JSON value, without the secret."""
    return json.loads(json.dumps(value).replace(SECRET, HIDDEN))


class PromptRefusedError(Exception):
    """A prompt that a hook of a framework refuses."""


# --- components of toolbus ------------------------------------------------------------------------


class Data(AgentComponent):
    """A component with its handler as data."""

    def __init__(self, handler, *, enabled=True):
        super().__init__(enabled=enabled)
        self.handler = handler

    def chooses(self, name, arguments=None):
        """Tell whether the handler is for the tool *name*, and for *arguments* if it says so."""
        tool, when = next(iter(self.handler.values())), self.handler.get("when")
        is_when = when is None or arguments is None or when.items() <= dict(arguments).items()
        return tool in {"*", name} and is_when


class DenyTool(Data):
    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny(REASON) if self.chooses(ctx.value.name, ctx.value.arguments) else None


class RewriteTool(Data):
    @on(TOOL_CALL_BEFORE)
    def rewrite(self, ctx):
        if self.chooses(ctx.value.name):
            return ctx.value.merge_arguments(changes_of(self.handler, ctx.value.arguments))
        return None


class RedactSecret(Data):
    @on(MESSAGE_APPEND_BEFORE, roles="tool", on_error="closed")
    def redact(self, ctx):
        return ctx.value.map_text(lambda text: text.replace(SECRET, HIDDEN))


class RedactPrompt(Data):
    @on(MESSAGE_APPEND_BEFORE, roles="user", on_error="closed")
    def redact(self, ctx):
        return ctx.value.map_text(lambda text: text.replace(SECRET, HIDDEN))


class RedactAnswer(Data):
    @on(MESSAGE_APPEND_BEFORE, roles="assistant", on_error="closed")
    def redact(self, ctx):
        return ctx.value.map_text(lambda text: text.replace(SECRET, HIDDEN))


class TruncateResult(Data):
    @on(MESSAGE_APPEND_BEFORE, roles="tool", on_error="closed")
    def truncate(self, ctx):
        return ctx.value.map_text(lambda text: text[: self.handler["truncate"]])


class AnswerTool(Data):
    @on(TOOL_CALL_BEFORE)
    def answer(self, ctx):
        if self.chooses(ctx.value.name):
            return ToolResponse.from_text(self.handler["text"])
        return None


class CrashingGuard(Data):
    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx):
        if self.chooses(ctx.value.name):
            raise RuntimeError("the guard has a bug")


class HangingGuard(Data):
    @guard(TOOL_CALL_BEFORE, timeout=0.05)
    async def judge(self, ctx):
        if self.chooses(ctx.value.name):
            await asyncio.sleep(30)


class AskFirst(Data):
    @guard(TOOL_CALL_BEFORE)
    def ask(self, ctx):
        return Ask("May it run?") if self.chooses(ctx.value.name) else None


class RetryTool(Data):
    @on(TOOL_CALL_ERROR)
    def retry(self, ctx):
        return Retry() if self.chooses(ctx.value.call.name) else None


class ReplaceFailure(Data):
    @on(TOOL_CALL_ERROR)
    def replace(self, ctx):
        if self.chooses(ctx.value.call.name):
            return ToolResponse.from_text(self.handler["text"])
        return None


class DenyPrompt(Data):
    @guard(RUN_BEFORE)
    def judge(self, ctx):
        return Deny(REASON) if self.handler["deny_prompt"] in str(ctx.value.prompt) else None


class DenyResult(Data):
    @guard(MESSAGE_APPEND_BEFORE, roles="tool")
    def judge(self, ctx):
        return Deny(REASON) if self.chooses(ctx.value.tool_name) else None


class CrashingRedaction(Data):
    @on(MESSAGE_APPEND_BEFORE, roles="tool", on_error="closed")
    def redact(self, ctx):
        if self.chooses(ctx.value.tool_name):
            raise RuntimeError("the redaction has a bug")


class CrashingPromptGuard(Data):
    @guard(RUN_BEFORE)
    def judge(self, ctx):
        if self.handler["crash_prompt"] in str(ctx.value.prompt):
            raise RuntimeError("the guard has a bug")


class HideTool(Data):
    @on(TOOLS_PROVIDE)
    def hide(self, ctx):
        return tuple(spec for spec in ctx.value if not self.chooses(spec.name))


class RewordTool(ToolAdapter):
    """An adapter that gives a tool another description."""

    def __init__(self, handler):
        self.tools, self.text = handler["reword"], handler["text"]

    def adapt_signature(self, spec):
        return spec.with_description(self.text)


class FillArgument(ToolAdapter):
    """An adapter that takes arguments from the model and gives them itself."""

    def __init__(self, handler):
        self.tools, self.arguments = handler["fill"], handler["set"]

    def adapt_signature(self, spec):
        return spec.without_parameters(*self.arguments)

    def adapt_parameters(self, call):
        return call.merge_arguments(self.arguments)


COMPONENTS = {
    "deny": DenyTool,
    "rewrite": RewriteTool,
    "redact": RedactSecret,
    "redact_prompt": RedactPrompt,
    "redact_answer": RedactAnswer,
    "truncate": TruncateResult,
    "answer": AnswerTool,
    "crash": CrashingGuard,
    "hang": HangingGuard,
    "ask": AskFirst,
    "retry": RetryTool,
    "replace_failure": ReplaceFailure,
    "deny_prompt": DenyPrompt,
    "deny_result": DenyResult,
    "crash_result": CrashingRedaction,
    "crash_prompt": CrashingPromptGuard,
    "hide": HideTool,
    "reword": RewordTool,
    "fill": FillArgument,
}


def changes_of(handler, arguments):
    """Return the arguments that the rewriting *handler* gives in place of those in *arguments*."""
    added = {name: f"{arguments[name]}{text}" for name, text in handler.get("append", {}).items()}
    return {**handler.get("set", {}), **added}


def components(handlers):
    """Return *handlers* as components and adapters; that of `{"disabled": …}` is switched off."""
    made = []
    for handler in handlers:
        inner = handler.get("disabled", handler)
        component = COMPONENTS[next(iter(inner))](inner)
        if inner is not handler:
            component.enabled = False
        made.append(component)
    return made


class Watch(AgentComponent):
    """The observers that fill *seen*, an observation."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    @on(TOOL_CALL_AFTER)
    def count(self, ctx):
        call_id = ctx.value.requested.id
        self.seen["ends"][call_id] = self.seen["ends"].get(call_id, 0) + 1
        self.seen["statuses"][call_id] = ctx.value.status
        self.seen["sessions"][call_id] = ctx.scope.session_id
        self.seen["agents"][call_id] = ctx.scope.agent_id

    @on(TOOL_CALL_AFTER)
    async def watch_end(self, ctx):
        await asyncio.sleep(0)
        self.seen["watched"].append(f"end {ctx.value.requested.id} {ctx.value.status}")

    @on(MESSAGE_APPEND_AFTER)
    async def watch_message(self, ctx):
        await asyncio.sleep(0)
        self.seen["watched"].append(f"{ctx.value.role} {ctx.value.text}")

    @on(MODEL_CALL_BEFORE)
    def watch_request(self, ctx):
        self.seen["watched"].append("request")

    @on(RUN_AFTER)
    def watch_run(self, ctx):
        self.seen["runs"].append(ctx.value.status)


# --- plain functions for a framework's own hooks --------------------------------------------------


class Before(NamedTuple):
    """The decision before a call: the *arguments* to run it with, or a *reply* in its place."""

    arguments: dict
    reply: str | None = None
    is_denied: bool = False


class Hooks:
    """The handlers as functions that an author of hooks for a framework would write.

    A driver catches no crash of these functions: a scenario asks what the framework does then.
    *seen* is the observation; each call that has ended is counted there, if its hooks know its id.
    *approve* asks the person about a call of a tool.
    """

    def __init__(self, handlers, seen, approve):
        active = [handler for handler in handlers if "disabled" not in handler]
        self._handlers, self._seen, self._approve = active, seen, approve

    def _of(self, word, name=None, arguments=None):
        for handler in self._handlers:
            if word in handler and (name is None or handler[word] in {"*", name}):
                when = handler.get("when")
                if when is None or when.items() <= (arguments or {}).items():
                    yield handler

    def before(self, name, arguments, call_id="") -> Before:
        """Return the decision about a call; raises if the handler crashes."""
        arguments = dict(arguments)
        for handler in self._of("rewrite", name):
            arguments |= changes_of(handler, arguments)
        for handler in self._of("fill", name):
            arguments |= handler["set"]
        for _ in self._of("crash", name):
            raise RuntimeError("the guard has a bug")
        if any(True for _ in self._of("deny", name, arguments)):
            return self._reply(arguments, REASON, call_id, is_denied=True)
        for _ in self._of("ask", name):
            if not self._approve(name):
                return self._reply(arguments, REASON, call_id, is_denied=True)
        for handler in self._of("answer", name):
            return self._reply(arguments, handler["text"], call_id)
        return Before(arguments)

    async def before_async(self, name, arguments, call_id="") -> Before:
        """Return the decision about a call, as `before` does; only this form has a hanging guard.

        A bus denies when a guard hangs; here the author set the limit.
        """
        for _ in self._of("hang", name):
            await asyncio.wait_for(asyncio.sleep(30), 0.05)
        return self.before(name, arguments, call_id)

    def _reply(self, arguments, text, call_id, *, is_denied=False):
        self._end(call_id)
        return Before(arguments, text, is_denied)

    def _end(self, call_id):
        if call_id:
            self._seen["ends"][call_id] = self._seen["ends"].get(call_id, 0) + 1

    def after(self, name, arguments, result, call_id="", *, is_error=False):
        """Return *result*, text or another JSON value, as the model may read it."""
        self._end(call_id)
        for _ in self._of("crash_result", name):
            raise RuntimeError("the redaction has a bug")
        for handler in self._of("replace_failure", name):
            result = handler["text"] if is_error else result
        for _ in self._of("redact"):
            result = redacted(result)
        for handler in self._of("truncate"):
            result = result[: handler["truncate"]] if isinstance(result, str) else result
        return REASON if any(True for _ in self._of("deny_result", name)) else result

    def retries(self, name) -> bool:
        """Tell whether a failed call of the tool *name* runs again."""
        return any(True for _ in self._of("retry", name))

    def prompt(self, text) -> str:
        """Return a prompt as the model may read it; raises `PromptRefusedError`."""
        for handler in self._of("crash_prompt"):
            if handler["crash_prompt"] in text:
                raise RuntimeError("the guard has a bug")
        for handler in self._of("deny_prompt"):
            if handler["deny_prompt"] in text:
                raise PromptRefusedError(REASON)
        return redacted(text) if any(True for _ in self._of("redact_prompt")) else text

    def answer(self, text) -> str:
        """Return a final answer as the user may read it."""
        return redacted(text) if any(True for _ in self._of("redact_answer")) else text

    def description(self, name, description) -> str | None:
        """Return the description of the tool *name* for the model; None hides the tool."""
        if any(True for _ in self._of("hide", name)):
            return None
        return next((handler["text"] for handler in self._of("reword", name)), description)

    def filled(self, name) -> frozenset[str]:
        """Return the parameters of the tool *name* that the model does not see."""
        return frozenset().union(*(handler["set"] for handler in self._of("fill", name)))
