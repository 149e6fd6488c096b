"""The transcript: the only way in which a message enters a session."""

from toolbus.transcript.transcript import Transcript as Transcript
from toolbus.transcript.views import Messages as Messages
