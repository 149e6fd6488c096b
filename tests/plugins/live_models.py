"""Any model for a test: fakes on three wires, or, at the level `live`, those that a person names.

`TOOLBUS_TESTS=live` runs the scenarios of `specs/any_model.md`, and nothing else, on the models of
`TOOLBUS_LIVE_MODELS="anthropic:NAME openai:NAME"`; keys and addresses are those of the environment,
as for `Agent("anthropic:NAME")`. At other levels the very same tests run on fakes.
"""

import os
from contextlib import asynccontextmanager

import pytest
from tests.servers.fake_provider import FakeProvider

from toolbus.errors import RegistrationError
from toolbus.models.names import PROVIDERS, model_named

VARIABLE = "TOOLBUS_LIVE_MODELS"
FIXTURE = "any_model"
IS_LIVE = os.environ.get("TOOLBUS_TESTS") == "live"


def live_names():
    """Return the models that a person names; raises `pytest.UsageError` if they cannot be asked."""
    names = os.environ.get(VARIABLE, "").replace(",", " ").split()
    if not names:
        example = f'{VARIABLE}="anthropic:NAME openai:NAME"'
        raise pytest.UsageError(f"TOOLBUS_TESTS=live needs models to ask; set {example}")
    for name in names:
        try:
            model_named(name)
        except (ImportError, RegistrationError) as error:
            raise pytest.UsageError(f"{VARIABLE}: {error}") from None
    return names


def pytest_configure(config):
    """Refuse a live level without models before anything is collected."""
    if IS_LIVE:
        live_names()


def pytest_generate_tests(metafunc):
    """Have a test that takes `any_model` run on each."""
    if FIXTURE in metafunc.fixturenames:
        names = live_names() if IS_LIVE else [f"fake-{name}" for name in PROVIDERS]
        metafunc.parametrize(FIXTURE, names, indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what asks no model of a live run, whatever path was given."""
    if IS_LIVE:
        others = [item for item in items if FIXTURE not in item.fixturenames]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if FIXTURE in item.fixturenames]


@pytest.fixture(name=FIXTURE)
def any_model_fixture(request):
    """Return what opens a model, which answers as the *script* says if it is a fake."""

    @asynccontextmanager
    async def opened(*script):
        if not request.param.startswith("fake-"):
            async with model_named(request.param) as model:
                yield model
            return
        provider = request.param.removeprefix("fake-")
        async with FakeProvider(script) as server:
            url = server.url if provider == "anthropic" else f"{server.url}/v1"
            async with model_named(f"{provider}:m", base_url=url) as model:
                yield model
            assert not server.answers, "the script has answers that nobody asked for"

    return opened
