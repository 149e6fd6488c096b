"""Questions that wait for a person: the same scenarios on toolbus and on other systems."""

REQUIREMENTS = ("dbos", "langgraph-checkpoint-sqlite")
"""What pip installs for the other systems beside the peers' own packages."""
