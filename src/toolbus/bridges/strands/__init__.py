"""The bridge to Strands: components as hooks of an agent."""

from toolbus.bridges.strands.hook_provider import StrandsBridge

__all__ = ["StrandsBridge"]
