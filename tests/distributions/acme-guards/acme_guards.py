"""What the package offers."""

from toolbus import AgentComponent, Deny, EventContext, ToolCall, events, guard


class NoForcePush(AgentComponent):
    """Refuses to overwrite what is on some branches."""

    def __init__(self, branches: tuple[str, ...] = ("main",)) -> None:
        self.branches = branches

    @guard(events.TOOL_CALL_BEFORE, priority=400)
    def judge(self, ctx: EventContext[ToolCall]) -> Deny | None:
        if ctx.value.arguments.get("force") and ctx.value.arguments.get("branch") in self.branches:
            return Deny("no force push")
        return None
