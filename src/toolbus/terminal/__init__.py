"""Text on a terminal."""

from toolbus.terminal.output import Output as Output
from toolbus.terminal.pieces import Piece as Piece
from toolbus.terminal.pieces import Styled as Styled
from toolbus.terminal.pieces import Tone as Tone
from toolbus.terminal.screen import Screen as Screen
from toolbus.terminal.screen import UsageError as UsageError
from toolbus.terminal.screen import open_screen as open_screen
