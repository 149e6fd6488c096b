"""An agent in a terminal, or in a pipe: `toolbus run`."""
