"""What the name of a value says of it: a password, a token, a key, or nothing secret.

The last words count: `token_url` is an address, and `db_password_old` a password. Names are read
alike in snake, kebab, dotted and camel case, in capitals, and written as one word (`DBPASSWORD`).
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from unicodedata import normalize


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PASSWORDS = _words(
    """
    password passwd passw passwrd pwd pw pass passphrase passcode psk userpass passwort kennwort
    contrasena senha motdepasse mdp parola wachtwoord haslo sifre losenord adgangskode passord
    salasana heslo jelszo katasandi пароль 密码 密碼 口令 パスワード 暗証番号 비밀번호 암호
    पासवर्ड পাসওয়ার্ড پاسورڈ passe clave sandi khau
    κωδικος סיסמה รหัสผ่าน المرور السر
    """
)
"""What a password is called in the languages that most people write, without accents."""

SECRETS = _words(
    """
    secret token credential cred creds credentials salt pepper auth pat bearer jwt geheimnis
    секрет токен 令牌 密钥 密鑰
    """
)
"""What else is secret by its name alone."""

SECRET_KEYS = _words(
    "api secret access private auth master account shared signing encryption service license app"
)
"""What stands before `key` where it opens something."""

GLUED = _words(
    """
    password passwd passphrase passwort kennwort pwd secret token dbpass mysqlpass pgpass
    postgrespass redispass rootpass adminpass userpass smtppass mailpass ftppass requirepass
    masterpass mypass proxypass ldappass sqlpass mongopass rabbitpass sshpass sudopass wifipass
    keypass storepass authpass
    """
) | {f"{word}key" for word in SECRET_KEYS}
"""What one word may end in, to be two words in truth."""

NEUTRAL = _words(
    """
    old new current previous prev next confirm confirmation confirmed again repeat repeated
    retype verify value val plain plaintext raw str string base b64 base64 encoded data default
    prod production dev development stage staging test testing qa uat live sandbox main primary
    secondary local backup ro rw admin root v
    """
)
"""What may follow the name of a secret, which is one nevertheless."""

ATTRIBUTES = _words(
    """
    id ids uuid guid name names arn url urls uri uris link href host hostname domain endpoint
    server address addr port path paths file files filename filepath dir directory folder
    location type types kind class format mode scheme algorithm alg algo cipher method style at
    time date timestamp created updated modified expires expired expiry expiration expire age
    ttl lifetime duration timeout interval days hours minutes seconds ms since until count
    counts length len size limit max min num number index idx position offset total usage used
    bytes bits chars strength score policy rule rules regex pattern template schema version
    versions revision hash hashes hashed checksum digest fingerprint thumbprint sum sha md sha1
    sha256 sha512 md5 ref refs reference alias label title description desc hint help message
    msg text prompt placeholder field fields column param parameter parameters attribute attr
    property prop input form header headers prefix suffix separator delimiter env envvar var
    variable status state enabled disabled required valid invalid validity verified set exists
    present reset forgot change changed rotate rotation rotated generator generate factory
    provider manager service store storage source issuer audience scope scopes realm grant
    permission permissions role roles owner user username email account project region zone
    namespace group list map dict table cache handler callback event error errors exception
    warning code validator validation checker check encoder decoder parser reader writer yaml
    yml json toml xml txt md py js ts go rs rb sh ini cfg conf properties
    """
)
"""What makes a name say something about a secret, and not the secret."""

CHECKSUMS = frozenset({"checksum", "checksums"})
"""What makes a digest of all that follows, as in `checksum/secret`."""

HARMLESS_TOKENS = _words(
    """
    max min num number n total prompt completion input output reasoning cached used remaining
    pad eos bos unk mask cls sep special added stop start end next prev previous page pagination
    paging starting client update lock opaquelock sequence resume work unit request change action
    idempotency continuation continue sync cancellation cancel lexer public skip delta bookmark
    checkpoint watermark partition task progress confirm confirmation consistency
    design css theme color
    """
)
"""What stands before `token` where it opens nothing: of a text, of a page, of one request.

