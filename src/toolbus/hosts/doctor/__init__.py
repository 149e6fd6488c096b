"""`toolbus doctor`: the state of the hooks in each host."""
