"""Runs of agents as durable workflows, on many machines with a shared database."""
