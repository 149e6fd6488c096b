"""Recorded sessions past other handlers."""

from toolbus.replay.replay import Replay as Replay
