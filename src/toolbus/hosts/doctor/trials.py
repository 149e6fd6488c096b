"""What made-up events that went through installed hooks have shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.errors import ToolbusError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.inspections import Finding
from toolbus.hosts.doctor.trial_events import try_hooks
from toolbus.settings.spans import sanitize
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toolbus.hosts.doctor.trial_events import HookTrial
    from toolbus.hosts.install.state import InstalledState

_LONGEST = 300


def inspect_trial(state: InstalledState, folder: Path, *, redacts: bool) -> Iterator[Finding]:
    """Send a call and a result through the hooks of *state*, as from *folder*; yield what is wrong.

    *redacts* tells whether the made-up secret in the result has to be taken out.
    """
    try:
        trial = try_hooks(state, folder)
    except (OSError, KeyError, ToolbusError, UsageError) as error:
        yield Finding(severity="broken", text=f"no event could be sent: {error}")
        return
    wrong = [*_problems(trial, state.host, redacts=redacts)]
    yield from wrong
    if not wrong:
        text = "a call, its result and garbage were sent through, and answered as they must be"
        yield Finding(severity="fact", text=text)


def _problems(trial: HookTrial, host: str, *, redacts: bool) -> Iterator[Finding]:
    if trial.garbage.is_silent:
        text = "an event that nobody can read is let through; install the hooks again"
        yield Finding(severity="open", text=text)
    for name, each in (("call", trial.call), ("result", trial.result)):
        if each.shows_secret:
            text = f"what our hook writes for a {name} holds the secret that it was to take out"
            yield Finding(severity="open", text=text)
        if each.is_failure:
            text = (
                f"a made-up {name} was stopped, for nothing could judge it: {_excerpt(each.words)}"
            )
            yield Finding(severity="broken", text=text)
    if not (trial.call.is_silent or trial.call.is_failure):
        text = (
            f"the made-up call of `true` was not simply let through: {_excerpt(trial.call.words)}"
        )
        yield Finding(severity="warning", text=text)
    can_replace = dialect(host).abilities["replace_result"] == "yes"
    if redacts and can_replace and trial.result.is_silent:
        text = "a made-up secret in a result was not taken out, though redact-secrets is installed"
        yield Finding(severity="open", text=text)


def _excerpt(text: str) -> str:
    text = sanitize(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