Tools return many of them for the next call, which fails without.
"""

SWITCHES = _words("has have is are no with without show hide forgot need needs allow ask enter")
"""What makes a question or a switch of the name of a secret."""

HARMLESS_KEYS = _words(
    """
    restore verification verify verifying
    recv gpg pgp primary foreign cache object routing partition sort idempotency idempotent public
    pub publishable map dict hash lookup index unique composite natural surrogate group range s3
    site anon message event row column record config setting translation i18n locale lang
    resource file document doc asset media image snapshot dedup deduplication incident change
    entity artifact component thread order space section
    registry hot short arrow function modifier enter escape shift ctrl alt meta tab host known
    on off is has parent child
    """
)
"""What stands before `key` where it opens nothing."""


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\x00-\x7f]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LONGEST = 64
# `AWS::IAM::AccessKey` is the name of a type, and `delta?token=` the cursor of Microsoft's Graph.
_HARMLESS = re.compile(rb"\bAWS::\w+::\Z|/delta(?:\(\))?\?\Z")
# `All 14 pass: …`, `boarding pass: …`: a verb or another noun, unless the word before says whose.
_NOUN = re.compile(rb"(?:[^\s:=/|,;(][ \t]+|\n[ \t]*|\A[ \t]*)(\w+)[ \t]+\Z")
_OWNERS = frozenset(
    b"the my your our a db database admin administrator root user login account wifi wlan mail smtp"
    b" imap ftp ssh sudo vpn mysql postgres redis mongo new old current default master app".split()
)
_NAME_BYTES = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/"
) | frozenset(range(0x80, 0x100))
_GLUED_ENDS = tuple(sorted(GLUED, key=len, reverse=True))
_FOREIGN_END = tuple([word for word in PASSWORDS | SECRETS if not word.isascii()])


class NameKind(Enum):
    """What a value may look like, to be taken for a secret beside such a name."""

    CERTAIN = "certain"
    """As it likes: no name, but the flag of a command says that it is a password."""

    PASSWORD = "password"  # noqa: S105 - a kind of name
    """As people choose it, a UUID, or random."""
    SECRET = "secret"  # noqa: S105 - a kind of name
    """A UUID, or random, even if it is short: the name says secret, token or API key exactly."""
    KEY = "key"
    """Random, and long."""


def name_at(data: bytes, start: int, end: int) -> str:
    """Return the whole name in *data*, of which a pattern has seen bytes *start* to *end*.

    A pattern that begins at a word of its own is fast; what stands before the word is read here.
    """
    first, begin = max(0, start - _LONGEST), start
    while begin > first and data[begin - 1] in _NAME_BYTES:
        begin -= 1
    if data[begin - 1 : begin] in (b":", b"?") and _HARMLESS.search(
        data, max(0, begin - _LONGEST), begin
    ):
        return ""
    if data[begin:end].lower() == b"pass" and data.startswith(b":", end):
        noun = _NOUN.search(data, max(0, begin - _LONGEST), begin)
        if noun is not None and noun[1].lower() not in _OWNERS:
            return ""
    return data[begin:end].decode("utf-8", errors="ignore")


def name_start(data: bytes, start: int) -> int:
    """Return the byte at which the name begins that goes on at *start*."""
    first = max(0, start - _LONGEST)
    while start > first and data[start - 1] in _NAME_BYTES:
        start -= 1
    return start


def name_kind(name: str) -> NameKind | None:
    """Return of what kind a value is that is assigned to *name*; None if it is no secret."""
    # A number at the end says nothing: names that are only counted are read once.
    return _kind_of(name.rstrip("0123456789"))


@lru_cache(maxsize=4_096)
def _kind_of(name: str) -> NameKind | None:
    words = [word.lower() for word in _WORD.findall(_without_accents(name))]
    while words and (words[-1].isdigit() or words[-1] in NEUTRAL):
        words.pop()
    if not words or CHECKSUMS.intersection(words):
        return None
    if words[-1] in ATTRIBUTES or words[-1].removesuffix("s") in ATTRIBUTES:
        return None
    kind = _word_kind(words[-1], words[-2] if len(words) > 1 else "")
    if kind is not None:
        return kind
    # "token_github": what follows may be whose it is, or anything else, so the value must tell.
    pairs = zip(words, ("", *words), strict=False)
    return NameKind.KEY if any(_word_kind(*pair) for pair in pairs) else None


def _without_accents(name: str) -> str:
    if name.isascii():
        return name
    return normalize("NFC", _ACCENTS.sub("", normalize("NFD", name))).replace("ł", "l")


def _word_kind(word: str, before: str) -> NameKind | None:
    """Return what *word* says at the end of a name, behind the word *before* or none."""
    if before in SWITCHES:
        return None
    if word in PASSWORDS:
        return NameKind.PASSWORD
    if word in {"token", "tokens"} and before in HARMLESS_TOKENS:
        return None
    if word in SECRETS:
        return NameKind.SECRET
    if word in {"key", "keys"}:
        return _key_kind(before)
    if word.removesuffix("s") in PASSWORDS | SECRETS:
        # Of several, each must look like one.
        return NameKind.KEY
    return _glued_kind(word)


def _key_kind(before: str) -> NameKind | None:
    """Return what a key is that *before* stands before; a key of nothing is one of a table."""
    if before in SECRET_KEYS:
        return NameKind.SECRET
    return NameKind.KEY if before and before not in HARMLESS_KEYS else None


def _glued_kind(word: str) -> NameKind | None:
    """Return what *word* says that is written without a gap, such as `dbpassword`."""
    if word.endswith(_FOREIGN_END):
        return NameKind.PASSWORD
    noun = next((noun for noun in _GLUED_ENDS if word.endswith(noun)), None)
    if noun is None:
        return None
    if noun in PASSWORDS or noun.endswith("pass"):
        return NameKind.PASSWORD
    is_harmless = noun == "token" and word.removesuffix(noun) in HARMLESS_TOKENS
    return None if is_harmless else NameKind.SECRET
