"""Runs of agents as durable workflows, on many machines, with one database."""
