"""Whether a value that a rule found can be a secret at all, or only looks like one."""

from __future__ import annotations

import re

from toolbus.redaction.secrets.names import NameKind
from toolbus.redaction.secrets.randomness import entropy, is_in_order, random_length

# Of a value of random letters and digits nearly all have more; of words and of fillers few.
_LEAST, _LEAST_LOOSE = 2.0, 2.5
# Of what is shorter the entropy says nothing.
_JUDGED = 16
_TELLING = 8
_SHORTEST_CHOSEN = 6
_RANDOM_KEY = 12
"""Letters and digits of a key that must look random; of other secrets 8 must."""

_GAP = re.compile(
    r"""(?ix)
      ^ [<{\[] | [>}] $ | \$ [({] | ^ % (?: [sdr] \b | \( ) | % [a-z_]\w{2,} %   # a template, a gap
    | ^ \$ (?-i: (?! [A-Z][a-z]+ \d{2} ) )      # a variable, and not `$Summer2019`
    | EXAMPLE | placeholder | change[_-]?(?:me|this|it) | redacted | dummy | your[_-]
    | x{8} | \*{4} | \.{4}
    """
)
"""What no secret is, be its format known."""
_STAND_IN = re.compile(
    r"""(?ix)
      (?: public | private | secret ) _? key   # what a program calls a key
    | ^ my [_-] | ^ (?: insert | replace | enter | put ) [_-] | (?: goes | is ) [_-]? here
    | x{6} | \*{3} | \.{3}
    """
)
"""What stands in the place of a secret elsewhere."""
_MANUAL = re.compile(
    r"(?i)password|passwd|passwort|pass|pwd|secret|token|key|user|username|userpass|foo|bar|baz|xyz"
    r"|abc|thing|your@login|mypassword|mysecret"
)
"""What stands in the place of a password in manuals."""

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
# Kubernetes adds letters to the names of what it makes.
_RESOURCE = re.compile(r"[a-z]+(?:-[a-z0-9]+)*-[a-z0-9]{5,10}(?:-[a-z0-9]{5})?")
# `handlers_v3.py:12:`, as `grep -n` writes it.
_LINE = re.compile(r"(?::\d+){0,2}:?$")
_MOSTLY = 0.6
# `&item_id`, `!vault`, `a||b`: of a program, and no password.
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
# Of so many words a message is made, or a passphrase; but no token.
_WORD, _SENTENCE = re.compile(r"(?<!\S)[^\W\d_]{2,}[.,;:!?]?(?!\S)"), 3
_SNAKE = re.compile(r"(?i)[a-z]+\d*(?:_[a-z]+\d*)+")


def is_plausible(value: str, *, loose: bool) -> bool:
    """Tell whether *value* can be a secret; one that was found *loosely* must look random."""
    if _GAP.search(value) or not value.strip("xX0*.- "):
        return False
    if not loose:
        return len(value) < _JUDGED or entropy(value) >= _LEAST
    if _STAND_IN.search(value):
        return False
    return looks_random(value, NameKind.KEY) and not _UUID.fullmatch(value)


def is_of_manual(value: str) -> bool:
    """Tell whether *value* is what manuals write where a password belongs."""
    return bool(_MANUAL.fullmatch(value))


def looks_made(value: str) -> bool:
    """Tell whether *value* is no word of people or programs: a number, a UUID, or partly random."""
    if value.isdigit() or _UUID.fullmatch(value):
        return True
    if _STAND_IN.search(value):
        return False
    return _made_length(value) >= min(_TELLING, len(value) // 2)


def is_assigned_secret(value: str, kind: NameKind) -> bool:
    """Tell whether *value* can be a secret beside a name of *kind*."""
    is_chosen = kind is NameKind.CERTAIN or kind is NameKind.PASSWORD or _UUID.fullmatch(value)
    if not is_chosen and not looks_random(value, kind):
        return False  # As most values are, so this comes first.
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
    """Return how many letters and digits of *value* are of no word: random, or counted."""
    # "de" and "no" of the alphabet read like words.
    is_row = len(value) >= _JUDGED and is_in_order(value) and re.search(r"\d", value)
    return len(value) if is_row else random_length(value)


def _looks_chosen(value: str) -> bool:
    """Tell whether people choose passwords like *value*: of letters, and of digits or signs."""
    if len(value) < _SHORTEST_CHOSEN or not _CHOSEN.fullmatch(value) or _CODE.search(value):
        return False
    if _SNAKE.fullmatch(value) or _is_path(value) or _ALGORITHM.search(value):
        return False
    return not _is_something_else(value)


def _is_path(value: str) -> bool:
    """Tell whether *value* has the form of a path, of files or of a program's members."""
    value = _LINE.sub("", value)
    return bool(_PATH.fullmatch(value) or _MEMBER.fullmatch(value))


def _is_something_else(value: str) -> bool:
    """Tell whether *value* is a file, an address, a time, a version, a digest or a number."""
    return bool(_OTHER.fullmatch(value) or _FILE.fullmatch(_LINE.sub("", value)))
