"""Write what standard input says as the hooks of Claude Code let it be read.

Run as `PYTHON -I -S FILE CLIENT SESSION CALL`, behind a shell's pipe: *CLIENT* is the script of an
installed hook, which is asked about all of the text as about the result of the call *CALL*. It
imports nothing of ours. Whatever fails, a notice is written instead of the text.
"""

import json
import os
import subprocess
import sys
from typing import Any

MAX_BYTES = 2**25
"""Of a longer text nothing is shown."""
LIMIT = 100.0
"""Seconds for the hook, which has a limit of its own."""

_HOST, _EVENT, _TOOL = "claude-code", "PostToolUse", "Bash"
_NOTICE = "toolbus: what the command wrote is not shown, for "


def main(words: list[str]) -> int:
    """Filter standard input; return the exit code, 0: that of the command counts."""
    client, session_id, call_id = words
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    shown = _answer(data, client, session_id, call_id) if data else ""
    sys.stdout.buffer.write(shown.encode(errors="replace"))
    sys.stdout.buffer.flush()
    return 0


def _answer(data: bytes, client: str, session_id: str, call_id: str) -> str:
    if len(data) > MAX_BYTES:
        while sys.stdin.buffer.read(2**20):
            pass  # Who writes must not fail for us.
        return f"{_NOTICE}it is longer than {MAX_BYTES:,} bytes\n"
    text = data.decode(errors="replace")
    try:
        answer = _ask(client, _event(text, session_id, call_id))
        return shown_text(text, answer)
    except Exception as error:  # noqa: BLE001 - whatever it is, the text stays here
        return f"{_NOTICE}its filter failed ({type(error).__name__})\n"


def _event(text: str, session_id: str, call_id: str) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "cwd": os.getcwd(),  # noqa: PTH109 - pathlib would be most of the start
        "hook_event_name": _EVENT,
        "tool_name": _TOOL,
        "tool_use_id": call_id,
        "tool_input": {},
        "tool_response": {"stdout": text, "stderr": "", "interrupted": False, "isImage": False},
    }


def _ask(client: str, event: dict[str, Any]) -> bytes:
    done = subprocess.run(  # noqa: S603 - the installed hook
        [sys.executable, "-I", "-S", client, _HOST, _EVENT],
        input=json.dumps(event).encode(),
        capture_output=True,
        env={},
        timeout=LIMIT,
        check=True,
    )
    return done.stdout


def shown_text(text: str, answer: bytes) -> str:
    """Return what the hook's *answer* makes of *text*; raises `ValueError` if that is not said."""
    value = json.loads(answer) if answer.strip() else {}
    if value.get("continue") is False:
        return f"{value['stopReason']}\n"
    specific = value.get("hookSpecificOutput", {})
    match specific.get("updatedToolOutput", text):
        case str(new):
            pass
        case {"stdout": str(new), "stderr": ""}:
            pass
        case _:
            raise ValueError
    context = specific.get("additionalContext", "")
    return f"{new}\n{context}\n" if context else new


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
