"""A code that is on the terminal of a person only, for answers that arrive by another way.

A page in a browser cannot read the terminal, but the person can type its code there. A model's
shell of the same user can read the files and cookies of a browser, not the code.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRIES, _LENGTH = 5, 8
_RENEW = "press Enter at the terminal of `toolbus ui` for a new code"
_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
_READERS = {
    "ASCIINEMA_REC": "asciinema",
    "INSIDE_EMACS": "emacs",
    "KITTY_LISTEN_ON": "kitty",
    "NVIM": "nvim",
    "STY": "screen",
    "TMUX": "tmux",
    "WEZTERM_UNIX_SOCKET": "wezterm",
    "ZELLIJ": "zellij",
}
"""Variables of terminals whose text any program of the same user can read, with their programs."""


def reader_of_terminal(environ: Mapping[str, str]) -> str:
    """Return the program by which others read the text of this terminal, "" if none is known."""
    if environ.get("TERM_PROGRAM") == "vscode":  # Cursor, too.
        return "the editor, whose agent reads it"
    return next((name for variable, name in _READERS.items() if environ.get(variable)), "")


class CodeCheck(NamedTuple):
    """The result of a typed answer code: the reason against it in *text*, "" if it is right."""

    text: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the code is right."""
        return not self.text


class AnswerLock:
    """The code that each answer needs, shown at the terminal only; threads may share it.

    *refusal* is the reason why no code is accepted, "" while one is.
    """

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self._is_possible, self._code, self._wrong = not refusal, "", 0
        self._guard = threading.Lock()

    def show(self) -> str:
        """Return the code for the terminal, a new one after too many wrong tries; "" if none."""
        with self._guard:
            if self._is_possible and not self._code:
                self._code = "".join([secrets.choice(_LETTERS) for _ in range(_LENGTH)])
                self._wrong, self.refusal = 0, ""
            return "-".join(wrap(self._code, _LENGTH // 2))

    def check(self, code: str) -> CodeCheck:
        """Return whether *code* is right; after five wrong ones in a row no code is."""
        typed = "".join(code.split()).replace("-", "").upper()
        with self._guard:
            if self.refusal:
                return CodeCheck(self.refusal)
            if not typed:
                return CodeCheck(
                    "the answer code is missing; the terminal of `toolbus ui` shows it"
                )
            if self._code and hmac.compare_digest(
                typed.encode(errors="replace"), self._code.encode()
            ):
                self._wrong = 0
                return CodeCheck()
            self._wrong += 1
            if self._wrong < _TRIES:
                rest = f"{_TRIES - self._wrong} of {_TRIES} tries remain"
                return CodeCheck(f"the answer code is wrong; {rest}")
            self._code = ""
            self.refusal = f"answers are off after {_TRIES} wrong codes; {_RENEW}"
            return CodeCheck(self.refusal)
