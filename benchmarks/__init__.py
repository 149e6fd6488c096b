"""What toolbus costs, each claim beside its baseline in the same run: `python -m benchmarks`."""
