"""What we change in published rules, because they take for secrets what is none.

For each: what in its pattern is replaced by what, or the whole pattern. Where a pattern says no
more than a vendor's name and "letters and digits", the value must look random (`KEYED`).
"""

from __future__ import annotations

TEMPLATE = r"""(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"""
"""What stands in all patterns that go by a name and an assignment, between the two."""

KEYED = {
    # `self.aws_session_token`, `s.timeoutSeconds`: members of a program.
    "aws-session-token",
    "vault-service-token",
}
"""Rules whose values must look random, besides those with the template."""

DROPPED = {
    # Any word of 8 to 20 letters in quotes behind "password": `assigned-password` judges those.
    "hashicorp-tf-password",
}

# One entry of a mapping in YAML, its value as base64, and lines up to the next document.
_ENTRY = r"\s+[\w.-]+:[^\n]*"
_BASE64 = (
    r"\s+[\w.-]+:[ \t]*(?:[|>][-+]?[ \t]*\n[ \t]+)?[\"']?(?P<value>[A-Za-z0-9+/]{8,}={0,2})"
    r"[\"']?[ \t\r]*(?:\n|$)"
)
_LINES = r"(?:\n|\n[^-\n][^\n]*|\n-|\n-[^-\n][^\n]*){0,60}?"
_KIND = r"\bkind:[ \t]*[\"']?Secret\b[^\n]*"
_DATA = r"(?:^|\n)[ \t-]*data:[ \t]*"
_ENTRIES = 6

_CURL = r"\bcurl\b(?:[^\n]|\\\r?\n)*?\s(?:-u|--user)(?:=|[ \t]{0,5})"

_CREDENTIAL_URI = (
    r"(?i)\b(?:https?|postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|ldaps?|smtps?"
    r"|ftps?|ssh)://[^:/@\s'\"\x60]*:(?P<password>[^/@\s'\"\x60]+)@[\[a-z0-9]"
)

# Between the two lines there must be something to encode a key with.
_PRIVATE_KEY = (
    r"(?i)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"
    r"[\s\S]{0,200}?[A-Za-z0-9+/]{20}[\s\S-]{20,}?KEY(?: BLOCK)?-----"
)
# Any 40 letters behind any "key" are a commit more often than not.
_AWS_SECRET = (
    r"(?i)(?:aws[\w .-]{0,20}(?:secret|key|token)|secret[_ .-]?access[_ .-]?key)"
    rf"(?:[ \t\w.-]{{0,20}})[\s'\"]{{0,3}}{TEMPLATE}([A-Za-z0-9/+]{{40}})(?:[^A-Za-z0-9/+=]|$)"
)

REPLACED: dict[str, tuple[str, ...]] = {
    # Only what stands in `data` of the same document, each value by itself, and no name of a key.
    "kubernetes-secret-yaml": tuple(
        pattern
        for count in range(_ENTRIES)
        for pattern in (
            rf"{_KIND}{_LINES}{_DATA}(?:{_ENTRY}){{{count}}}{_BASE64}",
            rf"{_DATA}(?:{_ENTRY}){{{count}}}{_BASE64}(?:[^\n]+{_LINES}\n)?[ \t-]*{_KIND}",
        )
    ),
    # The password and not the user; `"$USER:$PASSWORD"` is judged by what stands behind the colon.
    "curl-auth-user": (
        _CURL + r"(?:\"[^\":\n]*:([^\"\n]{3,})\"|'[^':\n]*:([^'\n]{3,})'"
        r"|[^\s:\"'=]*:([^\s\"']{3,}))",
        # A key in the place of the user, and no password.
        _CURL + r"[\"']?([^\s:\"'=]{8,}):(?:[\"'\s]|$)",
    ),
    # With all of the host, and counted letters, it took longer to compile than all other rules.
    "generic-credential-uri": (_CREDENTIAL_URI,),
    "private-key": (_PRIVATE_KEY,),
    "aws-secret-access-key": (_AWS_SECRET,),
}
"""Whole patterns, by the rule's name; a rule with several becomes several of one name."""

_ANY_KEY = "(?:alibaba|aliyun|secret|key)"
_ALIBABA = "(?:alibaba|aliyun|alicloud)"
PARTS: dict[str, tuple[str, str]] = {
    "alibaba-secret-key": (_ANY_KEY, _ALIBABA),
    "alibaba-sts-access-key-secret": (_ANY_KEY, _ALIBABA),
    # A key may end in "-".
    "openai-api-key": (r"[A-Za-z0-9_-]{20})\b|sk-", r"[A-Za-z0-9_-]{20})|sk-"),
    # Base64 for URLs, of which a backslash is no letter: it begins what a language escapes.
    "jwt": (
        r"ey[a-zA-Z0-9]{17,}\.ey[a-zA-Z0-9\/\\_-]{17,}\.(?:[a-zA-Z0-9\/\\_-]{10,}={0,2})?",
        r"ey[a-zA-Z0-9_-]{17,}\.ey[a-zA-Z0-9_-]{17,}\.(?:[a-zA-Z0-9_-]{10,}={0,2})?",
    ),
    "azure-ad-client-secret": (
        r"""(?:^|[\\'"\x60\s>=:(,)])([a-zA-Z0-9_~.]{3}\dQ~[a-zA-Z0-9_~.-]{31,34})(?:$|[\\'"\x60\s<),])""",
        r"\b([a-zA-Z0-9_~.]{3}\dQ~[a-zA-Z0-9_~.-]{31,34})\b",
    ),
}
"""What in a pattern is replaced, and by what."""


def corrected(name: str, pattern: str) -> tuple[str, ...]:
    """Return the patterns to be kept of a rule; none at all, if it is dropped.

    Raises `SystemExit` if there is nothing to be corrected any more.
    """
    if name in DROPPED:
        return ()
    if name in REPLACED:
        return REPLACED[name]
    if name not in PARTS:
        return (pattern,)
    old, new = PARTS[name]
    if old not in pattern:
        raise SystemExit(f"{name}: it has changed; look whether its correction is still needed")
    return (pattern.replace(old, new),)
