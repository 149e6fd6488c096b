"""Questions on a terminal: shown, paged and answered."""
