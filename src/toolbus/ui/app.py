"""The ASGI application of the page: its routes, behind its locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from toolbus.ui.state import UiState


def make_app(state: UiState) -> Starlette:
    """Return the application for *state*."""
    del state
    routes: list[BaseRoute] = []
    return Starlette(routes=routes)
