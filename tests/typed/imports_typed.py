"""Lines about names from their packages that mypy and pyright check; nothing runs them."""

from typing import assert_type

from toolbus.models import ReplayModel, ScriptedModel
from toolbus.redaction import RedactPersonalData, RedactSecrets
from toolbus.store import MemoryStore, SqliteStore
from toolbus.truncation import TruncateOutput


def made() -> None:
    assert_type(SqliteStore("agent.db"), SqliteStore)
    assert_type(MemoryStore(), MemoryStore)
    assert_type(ScriptedModel(["hi"]), ScriptedModel)
    assert_type(ReplayModel([]), ReplayModel)
    assert_type(RedactSecrets(), RedactSecrets)
    assert_type(RedactPersonalData(), RedactPersonalData)
    assert_type(TruncateOutput(), TruncateOutput)
