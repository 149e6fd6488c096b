"""One tool call, from the request to the response."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_names import lazily

if TYPE_CHECKING:
    from toolbus.tools.calls.runner import ToolRunner as ToolRunner

__getattr__, __dir__ = lazily(__name__, {"ToolRunner": "runner"})
