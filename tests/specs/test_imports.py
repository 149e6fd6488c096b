"""The scenarios of `specs/imports.md`."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import metadata

import pytest

NAMES = {
    "toolbus.store": {"MemoryStore": "memory", "SqliteStore": "sqlite", "Store": "protocol"},
    "toolbus.models": {
        "AnthropicModel": ".providers.anthropic",
        "Model": "protocol",
        "OpenAIModel": ".providers.openai",
        "ReplayModel": ".providers.replay",
        "ScriptedModel": "scripted",
    },
    "toolbus.truncation": {"TruncateOutput": "truncate_output"},
    "toolbus.redaction": {
        "RedactPersonalData": "redact_personal_data",
        "RedactSecrets": "redact_secrets",
    },
    "toolbus.policy": {"Policy": "policy"},
    "toolbus.mcp.client": {"McpTools": "toolset", "tools": "toolset"},
}
LIBRARIES = [
    *("re2", "phonenumbers", "publicsuffixlist", "stdnum", "mcp", "hypothesis", "h11"),
    *("anthropic", "openai", "cel_expr_python"),
]
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({LIBRARIES!r}))\n"


def python(*arguments, check=True):
    """Return what a fresh interpreter did."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check, env=plain)


def loaded_by(code):
    """Return the modules that a fresh interpreter has loaded after *code*."""
    return set(
        json.loads(
            python("-c", f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]))").stdout
        )
    )


@pytest.mark.parametrize("package", NAMES)
def test_names_come_from_their_packages(package):
    holder = import_module(package)

    for name, module in NAMES[package].items():
        assert getattr(holder, name) is getattr(import_module(f".{module}", package), name)
        assert name in dir(holder)
    assert not hasattr(holder, "Nothing")
    if package == "toolbus.store":
        code = "import toolbus.store\ntoolbus.store.SqlitStore"
        assert "Did you mean: 'SqliteStore'?" in python("-c", code, check=False).stderr


def test_only_the_imported_names_are_loaded():
    lazy = [
        *("toolbus.store.memory", "toolbus.store.sqlite", "toolbus.models.scripted"),
        *("toolbus.providers.replay", "toolbus.truncation.truncate_output"),
        *("toolbus.redaction.redact_secrets", "toolbus.redaction.redact_personal_data"),
    ]
    rooms = "import toolbus.store, toolbus.models, toolbus.truncation, toolbus.redaction"

    alone = loaded_by(rooms)
    memory = loaded_by("from toolbus.store import MemoryStore")
    scripted = loaded_by("from toolbus.models import ScriptedModel")
    secrets = loaded_by("from toolbus.redaction import RedactSecrets")

    assert not alone & {*lazy, *LIBRARIES, "asyncio", "sqlite3"}
    assert "toolbus.store.memory" in memory
    assert not memory & {"sqlite3", "toolbus.store.sqlite"}
    assert not scripted & {"toolbus.providers.replay", "toolbus.providers.openai", "openai"}
    assert not secrets & {"phonenumbers", "stdnum", "toolbus.redaction.redact_personal_data"}


@pytest.mark.parametrize(
    ("extra", "use"),
    [
        ("redact", "from toolbus.redaction import RedactSecrets; RedactSecrets()"),
        ("personal", "from toolbus.redaction import RedactPersonalData; RedactPersonalData()"),
        ("mcp", "from toolbus.mcp.client import tools"),
        ("testing", "from toolbus.testing import check_guard"),
        ("http", "import toolbus.http.server"),
        ("anthropic", "from toolbus import Agent; Agent('anthropic:m')"),
        ("openai", "from toolbus import Agent; Agent('openai:m')"),
    ],
)
def test_missing_extras_say_how_to_install(extra, use):
    done = python("-c", f"{WITHOUT}{use}", check=False)

    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert re.match(r"(ImportError|toolbus\.errors\.RegistrationError): .+ needs? [\w ]+;", line)
    assert f"`pip install '.[{extra}]'`" in line
    assert extra in metadata("toolbus").get_all("Provides-Extra")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("toolbus.redaction", "Redaction of credentials and personal data"),
        ("toolbus.redaction.redact_secrets", "Replaces credentials by placeholders"),
        ("toolbus.redaction.redact_personal_data", "Replaces personal data"),
        ("toolbus.truncation", "truncation of large texts"),
        ("toolbus.truncation.truncate_output", "class TruncateOutput"),
        ("toolbus.policy", "rules that allow, ask about or deny"),
        ("toolbus.policy.policy", "A policy judges commands; it is not a sandbox."),
        ("toolbus.testing", "Tools for tests of your handlers and stores"),
    ],
)
def test_documentation_needs_no_extra(name, words):
    code = f"{WITHOUT}import pydoc; print(pydoc.plain(pydoc.render_doc({name!r})))"

    assert words in python("-c", code).stdout
