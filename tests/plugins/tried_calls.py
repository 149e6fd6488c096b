"""Calls in the comments of a policy, tried in order within one session.

`# deny: git push -f` is a line of the shell and what becomes of it; `# ask: pay {"amount": 7}` is
a call of the tool `pay`; ` -> fails` at the end says how the call ends, if it is let through.
"""

import json
import re
from pathlib import Path

from toolbus import Agent, ToolResponse, tool
from toolbus.models import ScriptedModel
from toolbus.policy import Policy

CALL = re.compile(r"# (allow|ask|deny): (.+?)( -> fails)?")
OF_TOOL = re.compile(r"([\w-]+) (\{.*\})")


def read_calls(text: str) -> list[tuple[str, str, dict, bool]]:
    """Return verdict, tool, arguments and whether it fails, of each call that *text* has."""
    calls = []
    for line in text.splitlines():
        if found := CALL.fullmatch(line):
            of_tool = OF_TOOL.fullmatch(found[2])
            name = of_tool[1] if of_tool else "shell"
            arguments = json.loads(of_tool[2]) if of_tool else {"command": found[2]}
            calls.append((found[1], name, arguments, bool(found[3])))
    return calls


async def judge(policy: Path, calls: list[tuple[str, str, dict, bool]]) -> list[str]:
    """Return the verdict of *policy* on each of *calls*; what is asked about is let through."""
    asked, verdicts, fails = [], [], []

    def approver(question, call, scope):
        asked.append(call.id)
        return True

    def answer(**arguments):
        return ToolResponse("1 passed", metadata={"exit_status": int(fails[-1])})

    schema = {"type": "object", "additionalProperties": True}
    tools = [tool(name=name, input_schema=schema)(answer) for name in {each[1] for each in calls}]
    components = [Policy.read(policy)]
    model = ScriptedModel([])
    async with Agent(model, tools=tools, components=components, approver=approver) as agent:
        for _, name, arguments, wrong in calls:
            fails.append(wrong)
            outcome = await agent.call_tool(name, **arguments)
            was_asked = outcome.requested.id in asked
            denied = "deny" if outcome.status == "denied" else "allow"
            verdicts.append("ask" if was_asked else denied)
    return verdicts
