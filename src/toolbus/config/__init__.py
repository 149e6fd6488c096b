"""A `toolbus.toml`: which components, with which settings, for which tools."""

from toolbus.config.configuration import Configuration as Configuration
from toolbus.config.configuration import Configured as Configured
from toolbus.config.configuration import load as load
from toolbus.config.configuration import read as read
from toolbus.config.configuration import read_nearest as read_nearest
from toolbus.config.documents import find as find
from toolbus.config.entries import Entry as Entry
