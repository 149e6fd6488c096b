"""How a published pattern is freed of what it asks for before and behind its token.

It asks for a blank, a quote or the end, and misses a token in a sentence, in brackets and in tags.
`BEFORE` and `AFTER` are put there, or `AFTER_VALUE`.
"""

from __future__ import annotations

import re

from toolbus.redaction.secrets.rules import builtin_file

BEFORE = builtin_file().fragments["BEFORE"]
"""Before what begins in a letter or digit."""

AFTER = r"(?:\b|[^0-9A-Za-z]|$)"
"""Behind a format that nothing else looks like."""

AFTER_VALUE = r"(?:[^0-9A-Za-z_+/=.([{-]|\.(?:[^0-9A-Za-z_]|$)|$)"
"""Behind what its name alone tells: not within a path, a call, a member or a longer value."""

# The ends that the published patterns have: of Betterleaks, of Veles, and a word's.
_ENDS = (
    r"""(?:\\?['"\x60]|[\s;]|\\[nr]|$)""",
    r"""(?:(?:\\?(?:["'`]))|(?:[\x09-\x0D\x20;])|(?:\\(?:[NRnr]))|\z))""",
    r"""(?:(?:\\?(?:["'`]))|(?:[\x09-\x0D\x20;])|(?:\\(?:[nr]))|\z))""",
    r"\b",
)
_VELES_BEGINNING = r"(?:(?:\A|(?:[\x00-,\./:-@\[-\^`\{-\xFF]))"
# Letters that begin a token are told by so many.
_DISTINCT = 4
_LITERAL = re.compile(r"(?:\(\?i:|\()*((?:[A-Za-z0-9_-]|\\\.)*)(?![{?*+|])")
_LAST_CLASS = re.compile(r"\[([^\]]*)\](?:\{[\d,]+\}|[+*])?[^\[]*$")


def freed(pattern: str) -> str:
    """Return *pattern* so that it finds its token wherever that stands."""
    flags = "(?i)" if pattern.startswith("(?i)") else ""
    body = pattern.removeprefix(flags)
    end = next((end for end in _ENDS if body.endswith(end)), "")
    token = body.removesuffix(end)
    if end == r"\b" and re.match(r"\\b\w", token) and not re.search(r"\((?!\?)", token):
        # Without a group all that matched would be the secret, and what stands before it.
        token = rf"\b({token[2:]})"
    if token.startswith(_VELES_BEGINNING):
        token = r"\b" + token.removeprefix(_VELES_BEGINNING)
    if re.match(r"\\b\((?!\?)", token):
        return flags + BEFORE + token[2:] + (_behind(token[2:]) if end else "")
    if end in {"", r"\b"}:
        return pattern
    return flags + token + AFTER_VALUE


def _behind(token: str) -> str:
    """Return what may stand behind *token*, by its beginning and by the letters of its end."""
    literal = _LITERAL.match(token)
    if literal is not None and len(literal[1].replace("\\", "")) >= _DISTINCT:
        return AFTER
    letters = _LAST_CLASS.search(token)
    signs = "" if letters is None else letters[1].replace(r"\w", "_")
    return after("".join([sign for sign in "_-+/=." if sign in re.sub(r"\w-\w", "", signs)]))


def after(signs: str) -> str:
    """Return what may stand behind a token of letters, digits and *signs*."""
    escaped = "".join([rf"\{sign}" for sign in signs])
    if not signs:
        return r"(?:[^0-9A-Za-z]|$)"
    # A sign behind it may be one of the sentence.
    return rf"(?:[{escaped}]{{0,3}}(?:[^0-9A-Za-z{escaped}]|$))"
