"""Events as each host sends them, with a made-up secret, sent through an installed command."""

from __future__ import annotations

import json
import secrets
import string
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.errors import LoadError
from toolbus.hosts.doctor.sample_events import SAMPLE_ID, sample_event
from toolbus.hosts.install.client_files import ClientSettings, command_line, write_client
from toolbus.hosts.install.host_files import HOSTS
from toolbus.hosts.install.targets import blocks_of
from toolbus.hosts.run import hook_client

if TYPE_CHECKING:
    from toolbus.hosts.install.state import InstalledState

_FAILURE = "toolbus: "
"""With this begins what is words where something failed, and nothing was judged."""
_WAIT = 120
"""Seconds; the command ends long before by itself."""


class TrialAnswer(Struct, frozen=True, kw_only=True):
    """What came back for an event.

    Args:
        event: its name.
        is_failure: whether it was stopped because nothing could judge it.
        is_silent: whether nothing was words, so that it passes as it is.
        words: what was words, without the secret.
        shows_secret: whether the answer repeats the secret.
        is_replaced: whether the text around the secret came back without it.
    """

    event: str
    is_failure: bool
    is_silent: bool
    words: str
    shows_secret: bool = False
    is_replaced: bool = False


class HookTrial(Struct, frozen=True, kw_only=True):
    """The answers to a call, to its result, and to garbage."""

    call: TrialAnswer
    result: TrialAnswer
    garbage: TrialAnswer


def try_hooks(state: InstalledState, folder: Path) -> HookTrial:
    """Send a call and its result, made up, through the hooks of *state* as from *folder*.

    The same client, interpreter and configuration, but another store: what is kept of it is
    deleted. Garbage goes through the installed command itself, and is kept by nobody.
    """
    files = HOSTS[state.host]
    script = Path(state.script or "")
    call_event, result_event = files.tool_events[:2]
    secret = made_up_secret()
    garbage = _run(state.host, script, call_event, b"", folder)
    with tempfile.TemporaryDirectory(prefix="toolbus-", ignore_cleanup_errors=True) as scratch:
        settings = _scratch_settings(script, Path(scratch))
        copy = write_client(Path(scratch) / "client", settings, state.host, blocks_of(state.host))
        call = json.dumps(sample_event(state.host, folder)).encode()
        text = f"{SAMPLE_ID} {secret} {SAMPLE_ID}"
        result = json.dumps(sample_event(state.host, folder, text)).encode()
        return HookTrial(
            garbage=garbage,
            call=_run(state.host, copy, call_event, call, folder),
            result=_run(state.host, copy, result_event, result, folder, secret=secret),
        )


def made_up_secret() -> str:
    """Return what looks like a token of GitLab, and is none."""
    letters = string.ascii_letters + string.digits
    return "glpat-" + "".join([secrets.choice(letters) for _ in range(20)])


def _scratch_settings(script: Path, scratch: Path) -> ClientSettings:
    """Return the settings of the client *script*, with a store and sockets of their own."""
    lines = hook_client.read_settings(str(script.parent / "settings"))

    def value(key: bytes) -> str:
        return lines[key][0].decode(errors="surrogateescape")

    variables = [each.decode(errors="surrogateescape") for each in lines.get(b"variable", ())]
    settings = ClientSettings(
        python=value(b"python"),
        search_path=tuple(value(b"path").split(":")),
        version=value(b"version"),
        variables={name: text for name, _, text in (each.partition("=") for each in variables)},
        sockets=str(scratch / "sockets"),
        store=str(scratch / "hooks.db"),
        config=value(b"config") if b"config" in lines else None,
        required=value(b"required") if b"required" in lines else None,
        limit=float(value(b"limit")),
    )
    return replace(settings, idle=5.0)


def _run(
    host: str, script: Path, event: str, data: bytes, folder: Path, *, secret: str = ""
) -> TrialAnswer:
    line = command_line(script, host, event)
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
        raise LoadError(f"the command for {event!r} could not be run: {error}") from None
    block = blocks_of(host)[event]
    words = (ended.stdout + b"\n" + ended.stderr).decode(errors="replace").strip()
    blocked = (block.stdout.rstrip(), block.stderr.rstrip(), block.exit_code)
    same = (ended.stdout.rstrip(), ended.stderr.rstrip(), ended.returncode)
    return TrialAnswer(
        event=event,
        is_failure=same == blocked or _FAILURE in words,
        is_silent=ended.returncode == 0 and words in {"", "{}"},
        words=words.replace(secret, "…") if secret else words,
        shows_secret=bool(secret) and secret in words,
        is_replaced=bool(secret) and secret not in words and SAMPLE_ID in words,
    )
