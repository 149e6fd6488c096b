"""Secrets in sentences and lines for people, in the languages that most of them write."""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import BuiltinRule

# What stands around a value in a text, and behind it.
_OPEN = r"[\"'\x60*“”‘’«„]{0,3}"
_NO_SIGN = r"\s\"'\x60”’»<>(){}\[\]"
_SIGN = r"[\d!@#$%^*+?~=]"
_VALUE = rf"([^{_NO_SIGN}]*{_SIGN}[^{_NO_SIGN}]*[^{_NO_SIGN}.,;:*]|[^{_NO_SIGN}]*[\d!@#$%^+?~=])"
_STOP = r"(?:[\s\"'\x60”’».,;:)*<]|$)"
_IS = (
    r"(?:(?:is|was|are|to|now|be|ist|lautet|war|es|era|est|était|é|è|foi|adalah|это|है|هي|هو)"
    r"[ \t]*[ \t:]|—|–|[ \t]-[ \t]|→|＝|是|为|為|は、?|은|는|：|:|[ \t]=[ \t])[ \t]*"
)
_FILLER = r"(?:(?:now|still|again|currently|temporarily|been|set|changed|reset|updated|to)[ \t]+)*"
_WORD = r"(?:[ \t]+[\w'-]+)??"

SENTENCES = (
    # The password is …, the new password for admin is …, password changed to ….
    rf"[\"'\x60*)]{{0,3}}{_WORD * 6}[ \t]*{_IS}{_FILLER}{_OPEN}{_VALUE}{_STOP}",
)

_USE = r"(?:use|try|enter|type|with|take|verwende|nimm|usa)"
_AS = r"(?:as|for|als|como|comme)[ \t]+(?:(?:the|your|its|das|la|el|a|o)[ \t]+)?(?:\w+[ \t]+)??"
_LOG_IN = r"(?:log[ -]?in|sign[ -]?in|credentials?|creds|user(?:name)?/pass\w*|anmelden|account)\b"

PROSE = (
    # Use … as the password.
    BuiltinRule(
        "assigned-secret",
        rf"(?i)\b{_USE}[ \t]+{_OPEN}{_VALUE}[\"'\x60*”’»]{{0,3}}[ \t]+{_AS}"
        r"(?P<name>pass\w*|pwd|secret|token|contrase\w+|senha|mot de passe)",
        loose=True,
    ),
    # Log in with admin / …, credentials: admin:….
    BuiltinRule(
        "assigned-secret",
        rf"(?i)\b{_LOG_IN}(?:[ \t]+(?:with|as|using|are|is|mit))?[ \t]*[: \t][ \t]*"
        rf"[\"'\x60*]{{0,2}}\w[\w.@+-]*[\"'\x60*]{{0,2}}[ \t]*[/:|][ \t]*{_OPEN}{_VALUE}{_STOP}",
        loose=True,
        kind="password",
    ),
)
