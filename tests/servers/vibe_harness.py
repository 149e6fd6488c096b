"""What Vibe's own harness sends to hooks, and what it makes of their answers; runs in its Python.

Standard input is JSON: the calls and results of tools, and for each what a hook wrote. Standard
output is JSON: for each the payload that a hook gets, and what the model is told in the end.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

from mistralai_vibe_local_harness.protocol import (
    RustPostToolCallHookInput,
    RustPreToolCallHookInput,
)
from mistralai_vibe_local_harness.vibe import _foreign_hooks as hooks
from pydantic import TypeAdapter

CONTEXT = SimpleNamespace(
    session_id="s1",
    session_root=Path("/root/of/session"),
    parent_session_id=None,
    config=SimpleNamespace(workspace=SimpleNamespace(cwd="/folder")),
)


def before(tool_call, stdout):
    """Return the payload of `pre_tool`, and what becomes of the call."""
    hook_input = TypeAdapter(RustPreToolCallHookInput).validate_python({"tool_call": tool_call})
    call = hook_input.tool_call.call
    result, _ = hooks._interpret_stdout(
        stdout, dict(call.arguments), strict=True, tool_name="t", call=call
    )
    return hooks._stdin_payload(hook_input, CONTEXT), result.output.model_dump(mode="json")


def after(tool_call, tool_result, stdout):
    """Return the payload of `post_tool`, and what becomes of the result."""
    hook_input = TypeAdapter(RustPostToolCallHookInput).validate_python(
        {"tool_call": tool_call, "tool_result": tool_result}
    )
    result, _ = hooks._interpret_post_tool_stdout(stdout, hook_input.tool_result, strict=True)
    return hooks._post_tool_payload(hook_input, CONTEXT), result.model_dump(mode="json")


def main():
    made = []
    for item in json.load(sys.stdin):
        if "tool_result" in item:
            made.append(after(item["tool_call"], item["tool_result"], item["stdout"]))
        else:
            made.append(before(item["tool_call"], item["stdout"]))
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main()
