"""Personal data in texts: what it looks like, what proves it, and what stands for it."""
