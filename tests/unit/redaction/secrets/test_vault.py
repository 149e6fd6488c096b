import pytest

from toolbus import ToolCall, ToolSpec
from toolbus.errors import RegistrationError
from toolbus.messages.immutable import thaw
from toolbus.redaction import VaultEntry
from toolbus.redaction.secrets.vault import Vault, is_read, runs, vault_entries


def filled(arguments, *paths, **options):
    vault = Vault(vault_entries([VaultEntry("use", paths, **options)]))
    call = ToolCall(id="c", name="use", arguments=arguments)
    return vault.filled(call, lambda text: text.replace("x", "VALUE"))


@pytest.mark.parametrize(
    ("arguments", "path", "after"),
    [
        ({"a": "x", "b": "x"}, "a", {"a": "VALUE", "b": "x"}),
        ({"a": {"b": "x", "c": "x"}}, "a.b", {"a": {"b": "VALUE", "c": "x"}}),
        ({"a": [{"b": "x"}, {"c": "x"}, "x"]}, "a.b", {"a": [{"b": "VALUE"}, {"c": "x"}, "x"]}),
        ({"a": ["x", ["x", 1, None]]}, "a", {"a": ["VALUE", ["VALUE", 1, None]]}),
        ({"a.b": "x", "a": {"b": "x"}}, "a.b", {"a.b": "VALUE", "a": {"b": "VALUE"}}),
        ({"a": {"x": "x"}}, "a", {"a": {"x": "VALUE"}}),
        ({"a": {"code": "x", "shellCommand": ["x"]}}, "a", None),
        ({"ab": "x", "b": "x"}, "a", None),
        ({"a": 5}, "a.b.c", None),
    ],
)
def test_values_stand_at_paths_alone(arguments, path, after):
    call = ToolCall(id="c", name="use", arguments=arguments)
    other = ToolCall(id="c", name="other", arguments=arguments)

    assert thaw(filled(arguments, path).arguments) == (after or arguments)
    vault = Vault(vault_entries([VaultEntry("use", (path,))]))
    assert vault.filled(other, str.upper) is other
    assert vault.filled(call, str) is call


def test_who_knows_fills_what_is_run():
    arguments = {"command": "echo x", "a": {"code": "x"}}

    after = filled(arguments, "command", "a", i_know=True).arguments

    assert thaw(after) == {"command": "echo VALUE", "a": {"code": "VALUE"}}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("command", "runs"),
        ("shell_cmd", "runs"),
        ("bashScript", "runs"),
        ("CODE", "runs"),
        ("source-code", "runs"),
        ("code_block", "runs"),
        ("query", "reads"),
        ("sqlStatement", "reads"),
        ("expression", "reads"),
        ("auth_code", ""),
        ("zipcode", ""),
        ("description", ""),
        ("token", ""),
        ("shelf", ""),
    ],
)
def test_names_tell_who_reads(name, verdict):
    assert (runs(name), is_read(name)) == (verdict == "runs", verdict != "")


def test_a_schema_tells_who_runs_as_well():
    vault = Vault(vault_entries([{"tool": "us*", "arguments": ["env"]}]))
    call = ToolCall(id="c", name="use", arguments={"env": "x"})
    spec = ToolSpec(name="use", input_schema={"type": "object", "properties": {"script": {}}})
    known = Vault(vault_entries([{"tool": "use", "arguments": ["env"], "i_know": True}]))

    assert "has an argument 'script'" in vault.objection(call, spec)
    assert vault.objection(call, None) is None
    assert known.objection(call, spec) is None


@pytest.mark.parametrize(
    "setting",
    [
        5,
        {"tool": "deploy"},
        [{"tool": "deploy", "arguments": "token"}],
        [{"tool": "deploy", "arguments": [""]}],
        [{"tool": "deploy", "arguments": [5]}],
        [{"tool": "deploy", "arguments": ["token"], "i_know": "yes"}],
        [{"tool": "?*", "arguments": ["token"]}],
        [{"arguments": ["token"]}],
        [None],
    ],
)
def test_wrong_entries_show_a_right_one(setting):
    with pytest.raises(RegistrationError) as raised:
        vault_entries(setting)

    assert 'arguments = ["token"] }]' in str(raised.value)
    assert vault_entries([{"tool": "deploy", "arguments": ["token"]}])[0].tool == "deploy"
