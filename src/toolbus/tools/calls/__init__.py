"""One tool call, from the request to the response."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.tools.calls.runner import ToolRunner as ToolRunner

__getattr__, __dir__ = lazy_exports(__name__, {"ToolRunner": "runner"})
