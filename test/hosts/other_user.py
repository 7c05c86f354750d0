# SPDX-License-Identifier: Apache-2.0
"""The attacks that another user of a host can try on a job: run as that user, with the standard library
alone.

`python other_user.py plant|attack|look` reads what it may know as JSON from stdin, and writes a list of [name,
tried, result, harmless]. Everything that it uses it could find out by itself; the process ids only save it a
search.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import socket
import stat
import sys
from collections.abc import Callable, Iterator

TMP = pathlib.Path("/tmp")
SECONDS = 3.0
Row = tuple[str, str, str, bool]


def attempt(name: str, tried: str, does: Callable[[], tuple[str, bool]]) -> Row:
    """An attempt that the system refuses is harmless; else the attempt itself judges what it got."""
    try:
        return (name, tried, *does())
    except OSError as error:
        return (name, tried, f"refused: {error.strerror or error}", True)


def opens(path: str | pathlib.Path, flags: int) -> tuple[str, bool]:
    os.close(os.open(path, flags | os.O_NONBLOCK))
    return "opened", False


# --- what it leaves before the job starts ---


def plant_folder(folder: pathlib.Path, links: list[str], victim: str) -> None:
    """A folder that everybody may write to, with links to a file of the victim's."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o777)
    for link in links:
        with contextlib.suppress(OSError):
            (folder / link).symlink_to(victim)


def dump_names(ranks: int) -> list[str]:
    return [f"rank{rank}.json{end}" for rank in range(ranks) for end in ("", ".part")]


def plant(known: dict) -> Iterator[Row]:
    victim, user = known["victim"], known["user"]
    plant_folder(TMP / f"hora-{user}", [*dump_names(known["ranks"]), "dumps"], victim)
    yield (
        "private folder",
        f"made /tmp/hora-{user}, mode 777, with links to a file of the user's",
        "planted",
        True,
    )
    plant_folder(TMP / "output", ["summary.json", "summary.json.part"], victim)
    for rank in range(known["ranks"]):
        plant_folder(TMP / "output" / f"rank.{rank}", ["stdout", "stderr"], victim)
    yield ("--output-filename", "made the directory, mode 777, with links in it", "planted", True)
    os.symlink(victim, TMP / "trace.json")
    yield ("HORA_TIMELINE", "made a link of its name", "planted", True)
    plant_folder(TMP / "named", dump_names(known["ranks"]), victim)
    yield ("HORA_DUMP_DIR", "made the directory, mode 777, with links in it", "planted", True)


# --- what it does while the job runs ---


def processes(known: dict) -> Iterator[Row]:
    for pid in known["pids"]:
        for name in ("environ", "mem", "maps", "auxv", "stack"):
            yield attempt(
                "/proc",
                f"read {name} of {known['pids'][pid]}",
                lambda path=f"/proc/{pid}/{name}": opens(path, os.O_RDONLY),
            )
        for name in ("fd", "map_files"):
            yield attempt(
                "/proc",
                f"list {name} of {known['pids'][pid]}",
                lambda path=f"/proc/{pid}/{name}": (str(os.listdir(path)), False),
            )
        for name in ("cwd", "root", "exe"):
            yield attempt(
                "/proc",
                f"follow {name} of {known['pids'][pid]}",
                lambda path=f"/proc/{pid}/{name}": (os.readlink(path), False),
            )
        yield attempt(
            "/proc",
            f"look for the secret in cmdline of {known['pids'][pid]}",
            lambda pid=pid: shows_secret(pid, known),
        )
        yield attempt(
            "signal", f"end {known['pids'][pid]}", lambda pid=pid: (str(os.kill(int(pid), 15)), False)
        )


def shows_secret(pid: str, known: dict) -> tuple[str, bool]:
    text = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    secret = bytes.fromhex(known["secret"])
    found = secret in text or known["secret"].encode() in text or known["job"].encode() in text
    return (
        ("it has the secret or the job's id", False)
        if found
        else ("readable, with neither secret nor id", True)
    )


