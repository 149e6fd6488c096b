"""Rules of a policy: their tables, their conditions, and the verdict on a call."""
