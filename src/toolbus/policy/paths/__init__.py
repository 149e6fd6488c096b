"""Which files a call touches."""
