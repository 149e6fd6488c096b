"""Recorded sessions past other handlers."""

from toolbus.replay.replay import Replay as Replay
from toolbus.replay.replay import ReplayOptions as ReplayOptions
from toolbus.replay.replay import run_replay as run_replay
