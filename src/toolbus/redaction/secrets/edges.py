"""What may stand before and behind a credential in a text: anything but more of it.

The published rules ask for a blank, a quote or the end behind it, and miss it in a sentence, in
brackets and in tags. `update_rules.py`, in the project's `benchmarks/redaction`, puts these there.
"""

from __future__ import annotations

# Of what is no letter but ends in one: escapes of languages and JSON, of URLs, of mail in
# quoted-printable; and a terminal's colour, whose escape may be gone.
BEFORE = (
    r"(?:\b|_|\\[abefnrtv]|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|=[0-9A-F]{2}"
    r"|\[[0-9;]{1,12}m)"
)
"""Before what begins in a letter or digit."""

AFTER = r"(?:\b|[^0-9A-Za-z]|$)"
"""Behind a format that nothing else looks like."""

AFTER_VALUE = r"(?:[^0-9A-Za-z_+/=.([{-]|\.(?:[^0-9A-Za-z_]|$)|$)"
"""Behind what its name alone tells: not within a path, a call, a member or a longer value."""


def after(signs: str) -> str:
    """Return what may stand behind a token of letters, digits and *signs*."""
    escaped = "".join([rf"\{sign}" for sign in signs])
    if not signs:
        return r"(?:[^0-9A-Za-z]|$)"
    # A sign behind it may be one of the sentence.
    return rf"(?:[{escaped}]{{0,3}}(?:[^0-9A-Za-z{escaped}]|$))"
