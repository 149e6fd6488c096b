"""The agent: a model, tools, components and a session on one bus."""

from toolbus.agent.agent import Agent as Agent
