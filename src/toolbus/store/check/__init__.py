"""The check of a store, and a new file with all that can be read of a damaged one."""
