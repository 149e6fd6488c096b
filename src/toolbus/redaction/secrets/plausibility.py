"""Heuristics that accept or reject a rule's match, by its value, its name and the text between."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from toolbus.redaction.secrets.names import NameKind, name_at, name_kind, name_start
from toolbus.redaction.secrets.randomness import entropy, is_in_order, random_length

if TYPE_CHECKING:
    from toolbus.redaction.secrets.engine import Hit
    from toolbus.redaction.secrets.rules import Rule

# Bits of entropy a character: nearly all random values have more, few words and fillers do.
_LEAST, _LEAST_LOOSE = 2.0, 2.5
# Entropy is not significant for shorter values.
_JUDGED = 16
_TELLING = 8
_SHORTEST_CHOSEN = 6
_RANDOM_KEY = 12
"""Letters and digits that must look random in a key; 8 are enough for other secrets."""

_GAP = re.compile(
    r"""(?ix)
      ^ [<{\[] | [>}] $ | \$ [({] | ^ % (?: [sdr] \b | \( ) | % [a-z_]\w{2,} %   # a template, a gap
    | ^ \$ (?-i: (?! [A-Z][a-z]+ \d{2} ) )      # a variable, and not `$Summer2019`
    | EXAMPLE | placeholder | change[_-]?(?:me|this|it) | redacted | dummy | your[_-]
    | x{8} | \*{4} | \.{4}
    """
)
"""Texts that are never a secret, even in a known format."""
_STAND_IN = re.compile(
    r"""(?ix)
      (?: public | private | secret ) _? key   # what a program calls a key
    | ^ my [_-] | ^ (?: insert | replace | enter | put ) [_-] | (?: goes | is ) [_-]? here
    | x{6} | \*{3} | \.{3}
    """
)
"""Fillers in the place of a secret."""
_MANUAL = re.compile(
    r"(?i)password|passwd|passwort|pass|pwd|secret|token|key|user|username|userpass|foo|bar|baz|xyz"
    r"|abc|thing|your@login|mypassword|mysecret"
)
"""Fillers in the place of a password, in manuals."""

_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OTHER = re.compile(
    r"""(?ix)
      (?: sha-?\d+ | md5 | blake2[bs] | h1 )[-_:=] .+     # a digest that says so
    | arn: .+
    | (?: vault | @Microsoft\.KeyVault | secretsmanager | ssm | sops | op ) [:(] .+   # where it is
    | [a-z][a-z0-9+.-]{1,24} :/ [^@]+                    # an address without credentials
    | (?: projects | organizations | folders | subscriptions | resourcegroups ) / .+
    | \d{4}-\d\d-\d\d (?: [t ]\d\d:?\d\d .{0,24} )?       # a time, as in ISO 8601
    | v?\d+\.\d+\.\d+ (?: [-+] [0-9a-z.+-]+ )?             # a version, semantic or of a Go module
    | \d+ (?: [_./:+~=x-] \d+ )*                        # numbers
    | err (?: or )? [_-]? \d+
    | [\w.+-]+ @ [\w-]+ (?: \.[\w-]+ )+                 # an address of mail
    """
)
_FILE = re.compile(
    r"""(?ix) [\w./@+-]+ \. (?: py[cdi]? | [cm]?js | jsx | ts | tsx | map | go | rs | java | c | h
    | cpp | rb | php | sh | sql | ya?ml | json | toml | ini | cfg | conf | env | xml | html? | css
    | md | txt | log | csv
    | lock | pem | crt | cer | key | pub | jks | p12 | pfx | kdbx | gpg | asc | so | dll | exe
    | zip | tgz | gz | tar | jar | whl | png | jpe?g | svg | pdf ) (?: :{1,2} [\w\[\]-]+ )*
    """
)
# A path or a member, unless nearly all of it looks random: base64 may begin with a slash.
_PATH = re.compile(
    r"(?i)(?:[~.]{0,2}/|[a-z]:[\\/])[\w .@%+-]+(?:[\\/][\w .@%+-]+)+/?"
    r"|[\w.@-]+(?:/[\w.@-]+)+(?::[\w.-]+)?|[a-z][\w-]*:v?\d+(?:\.[\w-]+)+"
)
_MEMBER = re.compile(r"[A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)+")
# Kubernetes appends random characters to names of resources.
_RESOURCE = re.compile(r"[a-z]+(?:-[a-z0-9]+)*-[a-z0-9]{5,10}(?:-[a-z0-9]{5})?")
# `handlers_v3.py:12:`, as `grep -n` writes it.
_LINE = re.compile(r"(?::\d+){0,2}:?$")
_MOSTLY = 0.6
# `&item_id`, `!vault`, `a||b`: source code, not a password.
_CODE = re.compile(
    r"^[&*+=|@,!]+[A-Za-z_]+$|^&\w+$|^\*[a-z]+_\w+$|^--?[a-z]|^[a-z_]+=[\d.]+$"
    r"|^!(?:vault|secret|env|ref|reference|sub|include|lookup)"
    r"|&&|\|\||==|!!|->|=>|::|\?\?|\?\."
)
_ALGORITHM = re.compile(
    r"(?i)\b(?:hs|rs|es|ps|sha|md|aes|pbkdf|scram|bcrypt|argon|rsa|ecdsa|ed|hmac|utf|base|http|tls"
    r"|oauth|v)[-_]?\d+\b"
)
_CHOSEN = re.compile(
    r"""(?x)
      (?=.*[^\W\d_])
      (?: (?=.*[!@#$%^&*?+~]) | (?=.*\d) ) [^\s]+
    """
)
_WORDS = re.compile(r"[a-z]+(?:[_-][a-z]+)+|[A-Z]+(?:[_-][A-Z]+)+")
# This many words make a message or a passphrase, but not a token.
_WORD, _SENTENCE = re.compile(r"(?<!\S)[^\W\d_]{2,}[.,;:!?]?(?!\S)"), 3
_SNAKE = re.compile(r"(?i)[a-z]+\d*(?:_[a-z]+\d*)+")


def is_plausible(value: str, *, loose: bool) -> bool:
    """Return whether *value* may be a secret; a *loose* rule's value must look random."""
    if _GAP.search(value) or not value.strip("xX0*.- "):
        return False
    if not loose:
        return len(value) < _JUDGED or entropy(value) >= _LEAST
    if _STAND_IN.search(value):
        return False
    return looks_random(value, NameKind.KEY) and not _UUID.fullmatch(value)


def is_of_manual(value: str) -> bool:
    """Return whether *value* is a filler for a password, as in manuals."""
    return bool(_MANUAL.fullmatch(value))


def looks_made(value: str) -> bool:
    """Return whether *value* is generated, not a word: a number, a UUID, or partly random."""
    if value.isdigit() or _UUID.fullmatch(value):
        return True
    if _STAND_IN.search(value):
        return False
    return _made_length(value) >= min(_TELLING, len(value) // 2)


def is_assigned_secret(value: str, kind: NameKind) -> bool:
    """Return whether *value* may be a secret beside a name of *kind*."""
    # The surer the name, the less its value must prove, so each kind of name ends elsewhere.
    is_chosen = kind is NameKind.CERTAIN or kind is NameKind.PASSWORD or _UUID.fullmatch(value)
    if not is_chosen and not looks_random(value, kind):
        return False  # The case of most values, so it comes first.
    if not is_plausible(value, loose=False) or is_of_manual(value) or _STAND_IN.search(value):
        return False
    if kind is NameKind.CERTAIN and len(value) >= _SHORTEST_CHOSEN:
        return not (_is_path(value) or _is_something_else(value)) or looks_random(value, kind)
    if _UUID.fullmatch(value):
        return kind is not NameKind.KEY
    if kind is NameKind.PASSWORD and _looks_chosen(value):
        return True
    if (kind is NameKind.SECRET or kind is NameKind.KEY) and len(_WORD.findall(value)) >= _SENTENCE:
        return False
    return looks_random(value, kind)


def looks_random(value: str, kind: NameKind) -> bool:
    """Return whether *value* looks as random as a secret beside a name of *kind* must."""
    # No single measure tells a token from words, numbers and paths, so all must agree.
    if len(value) < (_JUDGED if kind is NameKind.KEY else _TELLING):
        return False
    length = _made_length(value)
    if length < (_RANDOM_KEY if kind is NameKind.KEY else _TELLING):
        return False
    if entropy(value) < (_LEAST_LOOSE if len(value) >= _JUDGED else _LEAST):
        return False
    if _WORDS.fullmatch(value) or _is_something_else(value):
        return False
    if length > _MOSTLY * len(value):
        return True
    return not (_is_path(value) or _RESOURCE.fullmatch(value))


def _made_length(value: str) -> int:
    """Return the number of letters and digits of *value* outside words: random, or in sequence."""
    # "de" and "no" in a sequence of the alphabet look like words.
    is_row = len(value) >= _JUDGED and is_in_order(value) and re.search(r"\d", value)
    return len(value) if is_row else random_length(value)


def _looks_chosen(value: str) -> bool:
    """Return whether *value* looks like a chosen password: letters with digits or signs."""
    if len(value) < _SHORTEST_CHOSEN or not _CHOSEN.fullmatch(value) or _CODE.search(value):
        return False
    if _SNAKE.fullmatch(value) or _is_path(value) or _ALGORITHM.search(value):
        return False
    return not _is_something_else(value)


def _is_path(value: str) -> bool:
    """Return whether *value* has the form of a file's path or of a program's member access."""
    value = _LINE.sub("", value)
    return bool(_PATH.fullmatch(value) or _MEMBER.fullmatch(value))


def _is_something_else(value: str) -> bool:
    """Return whether *value* is a file, an address, a time, a version, a digest or a number."""
    return bool(_OTHER.fullmatch(value) or _FILE.fullmatch(_LINE.sub("", value)))


_QUOTES = b"\"'`"
_OPENING = 8
_COMMA = re.compile(rb"""[\\"'`\s]*,[\\"'`\sburf@$]*""")
# `NAME:` at the end of a line, and a value in the next one.
_NEXT_LINE = re.compile(rb"""["'`)\]]{0,3}[ \t]*[:=>]{0,2}\s*["'`]?""")
_BLANK = re.compile(r"\s")
# The first characters of a long value suffice, and any name inside of it has a value of its own.
_CACHED, _LONGEST = 1_024, 512
_LONGEST_LINE = 256
# `sha256=x9_…`: a part of a digest may look like any secret.
_DIGEST = re.compile(rb"(?i)(?:sha-?\d+|md5|integrity|digest|checksum)[=:-][\"'\w+/-]{0,60}\Z")
_DIGEST_REACH = 80
# A match between this many characters of base64 is a part of them.
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BLOB_REACH = 200


class Judge:
    """Judges the matches of rules in one record; a repeated value is judged once."""

    def __init__(self) -> None:
        # The caches hold secrets, so they live only as long as the scan of one record.
        self._is_plausible = lru_cache(maxsize=_CACHED)(_is_plausible)
        self._is_assigned_secret = lru_cache(maxsize=_CACHED)(is_assigned_secret)
        self.recurs = lru_cache(maxsize=_CACHED)(_recurs)
        """Whether an assumed value is the same secret wherever its record repeats it."""

    def is_likely(self, value: str, data: bytes, hit: Hit) -> bool:
        """Return whether *value*, matched by *hit* in *data*, may be a secret beside its name."""
        rule = hit.rule
        if not self._is_likely(value[:_LONGEST], data, hit):
            return False
        if rule.loose and _DIGEST.search(data, max(0, hit.start - _DIGEST_REACH), hit.start):
            return False
        return hit.name is not None or rule.foreign or not _is_in_blob(data, hit)

    def _is_likely(self, value: str, data: bytes, hit: Hit) -> bool:
        rule = hit.rule
        if hit.name is None and rule.kind is not None:
            return self._is_assigned_secret(value, rule.kind)
        if hit.name is None or not rule.loose:
            return self._is_plausible(value, rule)
        kind = _kind(data, hit)
        return kind is not None and self._is_assigned_secret(value, kind)


def _kind(data: bytes, hit: Hit) -> NameKind | None:
    """Return the kind of the value of *hit*, by its name and the text between the two."""
    start, end = hit.name or (0, 0)
    is_next_line = b"\n" in data[end : hit.start] and _NEXT_LINE.fullmatch(data, end, hit.start)
    if is_next_line and not _is_deeper(data, start, hit.start):
        return None
    kind = name_kind(name_at(data, start, end))
    if kind is not None and _COMMA.fullmatch(data, end, hit.start):
        return _kind_in_list(data, hit, kind)
    return kind


def _is_deeper(data: bytes, name: int, value: int) -> bool:
    """Return whether the line of the offset *value* is indented more than that of *name*."""
    indents = []
    for position in (name, value):
        line = data[max(data.rfind(b"\n", 0, position) + 1, position - _LONGEST_LINE) : position]
        indents.append(len(line) - len(line.lstrip(b" \t-")))
    return indents[0] < indents[1]


def _is_in_blob(data: bytes, hit: Hit) -> bool:
    """Return whether *hit* is only a part of a long run of base64."""
    before = data[max(0, hit.start - _BLOB_REACH) : hit.start]
    behind = data[hit.end : hit.end + _BLOB_REACH]
    size = len(before) - len(before.rstrip(_BASE64)) + len(behind) - len(behind.lstrip(_BASE64))
    return size >= _BLOB_REACH


def _recurs(value: str) -> bool:
    # As random as a key, so neither a path nor words.
    return _BLANK.search(value) is None and looks_random(value, NameKind.KEY)


def _is_plausible(value: str, rule: Rule) -> bool:
    if rule.keyed and not looks_made(value):
        return False
    return is_plausible(value, loose=rule.loose) and (rule.foreign or not is_of_manual(value))


def _kind_in_list(data: bytes, hit: Hit, kind: NameKind) -> NameKind | None:
    """Return the kind of a value behind a comma, or None if name and value are items of a list.

    `define('DB_PASSWORD', 'x')` is a name and its value; `['USERPWD', 'HTTP200ALIASES']` is a list.
    """
    if hit.name is None or data[hit.start - 1] not in _QUOTES:
        return None
    first = name_start(data, hit.name[0])
    if data.startswith(b"-", first):
        return kind  # A flag and its value, as in a list of arguments.
    before = data[max(0, first - _OPENING) : first].rstrip()
    is_first_argument = before[-1:] in _QUOTES and before[:-1].rstrip().endswith(b"(")
    return kind if is_first_argument else NameKind.KEY
