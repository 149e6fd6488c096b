"""Recorded sessions past other handlers."""

from toolbus.replay.replay import Options as Options
from toolbus.replay.replay import Replay as Replay
from toolbus.replay.replay import run_replay as run_replay
