"""The handlers of a scenario as hooks of Strands itself, and as its middleware."""

import json

from strands import tool
from strands.hooks import AfterToolCallEvent, BeforeInvocationEvent, BeforeToolCallEvent
from strands.middleware import InvokeModelResult, InvokeModelStage
from strands.types.events import ModelStopReason
from world_handlers import PromptRefusedError


def text_of(result) -> str:
    """Return the text of a tool's result, as a provider would send it."""
    blocks = result["content"]
    return "\n".join(block.get("text") or json.dumps(block.get("json")) for block in blocks)


class OwnHooks:
    """The handlers *hooks* around prompts and calls."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.replied, self.retried = set(), set()

    def register_hooks(self, registry, **_):
        registry.add_callback(BeforeInvocationEvent, self.judge_prompt)
        registry.add_callback(BeforeToolCallEvent, self.judge_call)
        registry.add_callback(AfterToolCallEvent, self.judge_result)

    def judge_prompt(self, event):
        try:
            for message in event.messages or ():
                for block in message["content"]:
                    block["text"] = self.hooks.prompt(block["text"])
        except PromptRefusedError as error:
            event.cancel = str(error)

    async def judge_call(self, event):
        use = event.tool_use
        name, call_id = use["name"], use["toolUseId"]
        if self.hooks.description(name, "") is None:
            event.cancel_tool = f"there is no tool {name}"
            return
        decision = await self.hooks.before_async(name, use["input"], call_id)
        if decision.reply is not None:
            self.replied.add(call_id)
        if decision.is_denied:
            event.cancel_tool = decision.reply
        elif decision.reply is not None:
            event.selected_tool = tool(name=name)(lambda: decision.reply)
        else:
            event.tool_use = {**use, "input": decision.arguments}

    def judge_result(self, event):
        use, result = event.tool_use, event.result
        name, call_id, is_error = use["name"], use["toolUseId"], result["status"] == "error"
        if call_id in self.replied:
            return
        if is_error and self.hooks.retries(name) and call_id not in self.retried:
            self.retried.add(call_id)
            event.retry = True
            return
        read = text_of(result)
        text = self.hooks.after(name, use["input"], read, call_id, is_error=is_error)
        if text != read:
            event.result = {**result, "content": [{"text": text}]}


def add_middleware(hooks, agent) -> None:
    """Add the middleware around the model: offered tools and answers."""

    def offer(context):
        specs = [changed_spec(hooks, spec) for spec in context.tool_specs]
        return context.replace(tool_specs=[spec for spec in specs if spec is not None])

    def answer(given):
        end = given.result
        content = [
            {"text": hooks.answer(block["text"])} if "text" in block else block
            for block in end.message["content"]
        ]
        message = {**end.message, "content": content}
        return InvokeModelResult(
            result=ModelStopReason(
                stop_reason=end.stop_reason, message=message, usage=end.usage, metrics=end.metrics
            )
        )

    agent.add_middleware(InvokeModelStage.Input, offer)
    agent.add_middleware(InvokeModelStage.Output, answer)


def changed_spec(hooks, spec):
    """Return the spec of a tool for the model; None hides the tool."""
    name, schema = spec["name"], spec["inputSchema"]["json"]
    description = hooks.description(name, spec["description"])
    if description is None:
        return None
    filled = hooks.filled(name)
    kept = {key: value for key, value in schema["properties"].items() if key not in filled}
    required = [key for key in schema.get("required", ()) if key not in filled]
    schema = {**schema, "properties": kept, "required": required}
    return {**spec, "description": description, "inputSchema": {"json": schema}}
