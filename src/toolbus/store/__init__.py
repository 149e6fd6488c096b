"""Where the messages of a session are kept, and what is kept beside them."""

from toolbus.store.protocol import Original as Original
from toolbus.store.protocol import Position as Position
from toolbus.store.protocol import SessionInfo as SessionInfo
from toolbus.store.protocol import Store as Store
from toolbus.store.protocol import Stored as Stored
