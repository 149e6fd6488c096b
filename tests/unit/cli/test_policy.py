"""What `toolbus policy` writes for other programs."""

import json

from toolbus.cli.command_line import main


def test_the_results_of_a_table_have_names(tmp_path, capsys):
    policy, table = tmp_path / "policy.toml", tmp_path / "calls.toml"
    policy.write_text('default = "ask"\n')
    table.write_text('[[call]]\ncommand = "ls"\nverdict = "deny"\n')

    code = main(["policy", "test", str(policy), str(table), "--json"])

    (result,) = json.loads(capsys.readouterr().out)
    assert code == 1
    assert result["row"]["command"] == "ls"
    assert (result["verdict"], result["difference"]) == ("ask", "expected deny, got ask")


def test_an_explained_protection_is_a_noun(tmp_path, capsys):
    policy = tmp_path / "policy.toml"
    policy.write_text('default = "allow"\n')

    main(["policy", "explain", str(policy), "--command", "cat /proc/self/cwd/a"])

    assert "ask, by a protection that no rule lifts: " in capsys.readouterr().out
