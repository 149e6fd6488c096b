"""A host of the agent-hooks contract whose emissions a test writes by hand."""

from itertools import count


class Host:
    """A host of the contract, whose emissions a test writes by hand."""

    def __init__(self, *interceptors, framework="host", session="s"):
        self._interceptors, self._sequence = interceptors, count()
        self._framework, self._session = framework, session

    def context(self, point, target, **members):
        return {
            "spec": "agent-hooks/0.1",
            "interception_point": point,
            "timestamp": "2026-11-29T00:00:00Z",
            "sequence": next(self._sequence),
            "agent": {"id": "agent", "framework": self._framework},
            "session": {"id": self._session},
            "target": target,
            **members,
        }

    async def emit(self, point, target, **members):
        """Return the verdict of the first interceptor that does not allow."""
        for interceptor in self._interceptors:
            verdict = await interceptor.intercept(self.context(point, target, **members))
            if verdict["decision"] != "allow":
                return verdict
        return {"decision": "allow"}

    async def input(self, content):
        payload = {"content": content, "role": "user"}
        return await self.emit("input", payload, input=payload)

    async def request(self, *messages, tools=None):
        members = {"model": {"id": "m"}, "messages": list(messages)}
        members |= {} if tools is None else {"tools": [{"name": name} for name in tools]}
        return await self.emit("pre_model_call", list(messages), **members)

    async def reply(self, content, *calls):
        wire = [{"id": id_, "name": name, "args": args} for id_, name, args in calls]
        payload = {"content": content, "tool_calls": wire, "finish_reason": "stop"}
        return await self.emit("post_model_call", payload, model={"id": "m"}, response=payload)

    async def call(self, call_id, name, **args):
        call = {"id": call_id, "name": name, "args": args}
        return await self.emit("pre_tool_call", args, tool_call=call)

    async def result(self, call_id, name, value, *, is_error=False, **args):
        call = {"id": call_id, "name": name, "args": args}
        result = {"value": value, "is_error": is_error}
        return await self.emit("post_tool_call", value, tool_call=call, tool_result=result)

    async def output(self, content):
        return await self.emit("output", {"content": content}, output={"content": content})

    async def shutdown(self, reason="completed"):
        summary = {"reason": reason}
        return await self.emit("agent_shutdown", summary, summary=summary)


def failure(call_id, text):
    """Return the message for a failed call in a request of agent-framework."""
    result = {"type": "function_result", "call_id": call_id, "result": text, "exception": text}
    return {"role": "tool", "content": [result]}
