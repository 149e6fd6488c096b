"""What a client says to servers that we did not write: one script for each, of all it can ask."""

import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from node_packages import program
from wires import Wire

Script = list[tuple[str, Any]]

CLIENT: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"roots": {}, "sampling": {}, "elicitation": {}},
    "clientInfo": {"name": "script", "version": "1"},
}
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
WRONG: Script = [
    ("ping", None),
    ("no/such-method", {"a": [1.0, 1e5, None]}),
    ("tools/call", {"name": "no-such-tool", "arguments": {}}),
    ("tools/list", {"cursor": "no-such-cursor"}),
    ("resources/read", {"uri": "demo://nowhere"}),
    ("prompts/get", {"name": "no-such-prompt"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {}}),
    ("logging/setLevel", {"level": "loud"}),
]
REPLIES: dict[str, Any] = {
    "roots/list": {"roots": []},
    "sampling/createMessage": {
        "model": "m",
        "role": "assistant",
        "content": {"type": "text", "text": "sampled"},
    },
    "elicitation/create": {"action": "decline"},
}
"""What the client answers to a server's questions."""


class Server(NamedTuple):
    """How to start a server, with which environment, and what to ask it."""

    command: list[str]
    script: Script
    environment: dict[str, str]
    slow: tuple[str, Any] | None = None


def call(name: str, /, **arguments: Any) -> tuple[str, Any]:
    """Return the request for a tool call."""
    return "tools/call", {"name": name, "arguments": arguments}


def everything(_folder: Path, _page: str) -> Server:
    """Return the server that shows all of the protocol."""
    complete = {
        "ref": {"type": "ref/prompt", "name": "completable-prompt"},
        "argument": {"name": "department", "value": "E"},
    }
    script = [
        call("echo", message="héllo 🎉"),
        call("echo", message="7"),
        call("echo", message=""),
        call("get-annotated-message", messageType="error", includeImage=True),
        call("get-resource-links", count=3),
        call("get-resource-reference", resourceType="Text", resourceId=1),
        call("get-structured-content", location="Chicago"),
        call("get-structured-content", location="New York"),
        call("get-sum", a=1, b=2.5),
        call("get-tiny-image"),
        call("gzip-file-as-resource", name="a.gz", data="data:text/plain,hi"),
        call("trigger-sampling-request", prompt="say it", maxTokens=5),
        call("trigger-elicitation-request"),
        call("get-roots-list"),
        ("resources/read", {"uri": "demo://resource/static/document/features.md"}),
        ("resources/read", {"uri": "demo://resource/dynamic/text/1"}),
        ("resources/read", {"uri": "demo://resource/dynamic/blob/2"}),
        ("resources/subscribe", {"uri": "demo://resource/dynamic/text/1"}),
        ("resources/unsubscribe", {"uri": "demo://resource/dynamic/text/1"}),
        ("prompts/get", {"name": "simple-prompt"}),
        ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Oslo"}}),
        ("prompts/get", {"name": "args-prompt"}),
        ("prompts/get", {"name": "resource-prompt",
                         "arguments": {"resourceType": "Text", "resourceId": "1"}}),
        ("completion/complete", complete),
        ("logging/setLevel", {"level": "debug"}),
        ("tools/call", {"name": "trigger-long-running-operation",
                        "arguments": {"duration": 0.2, "steps": 4},
                        "_meta": {"progressToken": "p-1"}}),
    ]  # fmt: skip
    slow = {
        "name": "trigger-long-running-operation",
        "arguments": {"duration": 600, "steps": 6000},
        "_meta": {"progressToken": "p-2"},
    }
    return Server(program("mcp-server-everything"), script, {}, slow=("tools/call", slow))


def filesystem(folder: Path, _page: str) -> Server:
    """Return the server of files."""
    (folder / "sub").mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n", "utf-8")
    (folder / "b.bin").write_bytes(bytes(range(256)))
    (folder / "sub/c.txt").write_text("é\r\n", "utf-8")
    at = str(folder)
    script = [
        call("list_allowed_directories"),
        call("read_text_file", path=f"{at}/a.txt"),
        call("read_text_file", path=f"{at}/a.txt", head=1),
        call("read_text_file", path=f"{at}/none.txt"),
        call("read_text_file", path="/etc/hostname"),
        call("read_media_file", path=f"{at}/b.bin"),
        call("read_multiple_files", paths=[f"{at}/a.txt", f"{at}/none", f"{at}/sub/c.txt"]),
        call("write_file", path=f"{at}/new.txt", content="n\u0000w"),
        call("edit_file", path=f"{at}/a.txt", edits=[{"oldText": "two", "newText": "2"}]),
        call("create_directory", path=f"{at}/made"),
        call("list_directory", path=at),
        call("directory_tree", path=at),
        call("move_file", source=f"{at}/new.txt", destination=f"{at}/made/new.txt"),
        call("search_files", path=at, pattern="**/*.txt"),
        call("get_file_info", path=f"{at}/a.txt"),
        call("get_file_info", path=f"{at}/none"),
    ]
    return Server([*program("mcp-server-filesystem"), at], script, {})


