"""The form of a rule of ours, and the pieces of patterns that several subjects share.

The published rules ask for a blank, a quote or the end behind a credential, and miss it in a
sentence, in brackets and in tags. `update_rules.py`, in the project's `benchmarks/redaction`, puts
`BEFORE` and `AFTER` there, or `AFTER_VALUE`.
"""

from __future__ import annotations

from typing import NamedTuple


class BuiltinRule(NamedTuple):
    """A rule as data: its *name*, which becomes the placeholder's, and its *pattern*.

    *loose*, *kind* and *reader*: see `Rule`.
    """

    name: str
    pattern: str
    loose: bool = False
    kind: str | None = None
    reader: str | None = None


FOREIGN = (
    *("密码", "密碼", "口令", "令牌", "密钥", "密鑰", "パスワード", "暗証番号", "비밀번호", "암호"),
    *("пароль", "токен", "секрет", "كلمة المرور", "كلمة السر", "پاسورڈ", "पासवर्ड", "পাসওয়ার্ড"),
    *(
        "סיסמה",
        "รหัสผ่าน",
        "mật khẩu",
        "κωδικός",
        "contraseña",
        "hasło",
        "şifre",
        "lösenord",
        "jelszó",
    ),
)
"""Words of the languages that most people write, as far as they are not in ASCII."""

_WORDS = (
    *("pass", "pwd", "secret", "token", "cred", "salt", "pepper", "bearer", "jwt", "kennwort"),
    *("contrasena", "clave", "senha", "parola", "wachtwoord", "haslo", "sifre", "losenord"),
    *("adgangskode", "salasana", "heslo", "jelszo", "katasandi", "kata sandi", *FOREIGN),
)


class NamedShape(NamedTuple):
    """What stands *behind* the name of a secret: the first group that holds anything is the value.

    If that matters: how such a *name* begins, and what is *before* it, both patterns of Python's.
    """

    behind: str
    name: str = ""
    before: bytes = b""


NAME = (
    rf"(?P<name>(?:{'|'.join(_WORDS)}|[a-z0-9][_.-]?key"
    r"|(?:api|access|auth|private|secret|account|shared|signing|encryption|license) key"
    r"|(?:\b|_)(?:pw|pat|psk|mdp|auth)(?:\b|_))[\w.-]*)"
)
"""A name, from a word on by which it may be a secret's; `names` judges the whole of it."""

END = r"""(?:[\s"'\x60;,)<>}\]&|\\。，；）」]|$)"""
"""What ends a value that has no quotes."""

_NOT_BARE = r"""\s"'\x60<>(){}\[\],;|&\\。，；）」"""
BARE = rf"(?:[^={_NOT_BARE}][^{_NOT_BARE}]{{7,}}|[^={_NOT_BARE}]*[\d!@#$%^*+?~][^{_NOT_BARE}]*)"
"""A value that has no quotes, and is no short word."""

# A text that begins with a bracket has a structure, which is looked at for itself.
_DOUBLE = r'"((?:[^"\\\r\n{\[<]|\\.)(?:[^"\\\r\n]|\\.)*)"'
_SINGLE = r"'((?:[^'\\\r\n{\[<]|\\.)(?:[^'\\\r\n]|\\.)*)'"

_BACKTICK = r"\x60([^\x60\\\r\n{\[<][^\x60\\\r\n]*)\x60"

QUOTED = rf"(?:{_DOUBLE}|{_SINGLE}|{_BACKTICK})"
"""A value in quotes, with whatever it has inside; the value is a group."""

WORD = rf"(?:{_DOUBLE}|{_SINGLE}|({BARE}))"
"""A word of a command line, in quotes or without; the value is a group."""

ARGUMENT = r"""(?:"[^"\n]*"|'[^'\n]*'|[\w.]+)"""
"""Another argument of a call, such as a user's name."""


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
