"""Which server of a group has which resource: the first, in the order of the configuration."""

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

    def server_of(self, uri: str) -> str | None:
        """Return the name of the server that has *uri*, None if none has listed it.

        It may be a template itself.
        """
        for listed in self._listed.values():
            for server, uris in listed.items():
                if uri in uris:
                    return server
        for server, templates in self._listed["uriTemplate"].items():
            if any(_fits(uri, template) for template in templates):
                return server
        return None


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
