"""Prompts that a person edits at a terminal, with a history, by prompt_toolkit (extra `run`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.settings.extras import needs_extra
from toolbus.settings.usage_error import UsageError
from toolbus.settings.user_folders import state_folder

try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings
except ImportError as error:
    msg = needs_extra("typing prompts at a terminal needs prompt_toolkit", "run")
    raise ImportError(msg, name="prompt_toolkit") from error

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPressEvent


class LineEditor:
    """Reads prompts: Enter ends a prompt, Alt-Enter starts a new line, Ctrl-D ends the input."""

    def __init__(self) -> None:
        bindings = KeyBindings()

        bindings.add("escape", "enter")(_begin_line)
        history = FileHistory(str(open_history()))
        self._session: PromptSession[str] = PromptSession(history=history, key_bindings=bindings)

    async def read(self) -> str | None:
        """Return the typed prompt, "" after Ctrl-C, None after Ctrl-D."""
        try:
            text: str = await self._session.prompt_async("> ")
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None
        return text.strip()


def _begin_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def open_history() -> Path:
    """Return the file of the history, created private to its owner; raises `UsageError`.

    It is in `$XDG_STATE_HOME`, else in `~/.local/state`, by the XDG Base Directory Specification,
    which ignores a relative path.
    """
    file = Path("toolbus", "history")
    try:
        file = state_folder() / "history"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(file, flags, 0o600)
        try:
            os.fchmod(number, 0o600)
        finally:
            os.close(number)
    except (OSError, RuntimeError) as error:
        reason = f"{str(file)!r} cannot be the history: {error}; set XDG_STATE_HOME"
        raise UsageError(reason) from error
    return file
