"""JSON for programs that may also end up on a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolbus.messages.codec import encode

if TYPE_CHECKING:
    from toolbus.terminal.output import Output

# JSON itself escapes those below the space only; these steer terminals, too.
_CONTROLS = re.compile(r"[\x7f-\x9f]")


def print_json(output: Output, value: Any) -> None:
    """Write *value* as one line of JSON, every control character escaped."""
    text = encode(value).decode()
    output.write(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
