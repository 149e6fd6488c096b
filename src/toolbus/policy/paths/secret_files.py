"""Secrets that speak for a person: no judged tool reads them, whatever the rules say.

With that of the webhook, a `.secret` or a `.key` in the folder of the configuration, anybody can
answer questions, with the tokens of logins act as the person, and with the key of hidden values
guess short ones from what a store has of them. Where such a file is not there yet, a folder that it
would be in may be read. A name that a program makes up is not seen.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from toolbus.policy.commands import PathUse
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.paths.targets import argument_word, find_targets
from toolbus.policy.paths.touching import Touch, touches
from toolbus.settings.user_folders import approvals_secret, logins_folder, value_key_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolving import PathResolver

_WHY = "no tool reads it"
_NO = Touch("no")


def judge_reading(uses: Iterable[PathUse], resolver: PathResolver) -> Touch:
    """Return whether one of *uses* certainly reads such a file, or a folder with one in it."""
    patterns, doubt = _patterns(), ""
    for use in uses:
        touch = touches(use, patterns, resolver)
        if touch.answer == "yes":
            return Touch("yes", touch.path, touch.pattern, f"{_WHY}: {touch.path}")
        # A path that cannot be followed, as one through /proc, may lead there.
        for resolved in find_targets(use, resolver).paths:
            doubt = doubt or resolved.doubt
    return Touch("maybe", "", "", doubt) if doubt else _NO


def judge_secret_text(text: str, resolver: PathResolver) -> Touch:
    """Return whether *text*, an argument of a tool that is no shell, may be such a file."""
    touch = judge_reading([PathUse(argument_word(text), "read")], resolver)
    if touch.answer != "yes":
        return touch
    return Touch("maybe", touch.path, "", f"{text!r} is a secret, and {_WHY}")


def _patterns() -> tuple[PathPattern, ...]:
    # Asked for each time: variables of the environment may move them.
    texts = []
    with suppress(RuntimeError):
        folder = approvals_secret().parent
        keys = f"{value_key_file().parent}/*.key"
        texts = [f"{folder}/**/*.{{secret,key}}", f"{logins_folder()}/**", keys]
    return path_patterns(texts, "/")
