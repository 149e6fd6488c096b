"""The check of a store, and the recovery of a damaged file's readable rows."""
