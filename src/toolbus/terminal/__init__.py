"""Text on a terminal."""

from toolbus.settings.spans import Span as Span
from toolbus.settings.spans import Style as Style
from toolbus.settings.usage_error import UsageError as UsageError
from toolbus.terminal.output import Output as Output
from toolbus.terminal.screen import Screen as Screen
from toolbus.terminal.screen import open_screen as open_screen
