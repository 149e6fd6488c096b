"""Recorded sessions in toolbus's own and other formats, read as items."""

from toolbus.formats.items import Item as Item
from toolbus.formats.items import MessageItem as MessageItem
from toolbus.formats.items import Problem as Problem
from toolbus.formats.items import Reader as Reader
from toolbus.formats.items import RecordItem as RecordItem
from toolbus.formats.items import SessionEnd as SessionEnd
from toolbus.formats.items import SessionStart as SessionStart
from toolbus.formats.items import SkippedLine as SkippedLine
from toolbus.formats.session_files import FORMATS as FORMATS
from toolbus.formats.session_files import LINE_LIMIT as LINE_LIMIT
from toolbus.formats.session_files import read as read