def everything_below(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for entry in sorted(folder.iterdir()):
        yield entry
        if not entry.is_symlink() and entry.is_dir():
            with contextlib.suppress(PermissionError):
                yield from everything_below(entry)


def files(known: dict) -> Iterator[Row]:
    """Attempts on all files of the job's user in /tmp."""
    for path in everything_below(TMP):
        found = path.lstat()
        if found.st_uid != known["user"] or stat.S_ISLNK(found.st_mode):
            continue
        if stat.S_ISDIR(found.st_mode):
            yield attempt(
                "files", f"list {known['name_of'](path)}", lambda path=path: (str(os.listdir(path)), False)
            )
            yield attempt(
                "files",
                f"make a file in {known['name_of'](path)}",
                lambda path=path: opens(path / "x", os.O_WRONLY | os.O_CREAT),
            )
            yield attempt(
                "files",
                f"rename {known['name_of'](path)}",
                lambda path=path: (str(os.rename(path, f"{path}-taken")), False),
            )
        elif not stat.S_ISSOCK(found.st_mode):
            yield attempt(
                "files", f"read {known['name_of'](path)}", lambda path=path: opens(path, os.O_RDONLY)
            )
            yield attempt(
                "files", f"write {known['name_of'](path)}", lambda path=path: opens(path, os.O_WRONLY)
            )


def names_that_others_see(known: dict) -> Iterator[Row]:
    """Attempts with every word that could be a job's id in names that all users see; folders of these names
    are made at once."""
    seen = pathlib.Path("/proc/net/unix").read_text() + " ".join(os.listdir(TMP))
    has_id = known["job"] in seen
    yield (
        "names",
        "look for the job's id in /proc/net/unix and /tmp",
        "it is there" if has_id else "it is not there",
        not has_id,
    )
    tokens = set(re.findall(r"[0-9a-f]{8,}", seen))
    for token in tokens:
        plant_folder(TMP / f"hora-{token}", dump_names(known["ranks"]), known["victim"])
    yield ("names", f"made /tmp/hora-NAME for the {len(tokens)} names that could be one", "planted", True)


def talk(connected: socket.socket, words: bytes) -> bytes:
    connected.settimeout(SECONDS)
    connected.sendall(words)
    answer = b""
    with contextlib.suppress(TimeoutError, ConnectionResetError):
        while part := connected.recv(65536):
            answer += part
    return answer


def ask_local(address: str) -> tuple[str, bool]:
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.settimeout(SECONDS)
        visitor.connect(address)
        try:
            answer = talk(visitor, b"POST /dump HTTP/1.0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
    return ("answered", False) if answer else ("closed without an answer", True)


def take_local(address: str) -> tuple[str, bool]:
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(address)
    return "taken", False


def local_sockets(known: dict) -> Iterator[Row]:
    shown = {
        line.split()[-1]
        for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
        if len(line.split()) == 8
    }
    addresses = {name: "\0" + name[1:] if name.startswith("@") else name for name in shown}
    addresses |= {name: name for name in known["sockets"]}
    for name, address in sorted(addresses.items()):
        short = known["name_of"](name)
        yield attempt("local socket", f"ask {short}", lambda address=address: ask_local(address))
        if name in shown:
            yield attempt("local socket", f"listen at {short}", lambda address=address: take_local(address))


def listening_ports(user: int) -> list[int]:
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return sorted(
        {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and int(row[7]) == user}
    )


def ask_port(port: int, words: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), SECONDS) as visitor:
        return talk(visitor, words)


def ports(known: dict) -> Iterator[Row]:
    for port in listening_ports(known["user"]):
        if port == known["metrics"]:
            yield from metrics(known)
            continue
        answer = ask_port(port, b"\0" * 92)
        yield (
            "port",
            "guess the proof at a port of rank 0",
            "answered" if answer else "no answer",
            not answer,
        )


def metrics(known: dict) -> Iterator[Row]:
    """All users of the machine may read them; pages of other machines' in a browser may not."""
    requests = {
        "GET /metrics of localhost": ("localhost", "GET /metrics", b" 200 "),
        "GET /metrics of evil.example (DNS rebinding)": ("evil.example", "GET /metrics", b" 403 "),
        "GET /status": ("localhost", "GET /status", b" 404 "),
        "POST /dump": ("localhost", "POST /dump", b" 404 "),
    }
    for name, (host, request, expected) in requests.items():
        answer = ask_port(known["metrics"], f"{request} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        line = answer.partition(b"\r\n")[0].decode()
        leak = known["secret"].encode() in answer or bytes.fromhex(known["secret"]) in answer
        yield (
            "--metrics PORT",
            name,
            f"{line}{', with the secret' if leak else ''}",
            expected in answer and not leak,
        )


def commands(known: dict) -> Iterator[Row]:
    for folder in (f"/tmp/hora-{known['user']}", known["private"]):
        yield attempt(
            "hrun status",
            f"find the job's socket in {known['name_of'](folder)}",
            lambda folder=folder: holds_socket(folder),
        )


def holds_socket(folder: str) -> tuple[str, bool]:
    found = [entry for entry in os.listdir(folder) if stat.S_ISSOCK(os.lstat(f"{folder}/{entry}").st_mode)]
    return ("it is there", False) if found else ("it is not there", True)


def attack(known: dict) -> Iterator[Row]:
    yield from names_that_others_see(known)
    for kind in (processes, files, local_sockets, ports, commands):
        yield from kind(known)


# --- what it finds when the job has failed ---


def own_folders(user: int) -> list[pathlib.Path]:
    return [
        entry
        for entry in TMP.iterdir()
        if not entry.is_symlink() and entry.is_dir() and entry.lstat().st_uid != user
    ]


def look(known: dict) -> Iterator[Row]:
    for folder in own_folders(known["user"]):
        for path in everything_below(folder):
            if path.lstat().st_uid == known["user"] and not path.is_symlink() and not path.is_dir():
                yield attempt(
                    "dumps",
                    f"read {known['name_of'](path)}, in a folder of its own",
                    lambda path=path: opens(path, os.O_RDONLY),
                )
    yield from files(known)


def main() -> None:
    known = json.load(sys.stdin)
    names = known.get("names", {})

    def name_of(path: object) -> str:
        text = str(path)
        for long, short in names.items():
            text = text.replace(long, short)
        return re.sub(r"\.[0-9a-f]{16}$", ".RANDOM", text)

    known["name_of"] = name_of
    rows = list({"plant": plant, "attack": attack, "look": look}[sys.argv[1]](known))
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
