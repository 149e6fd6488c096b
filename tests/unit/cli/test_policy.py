"""What `toolbus policy` writes for other programs."""

import io
import json

from toolbus.cli.output.stream import Output
from toolbus.cli.policy import compare


def test_the_results_of_a_table_have_names(tmp_path):
    (tmp_path / "policy.toml").write_text('default = "ask"\n')
    (tmp_path / "calls.toml").write_text('[[call]]\ncommand = "ls"\nverdict = "deny"\n')
    stream = io.StringIO()

    code = compare(Output(stream), tmp_path / "policy.toml", tmp_path / "calls.toml", as_json=True)

    (result,) = json.loads(stream.getvalue())
    assert code == 1
    assert result["row"]["command"] == "ls"
    assert (result["verdict"], result["difference"]) == ("ask", "expected deny, got ask")
