"""The transcript: the only way in which a message enters a session."""

from toolbus.transcript.transcript import Messages as Messages
from toolbus.transcript.transcript import Transcript as Transcript
