r"""What ``$'…'`` means: the escapes of bash's manual, section "ANSI-C Quoting"."""

import re

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_ESCAPE = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})"
    r"|U([0-9a-fA-F]{1,8})|(?s:(.)))"
)


def decode_ansi(written: str) -> str | None:
    r"""Return what ``$'written'`` stands for, or None if that is not certain.

    Not certain are control characters (``\cx``), what is no ASCII (bash makes of it what the locale
    has), and NUL, at which bash ends the string.
    """
    try:
        return _ESCAPE.sub(_character, written)
    except ValueError:
        return None


def _character(match: re.Match[str]) -> str:
    simple, octal, byte, short, long, other = match.groups()
    if simple:
        return _SIMPLE[simple]
    if other:
        if other in "cxuU":
            raise ValueError
        return "\\" + other
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    if not 0 < code < 128:  # noqa: PLR2004 - ASCII
        raise ValueError
    return chr(code)
