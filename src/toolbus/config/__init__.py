"""A `toolbus.toml`: which components, with which settings, for which tools."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.config.configuration import Configuration as Configuration
    from toolbus.config.configuration import ConfiguredComponent as ConfiguredComponent
    from toolbus.config.configuration import load as load
    from toolbus.config.configuration import read as read
    from toolbus.config.configuration import read_nearest as read_nearest
    from toolbus.config.documents import find as find
    from toolbus.config.entries import Entry as Entry

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Configuration": "configuration",
        "ConfiguredComponent": "configuration",
        "Entry": "entries",
        "find": "documents",
        "load": "configuration",
        "read": "configuration",
        "read_nearest": "configuration",
    },
)
