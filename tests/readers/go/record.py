"""Write `results.jsonl`, what Go reads: `python tests/readers/go/record.py`, where Go is."""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "plugins"))

from hostile_frames import answer, request  # noqa: E402 - found by the path above
from hostile_streams import reply  # noqa: E402
from hunts import built_go  # noqa: E402
from other_readers import read  # noqa: E402

LONGEST = 400
CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}'
KNOWN = {
    "server": (
        *('{"METHOD":"tools/call","params":{}}', '{"method":"a","Method":"b","mEthod":"c"}'),
        *('{"Method":"a","method":"b"}', '{"method":"a","method":null}', '{"method":7,"id":1}'),
        *(
            '{"method":"a","id":{"a":1,"a":2}}',
            '{"method":"a","id":1e400}',
            "null",
            "[]",
            "7",
            '"a"',
        ),
        *('{"method":"tools/call","param\u017f":{"name":"x"}}', '{"method":"tools/call"}'),
        *('[{"method":"a"},{"method":"b"}]', '[[{"method":"a"}]]', '{"method":"a"}{"method":"b"}'),
        *(
            '{"method":"a"} 7 {"method":"b"}',
            '{"method":"a"},{"method":"b"}',
            '\ufeff{"method":"a"}',
        ),
        *("\u2028" + '{"method":"a"}\u2028', "\x0b" + '{"method":"a"}\x0c', '{"method":"a",}'),
        *(
            '{"method":"a"}\r\n{"method":"b"}\n',
            '{"method":\r"a"}',
            '{"method":"a\tb"}',
            '{"method":NaN}',
        ),
        CALL % '{"name":"x","NAME":"y","arguments":{"a":1,"a":2}}',
        CALL % '{"name":"x","arguments":{"a":{"b":1}},"arguments":{"a":{"c":2},"d":3}}',
        CALL % '{"arguments":{"path":1,"Path":2,"tas\u212a":3,"ta\u017fk":4,"KEY":null}}',
        CALL % '{"name":"x","arguments":null}',
        CALL % '{"name":"x","arguments":[1]}',
        CALL % '{"name":["x"],"arguments":{}}',
        CALL % "null",
        (CALL % '{"name":"x"}')[:-1] + ',"params":{"arguments":{"n":1}}}',
        CALL % '{"name":"\\ud83d\\u0041","arguments":{"\\ude00":"\\ud83d\\ude00"}}',
        CALL % '{"name":"x","arguments":{"n":123456789012345678,"m":-0,"o":1e22,"p":1.0}}',
    ),
    "client": (
        *(
            '{"id":1,"result":{},"RESULT":{"a":1}}',
            '{"id":1,"result":1e999}',
            '{"id":1,"error":null}',
        ),
        *(
            '{"id":1,"re\u017fult":{}}',
            '{"id":1,"result":{"a":1,"A":2}}',
            '{"ID":1,"id":2,"Id":null}',
        ),
    ),
    "stream": (
        *('data: {"id":1}\n\n', 'data: {"id":1}\r\n\r\n', 'data: {"id":1}\r\r', 'data: {"id":1}\n'),
        *('data\ndata: {"id":1}\n\n', 'data: {"id":\ndata: 1}\n\n', 'event: x\ndata: {"id":1}\n\n'),
        *('\ufeffdata: {"id":1}\n\n', ' data: {"id":1}\n\n', 'id: 1\rdata: {"id":1}\n\n'),
    ),
    "body": ('{"id":1}', '{"id":1}{"id":2}', '[{"id":1}]', '\r\n{"id":1}\n'),
}
BYTES = (b"\xed\xa0\xbd\xed\xb8\x80", b"\xc0\xaf", b"\xff", b"\xe2\x82", b"\xf0\x9f\x98", b"\x7f")


def drawn(mode, count):
    """Return the first *count* that are short, of those that hostile seeds give."""
    found, seed = [], 0
    while len(found) < count:
        seed += 1
        data = {"server": request, "stream": lambda one: b"".join(reply(one).pieces)}.get(
            mode, lambda one: answer(one).data
        )(seed)
        if len(data) <= LONGEST:
            found.append(data)
    return found


def main():
    """Write the table."""
    counts = {"server": 160, "client": 80, "stream": 60, "body": 20}
    with tempfile.TemporaryDirectory() as folder, (HERE / "results.jsonl").open("w") as table:
        go = [str(built_go(Path(folder)))]
        for mode, count in counts.items():
            cases = [one.encode("utf-8", "surrogatepass") for one in KNOWN[mode]]
            if mode == "server":
                cases += [b'{"method":"%b","%b":1}' % (one, one) for one in BYTES]
            cases += drawn(mode, count)
            for data, said in zip(cases, read(go, mode, [(one,) for one in cases]), strict=True):
                row = {"mode": mode, "data": data.decode("latin-1"), "read": said}
                table.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
