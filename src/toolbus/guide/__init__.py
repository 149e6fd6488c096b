"""The guide: a page a topic, and how it is shown."""
