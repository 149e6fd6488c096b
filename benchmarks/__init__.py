"""What toolbus costs, each figure beside a baseline of the same run: `python -m benchmarks`.

Contenders take turns of about 3 ms in one process, each with handlers whose code is theirs alone,
warmed before every turn; a figure is the least of 40 turns, and the median over fresh processes.
"The loop" is a function that calls the same number of handlers, one after another: what a program
without a bus would have. A whole public call is timed, never a part of it.

The command itself needs nothing but Python: it makes `.venv-benchmarks`, with toolbus and its
peers from PyPI, and says which of them could not be installed. With `--no-peers` or `--once` it
measures, or only runs, what the interpreter in use has anyway.
"""