def memory(folder: Path, _page: str) -> Server:
    """Return the server that remembers."""
    entities = [
        {"name": name, "entityType": "person", "observations": ["is é"]} for name in ("Ann", "Bo")
    ]
    relation = {"from": "Ann", "to": "Bo", "relationType": "knows"}
    script = [
        call("read_graph"),
        call("create_entities", entities=entities),
        call("create_relations", relations=[relation]),
        call("add_observations", observations=[{"entityName": "Ann", "contents": ["sings"]}]),
        call("add_observations", observations=[{"entityName": "Nobody", "contents": ["x"]}]),
        call("search_nodes", query="sing"),
        call("open_nodes", names=["Bo"]),
        call("delete_observations", deletions=[{"entityName": "Ann", "observations": ["sings"]}]),
        call("delete_relations", relations=[relation]),
        call("delete_entities", entityNames=["Bo"]),
        call("create_entities", entities=[]),
        call("read_graph"),
    ]
    return Server(
        program("mcp-server-memory"), script, {"MEMORY_FILE_PATH": str(folder / "m.jsonl")}
    )


def git(folder: Path, _page: str) -> Server:
    """Return the server of a repository, in which every commit has the same date."""
    who = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.c", "GIT_COMMITTER_NAME": "A"}
    when = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "1767268800 +0000")
    more = {**who, **when, "GIT_COMMITTER_EMAIL": "a@b.c", "GIT_CONFIG_GLOBAL": os.devnull}
    at = str(folder)
    (folder / "a.txt").write_text("one\n", "utf-8")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", at, *words], check=True, env={**os.environ, **more})
    (folder / "a.txt").write_text("one\ntwo\n", "utf-8")
    script = [
        call("git_status", repo_path=at),
        call("git_diff_unstaged", repo_path=at),
        call("git_add", repo_path=at, files=["a.txt"]),
        call("git_diff_staged", repo_path=at),
        call("git_commit", repo_path=at, message="secönd"),
        call("git_log", repo_path=at, max_count=5),
        call("git_create_branch", repo_path=at, branch_name="other"),
        call("git_checkout", repo_path=at, branch_name="nowhere"),
        call("git_show", repo_path=at, revision="HEAD"),
        call("git_status", repo_path="/nowhere"),
        call("git_log", repo_path="/nowhere"),
    ]
    return Server([sys.executable, "-m", "mcp_server_git", "--repository", at], script, more)


def time(_folder: Path, _page: str) -> Server:
    """Return the server that tells the time."""
    asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    script = [
        call("get_current_time", timezone="Europe/Oslo"),
        call("get_current_time", timezone="Nowhere/Land"),
        call("convert_time", **asked),
        call("convert_time", **{**asked, "time": "noon"}),
        call("convert_time", **{**asked, "source_timezone": "Nowhere/Land"}),
    ]
    return Server([sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"], script, {})


def fetch(_folder: Path, page: str) -> Server:
    """Return the server that fetches *page*."""
    script = [
        call("fetch", url=page),
        call("fetch", url=page, raw=True),
        call("fetch", url=page, raw=True, max_length=20, start_index=5),
        call("fetch", url=f"{page}nothing"),
        call("fetch", url="no address"),
        call("fetch", url="not one either"),
        ("prompts/get", {"name": "fetch", "arguments": {"url": f"{page}nothing"}}),
        ("prompts/get", {"name": "fetch"}),
    ]
    return Server([sys.executable, "-m", "mcp_server_fetch", "--allow-private-ips"], script, {})


SERVERS = {make.__name__: make for make in (everything, filesystem, memory, git, time, fetch)}


async def talk(wire: Wire, server: Server) -> None:
    """Say all that the script has, one after the other, and answer what *server* asks."""
    numbers = count(1)
    await _ask(wire, next(numbers), "initialize", CLIENT)
    wire.send(method="notifications/initialized")
    for method in LISTS:
        cursor: dict[str, str] = {}
        while cursor is not None:
            answer = await _ask(wire, next(numbers), method, cursor)
            more = answer.get("result", {}).get("nextCursor")
            cursor = None if more is None else {"cursor": more}
    for method, params in (*server.script, *WRONG):
        await _ask(wire, next(numbers), method, params)
    await _cancel(wire, next(numbers), server)
    await _ask(wire, next(numbers), "ping", {"_meta": {"last": True}})


async def _ask(wire: Wire, own: int, method: str, params: Any) -> dict[str, Any]:
    wire.send(id=own, method=method, **({} if params is None else {"params": params}))
    while True:
        frame = await wire.frame()
        if "method" in frame and "id" in frame:
            wire.send(id=frame["id"], result=REPLIES[frame["method"]])
        elif frame.get("id") == own:
            return frame


async def _cancel(wire: Wire, own: int, server: Server) -> None:
    """Cancel a call that is under way if the server has a long one, else one that nobody made."""
    if server.slow is not None:
        method, params = server.slow
        wire.send(id=own, method=method, params=params)
        while (await wire.frame()).get("method") != "notifications/progress":
            pass
    params = {"requestId": own, "reason": "no more"}
    wire.send(method="notifications/cancelled", params=params)
