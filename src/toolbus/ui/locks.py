"""The locks of the page: its host names, one-time links, logins, form tokens and the answer code.

A link lets a browser read. An answer also needs the answer code, which is only on the terminal: a
model's shell of the same user can read the files and cookies of the browser.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from toolbus.presence.answer_code import AnswerLock

if TYPE_CHECKING:
    from collections.abc import Callable

LINK_SECONDS = 300.0
WAY_IN = "press Enter at the terminal of `toolbus ui` for a new link"
_LINK_TRIES = 100


class PageLogin(NamedTuple):
    """The right of the browser with *cookie* to read, at *host* only."""

    cookie: str
    host: str


class UiLocks:
    """The locks of the page at *port*; *no_answers* is the reason why it only reads, or "".

    `host` is unguessable, so that no other server shares its cookies and no other name leads here.
    At `numeric_host`, for browsers that do not resolve `*.localhost`, the page only reads: cookies
    of 127.0.0.1 go to all of its ports.
    """

    def __init__(
        self, port: int, *, no_answers: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.host = f"{secrets.token_hex(8)}.localhost:{port}"
        self.numeric_host = f"127.0.0.1:{port}"
        self.cookie_name = f"toolbus-{port}"
        self.answer_lock = AnswerLock(no_answers)
        self._key, self._clock, self._guard = secrets.token_bytes(32), clock, threading.Lock()
        self._link, self._until, self._wrong = "", 0.0, 0
        # The reasons why links are void, by their digests.
        self._void: dict[str, str] = {}

    def new_links(self) -> tuple[str, str]:
        """Return a link for one login within five minutes, and the same for reading at 127.0.0.1.

        The link before it is void.
        """
        with self._guard:
            self._void.setdefault(self._link, "a newer link was made")
            code = secrets.token_urlsafe(24)
            self._link, self._wrong = self._digest("link", code), 0
            self._until = self._clock() + LINK_SECONDS
        end = f"/enter?code={code}"
        return f"http://{self.host}{end}", f"http://{self.numeric_host}{end}"

    def enter(self, code: str, host: str) -> PageLogin | str:
        """Exchange *code* of a link for a login at *host*, or return the reason of a refusal."""
        link = self._digest("link", code)
        with self._guard:
            if self._clock() > self._until:
                self._void.setdefault(self._link, "this link has expired")
            if link == self._link and link not in self._void:
                self._void[link] = "this link has been used"
                name = secrets.token_urlsafe(24)
                return PageLogin(f"{name}.{self._digest('login', name, host)}", host)
            self._wrong += 1
            if self._wrong >= _LINK_TRIES:
                self._void.setdefault(self._link, "too many wrong links were tried")
            return f"{self._void.get(link, 'this link is unknown')}; {WAY_IN}"

    def find_login(self, cookie: str, host: str) -> PageLogin | None:
        """Return the login of *cookie* if it was made for *host*."""
        name, _, mark = cookie.partition(".")
        is_ours = _are_equal(mark, self._digest("login", name, host))
        return PageLogin(cookie, host) if is_ours else None

    def reason_not_to_answer(self, login: PageLogin) -> str:
        """Return the reason why *login* cannot answer at present, "" if it can."""
        if login.host == self.numeric_host:
            return "at 127.0.0.1 this page only reads; use the link with .localhost to answer"
        return self.answer_lock.refusal

    def form_token(self, login: PageLogin, purpose: str, *subject: str) -> str:
        """Return the token of a form of *login* for *purpose* and *subject*: an id, a digest."""
        return self._digest("form", login.cookie, login.host, purpose, *subject)

    def check_form_token(self, token: str, login: PageLogin, purpose: str, *subject: str) -> bool:
        """Return whether *token* is the `form_token` of the other arguments."""
        return _are_equal(token, self.form_token(login, purpose, *subject))

    def _digest(self, *words: str) -> str:
        return hmac.digest(self._key, json.dumps(words).encode(), "sha256").hex()


def _are_equal(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), secret.encode())
