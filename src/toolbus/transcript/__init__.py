"""The transcript, through which every message enters a session."""

from toolbus.transcript.transcript import Transcript as Transcript
from toolbus.transcript.views import Messages as Messages
