"""The identities of contexts: canonical JSON and its digest, by sections 10.1 and 10.2."""

from __future__ import annotations

import json
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Any

from toolbus.bridges.agent_hooks.mapping import PARTS, ContractError

if TYPE_CHECKING:
    from collections.abc import Mapping

_HASHED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("spec", "interception_point", "timestamp", "sequence"), ()),
    "agent": ("id", "framework"),
    "session": ("id",),
    "target": (),
    "messages": (),
    **{name: tuple(parts) for name, parts in PARTS.items()},
}
"""The members of a context that its identity covers, 10.2; () for a member as a whole."""
_MAX_INT = 2**53 - 1


def identity_of(context: Mapping[str, Any]) -> str:
    """Return the identity `jcs-sha256` of *context*, 10.2.

    Raises `ContractError` for integers beyond 53 bits, which readers of JSON round.
    """
    hashed = {
        name: {part: context[name][part] for part in parts} if parts else context[name]
        for name, parts in _HASHED.items()
        if name in context
    }
    return "sha256:" + sha256(canonical_json(hashed).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Return *value* in the form of RFC 8785; raises `ContractError` for lossy numbers."""
    match value:
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            if abs(value) > _MAX_INT:
                raise ContractError("context_invalid", "an integer beyond 53 bits")
            return str(value)
        case float():
            return _canonical_float(value)
        case dict():
            # By UTF-16 code units, in which some characters beyond 16 bits come earlier.
            names = sorted(value, key=lambda name: name.encode("utf-16-be"))
            pairs = [f"{canonical_json(name)}:{canonical_json(value[name])}" for name in names]
            return "{" + ",".join(pairs) + "}"
        case list() | tuple():
            return "[" + ",".join([canonical_json(item) for item in value]) + "]"
    raise ContractError("context_invalid", f"not JSON: {type(value).__name__}")


def _canonical_float(value: float) -> str:
    """Return *value* as ECMAScript writes it: ECMA-262, Number::toString."""
    if not isfinite(value):
        raise ContractError("context_invalid", "a number that is not finite")
    if value == 0:
        return "0"
    # Both languages take the shortest digits that give the number back.
    sign, numbers, exponent = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, numbers)).rstrip("0")
    point = len(numbers) + int(exponent)
    if len(digits) <= point <= 21:  # noqa: PLR2004 - as there
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:  # noqa: PLR2004 - as there
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:  # noqa: PLR2004 - as there
        text = "0." + "0" * -point + digits
    else:
        text = f"{digits[0]}.{digits[1:]}".rstrip(".") + f"e{point - 1:+d}"
    return "-" * sign + text
