"""The run of one hook event: client, worker, chain, the dialect's answer."""
