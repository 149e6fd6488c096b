"""Trials of installed hooks: a made-up call, its result with a made-up secret, and garbage."""

from __future__ import annotations

import json
import secrets
import string
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import LoadError, ToolbusError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.findings import Finding
from toolbus.hosts.install.client_files import copied_files, shell_line, write_files
from toolbus.hosts.install.host_files import HOSTS
from toolbus.hosts.install.targets import fail_closed_answers
from toolbus.settings.spans import sanitize
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.hosts.dialects.hook_events import HookAnswer
    from toolbus.hosts.install.state import InstalledState

SAMPLE_ID = "toolbus-doctor"
"""The id of the session, the call and everything else that needs an id."""

_FAILURE = "toolbus: "
"""The beginning of an answer to an event that was not judged because of a failure."""
_WAIT = 120
"""Seconds; the command has a much shorter limit of its own."""
_LONGEST = 300


class TrialAnswer(NamedTuple):
    """The answer of a hook: *words* without the secret.

    *is_failure* is whether the event was blocked because it could not be judged; *is_silent* is
    whether it passes unchanged; *shows_secret* is whether the answer repeated the secret.
    """

    words: str
    is_failure: bool
    is_silent: bool
    shows_secret: bool


def inspect_trial(state: InstalledState, folder: Path, *, redacts: bool) -> Iterator[Finding]:
    """Send a call and a result through the hooks of *state*, as from *folder*; yield findings.

    *redacts* is whether the made-up secret in the result must be redacted.
    """
    # The one good finding needs all answers to be right, so they are judged together.
    try:
        garbage, call, result = _try_hooks(state, folder)
    except (OSError, KeyError, ToolbusError, UsageError) as error:
        yield Finding(severity="broken", text=f"no event could be sent: {error}")
        return
    wrong = []
    if garbage.is_silent:
        wrong.append(_open("an unreadable event passes; install the hooks again"))
    for name, each in (("call", call), ("result", result)):
        if each.shows_secret:
            wrong.append(_open(f"our hook's answer to a {name} contains the secret to redact"))
        if each.is_failure:
            text = f"a made-up {name} was blocked, since it could not be judged: {each.words}"
            wrong.append(Finding(severity="broken", text=text))
    if not (call.is_silent or call.is_failure):
        text = f"the made-up call of `true` did not pass unchanged: {call.words}"
        wrong.append(Finding(severity="warning", text=text))
    can_replace = dialect(state.host).facts.abilities["replace_result"] == "yes"
    if redacts and can_replace and result.is_silent:
        text = "a made-up secret in a result was not redacted, though redact-secrets is installed"
        wrong.append(_open(text))
    well = "a made-up call, its result and an unreadable event were answered correctly"
    yield from wrong or [Finding(severity="fact", text=well)]


def sample_event(host: str, folder: Path, result: str | None = None) -> dict[str, Any]:
    """Return the JSON that *host* sends for a call in *folder*, or for its text *result*."""
    samples = json.loads(Path(__file__).with_name("samples.json").read_text("utf-8"))[host]
    values = {
        "{id}": SAMPLE_ID,
        "{folder}": str(folder),
        "{event}": HOSTS[host].tool_events[0 if result is None else 1],
        "{result}": result or "",
    }
    text = json.dumps(samples["call"] if result is None else samples["call"] | samples["result"])
    for name, value in values.items():
        text = text.replace(name, json.dumps(value)[1:-1])
    event: dict[str, Any] = json.loads(text)
    return event


def made_up_secret() -> str:
    """Return a random text with the format of a GitLab token."""
    letters = string.ascii_letters + string.digits
    return "glpat-" + "".join([secrets.choice(letters) for _ in range(20)])


def _try_hooks(state: InstalledState, folder: Path) -> list[TrialAnswer]:
    """Return the answers to an unreadable event, to a call and to its result.

    The unreadable event goes through the installed command, which stores nothing of it. The others
    go through a copy of the client with a temporary store.
    """
    script, secret = Path(state.script or ""), made_up_secret()
    host, (call, result) = state.host, HOSTS[state.host].tool_events[:2]
    with tempfile.TemporaryDirectory(prefix="toolbus-", ignore_cleanup_errors=True) as scratch:
        changes = {"sockets": f"{scratch}/sockets", "store": f"{scratch}/hooks.db", "idle": "5.0"}
        copy = write_files(Path(scratch) / "client", copied_files(script, host, changes))
        text = f"{SAMPLE_ID} {secret} {SAMPLE_ID}"
        trials = [
            (script, call, b""),
            (copy, call, json.dumps(sample_event(host, folder)).encode()),
            (copy, result, json.dumps(sample_event(host, folder, text)).encode()),
        ]
        answers = []
        for client, event, data in trials:
            block = fail_closed_answers(host)[event]
            line = shell_line(state.python or "", client, host, event, block)
            answers.append(_run(line, data, folder, block, secret))
        return answers


def _run(line: str, data: bytes, folder: Path, block: HookAnswer, secret: str) -> TrialAnswer:
    """Return the answer of the shell's *line* to *data*; *block* is the fail-closed answer."""
    try:
        ended = subprocess.run(  # noqa: S603 - our own command, as the host's shell runs it
            ["/bin/sh", "-c", line],
            input=data,
            capture_output=True,
            cwd=folder,
            check=False,
            timeout=_WAIT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LoadError(f"the command could not be run: {error}") from None
    words = (ended.stdout + b"\n" + ended.stderr).decode(errors="replace").strip()
    blocked = (block.stdout.rstrip(), block.stderr.rstrip(), block.exit_code)
    same = (ended.stdout.rstrip(), ended.stderr.rstrip(), ended.returncode)
    hidden = sanitize(words.replace(secret, "…"))
    # The fail-closed answer is silent, too, for a host that cannot be told of a failure.
    is_silent = ended.returncode == 0 and words in {"", "{}"}
    return TrialAnswer(
        words=hidden if len(hidden) <= _LONGEST else f"{hidden[:_LONGEST]}…",
        is_failure=not is_silent and (same == blocked or _FAILURE in words),
        is_silent=is_silent,
        shows_secret=secret in words,
    )


def _open(text: str) -> Finding:
    return Finding(severity="open", text=text)
