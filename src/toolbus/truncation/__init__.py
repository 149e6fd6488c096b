"""The truncation of large texts and JSON values; the whole is kept for reading on."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.truncation.truncate_output import TruncateOutput as TruncateOutput

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "TruncateOutput": "truncate_output",
    },
)
