"""The text in a blob: in UTF-8, in UTF-16 as Windows writes it, or in a single-byte codec.

A character of an older codec, or a truncated one, does not hide a file from its readers.
"""

from __future__ import annotations

from base64 import b64encode
from binascii import a2b_base64
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, utf_8_decode

from msgspec import Struct

# The alphabet for URLs is read as well, as most clients do (RFC 4648, section 5).
_STANDARD = bytes.maketrans(b"-_", b"+/")
_HEAD = 1_024
# Of a text in a single-byte codec; in other files every tenth byte is a control character.
_ALLOWED = bytes([*b"\t\n\r\f\x1b", *range(0x20, 0x7F), *range(0x80, 0x100)])
_CONTROLS = 50


class BlobText(Struct, frozen=True):
    """The *text* of a blob, and its *codec*."""

    text: str
    codec: str

    def encoded(self, text: str) -> str:
        """Return *text* in base64, encoded like this one."""
        try:
            raw = text.encode(self.codec)
        except UnicodeEncodeError:
            raw = text.encode()
        return b64encode(raw).decode()


def text_in(data: str) -> BlobText | None:
    """Return the text in the base64 *data*, or None for binary data."""
    encoded = "".join(data.split()).encode(errors="replace").translate(_STANDARD).rstrip(b"=")
    encoded += b"==="[: -len(encoded) % 4]
    try:
        # Most binary data is recognized at once. The head may end within a character.
        if _codec_of(a2b_base64(encoded[:_HEAD])) is None:
            return None
        raw = a2b_base64(encoded, strict_mode=True)
        codec = _codec_of(raw, final=True)
        return None if codec is None else BlobText(raw.decode(codec), codec)
    except ValueError:
        return None


def utf_16_codec(raw: bytes) -> str | None:
    """Return the codec of *raw* if it is UTF-16 text, as Windows writes it, else None.

    In text of European languages every other byte is 0.
    """
    if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16-le" if raw.startswith(BOM_UTF16_LE) else "utf-16-be"
    for first, codec in ((1, "utf-16-le"), (0, "utf-16-be")):
        if raw[first::2].count(0) * 8 > len(raw) * 3:
            return codec
    return None


def _codec_of(raw: bytes, *, final: bool = False) -> str | None:
    """Return the codec in which *raw* is a text, or None; *final* data has no cut character."""
    if (codec := utf_16_codec(raw)) is not None:
        return codec
    try:
        utf_8_decode(raw, "strict", final)
    except UnicodeDecodeError:
        # A single character of an older codec, or a truncated one, does not make it binary.
        controls = len(raw.translate(None, _ALLOWED))
        return "latin-1" if 0 not in raw and controls * _CONTROLS <= len(raw) else None
    return "utf-8"
