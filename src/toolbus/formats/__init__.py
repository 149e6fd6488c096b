"""Recorded sessions of others, and our own, as items."""

from toolbus.formats.items import Aside as Aside
from toolbus.formats.items import Closed as Closed
from toolbus.formats.items import Item as Item
from toolbus.formats.items import Noted as Noted
from toolbus.formats.items import Opened as Opened
from toolbus.formats.items import Problem as Problem
from toolbus.formats.items import Reader as Reader
from toolbus.formats.items import Said as Said
from toolbus.formats.lines import LINE_LIMIT as LINE_LIMIT
from toolbus.formats.reading import FORMATS as FORMATS
from toolbus.formats.reading import read as read
