"""The servers of a group by the resources that they list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EXPRESSION = re.compile(r"\{[^{}]*\}")
"""RFC 6570, 2.2; what one stands for is any text here, which is enough to find a server."""


class ResourceTable:
    """Resources and templates by server, as they were listed last."""

    def __init__(self) -> None:
        self._listed: dict[str, dict[str, set[str]]] = {"uri": {}, "uriTemplate": {}}

    def learn(self, method: str, listed: Mapping[str, Sequence[Any]]) -> None:
        """Take the items that servers listed when they were asked for *method*."""
        key = "uriTemplate" if method == "resources/templates/list" else "uri"
        self._listed[key] = {
            server: {str(item.get(key)) for item in items if isinstance(item, dict)}
            for server, items in listed.items()
        }

    def servers_of(self, uri: str) -> list[str]:
        """Return the names of the servers that list *uri*, or have a template that fits it.

        *uri* may be a template itself.
        """
        listed, templates = self._listed["uri"], self._listed["uriTemplate"]
        return [
            server
            for server in {**listed, **templates}
            if uri in listed.get(server, ())
            or any(uri == each or _fits(uri, each) for each in templates.get(server, ()))
        ]


def _fits(uri: str, template: str) -> bool:
    """Tell whether *uri* begins, goes on and ends as the plain text of *template* does."""
    first, *rest = _EXPRESSION.split(template)
    if not rest or not uri.startswith(first) or not uri.endswith(rest[-1]):
        return False
    position, end = len(first), len(uri) - len(rest[-1])
    for text in rest[:-1]:
        place = uri.find(text, position, end)
        if place < 0:
            return False
        position = place + len(text)
    return position <= end
