"""The engine DBOS, on the store's database; the only file that imports dbos."""
