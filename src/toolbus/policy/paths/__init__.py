"""Files and hosts that a call touches."""
