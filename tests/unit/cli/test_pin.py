"""`toolbus pin` without a file to compare with."""

from toolbus.cli.command_line import main


def test_where_nothing_is_pinned_the_way_out_is_to_pin(tmp_path, capsys):
    file = tmp_path / "toolbus.lock"

    code = main(["pin", "--check", "--lock", str(file), "--tools", "files"])

    assert code == 2
    assert "no such file; first pin the tools, without --check" in capsys.readouterr().err
    assert not file.exists()
