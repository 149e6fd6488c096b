"""The text in a blob: in UTF-8, in UTF-16 as Windows writes it, or in one byte a letter.

One letter of an older codec, or one that is cut, does not hide a file from whoever reads it.
"""

from __future__ import annotations

from base64 import b64encode
from binascii import a2b_base64
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, utf_8_decode

from msgspec import Struct

# The alphabet for URLs is read as well, as most clients do (RFC 4648, section 5).
_STANDARD = bytes.maketrans(b"-_", b"+/")
_HEAD = 1_024
# Of a text in one byte a letter; of other files every tenth byte is a control character.
_ALLOWED = bytes([*b"\t\n\r\f\x1b", *range(0x20, 0x7F), *range(0x80, 0x100)])
_CONTROLS = 50


class BlobText(Struct, frozen=True):
    """The *text* of a blob, and the *codec* that it is written in."""

    text: str
    codec: str

    def encoded(self, text: str) -> str:
        """Return *text* in base64, written as this one is."""
        try:
            raw = text.encode(self.codec)
        except UnicodeEncodeError:
            raw = text.encode()
        return b64encode(raw).decode()


def text_in(data: str) -> BlobText | None:
    """Return the text in the base64 *data*, or None if that is no text."""
    letters = "".join(data.split()).encode(errors="replace").translate(_STANDARD).rstrip(b"=")
    letters += b"==="[: -len(letters) % 4]
    try:
        # Most of what is no text shows that at once. The head may end within a letter.
        if _codec_of(a2b_base64(letters[:_HEAD])) is None:
            return None
        raw = a2b_base64(letters, strict_mode=True)
        codec = _codec_of(raw, final=True)
        return None if codec is None else BlobText(raw.decode(codec), codec)
    except ValueError:
        return None


def utf_16_codec(raw: bytes) -> str | None:
    """Return the codec of *raw* if it is a text in UTF-16, as Windows writes it, else None.

    Of a text in the letters of Europe, every other byte is 0.
    """
    if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16-le" if raw.startswith(BOM_UTF16_LE) else "utf-16-be"
    for first, codec in ((1, "utf-16-le"), (0, "utf-16-be")):
        if raw[first::2].count(0) * 8 > len(raw) * 3:
            return codec
    return None


def _codec_of(raw: bytes, *, final: bool = False) -> str | None:
    """Return the codec in which *raw* is a text; if it is *final* it does not end in a letter."""
    if (codec := utf_16_codec(raw)) is not None:
        return codec
    try:
        utf_8_decode(raw, "strict", final)
    except UnicodeDecodeError:
        # One letter of an older codec, or one that is cut, makes no other file of it.
        controls = len(raw.translate(None, _ALLOWED))
        return "latin-1" if 0 not in raw and controls * _CONTROLS <= len(raw) else None
    return "utf-8"
