# SPDX-License-Identifier: Apache-2.0
"""Joining the job of a torchrun, on one host: its processes find each other, and share a secret, as hrun's ranks do.

Rank 0 listens on a Unix domain socket whose name follows from the variables that torchrun gives to all of its processes,
and hands the rest of them the port and the secret of the job. The kernel tells both sides whose process the other is.
So there is no file to be left behind, and nothing that another user of the host can read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import struct
import time

from hora._errors import HoraArgumentError, HoraInternalError, HoraTimeoutError

_PAUSE = 0.01  # seconds between tries to reach a rank 0 that is not there yet
_RANK = struct.Struct("!I")
_SEAT = struct.Struct("!H32s")  # the port of rank 0, and the secret
_JOINED, _REFUSED = b"+", b"-"  # how an answer begins; then comes a seat, or a reason
_LONGEST_ANSWER = 1 << 16
_LAST_WORDS = 1.0  # seconds that rank 0 has to say whom it missed
_CREDENTIALS = struct.Struct("3i")  # a process, its user, its group


def adopt() -> None:
    """If torchrun started this process, and hrun did not, sets the variables that hrun would have set, for good. Waits for
    rank 0; on rank 0 for all others.

    Raises:
        HoraArgumentError: torchrun started ranks on several hosts, or a variable makes no sense.
        HoraTimeoutError: they did not come within HORA_START_TIMEOUT seconds; it names them.
        HoraInternalError: another user's process sits where this job meets.
    """
    if "HORA_RANK" in os.environ or "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    rank, size, local_size = (_number(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if local_size != size:
        raise HoraArgumentError(f"torchrun started {size} ranks, {local_size} of them on this host: this version joins ranks on one host")
    deadline = time.monotonic() + _start_timeout()
    place = _meeting_place()
    variables = _meet_as_first(place, size, deadline) if rank == 0 else _meet_first(place, rank, deadline)
    for name, value in {"RANK": rank, "SIZE": size, "LOCAL_RANK": rank, "LOCAL_SIZE": size, "CROSS_RANK": 0, "CROSS_SIZE": 1, **variables}.items():
        os.environ[f"HORA_{name}"] = str(value)


def _number(name: str) -> int:
    value = os.environ.get(name, "")
    if not value.isdecimal():
        raise HoraArgumentError(f"{name}='{value}': torchrun gives each of its processes a whole number")
    return int(value)


def _start_timeout() -> float:
    """Seconds; the default is that of core/include/hora/config.h."""
    value = os.environ.get("HORA_START_TIMEOUT") or "30"
    try:
        return float(value)
    except ValueError:
        raise HoraArgumentError(f"HORA_START_TIMEOUT='{value}': expected seconds") from None


def _meeting_place() -> bytes:
    """In the abstract namespace: it is gone with the socket."""
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
    job = "\n".join(os.environ.get(name, "") for name in names)
    return b"\0hora." + hashlib.sha256(f"{os.getuid()}\n{job}".encode()).hexdigest().encode()


def _is_own(peer: socket.socket) -> bool:
    """Whether a process of the same user, or root's, is at the other end."""
    _, user, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return user in (os.getuid(), 0)


def _meet_as_first(place: bytes, size: int, deadline: float) -> dict[str, object]:
    door = socket.create_server(("127.0.0.1", 0), backlog=size)
    port: int = door.getsockname()[1]
    secret = os.urandom(32)
    peers: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        lobby = stack.enter_context(socket.socket(socket.AF_UNIX))
        try:
            lobby.bind(place)
        except OSError as error:
            raise HoraInternalError(f"another process sits where the ranks of this torchrun meet: {error.strerror}") from error
        lobby.listen(size)
        while len(peers) < size - 1:
            lobby.settimeout(_rest(deadline))
            try:
                peer = stack.enter_context(lobby.accept()[0])
                peer.settimeout(_rest(deadline))
                rank = _receive(peer, _RANK.size) if _is_own(peer) else b""
            except TimeoutError:
                late = _late("rank " + ", rank ".join(str(rank) for rank in range(1, size) if rank not in peers))
                _answer(peers, _REFUSED + str(late).encode())
                raise late from None
            except OSError:
                continue  # it went away; whether another comes in its place is seen here
            if len(rank) == _RANK.size:
                peers[_RANK.unpack(rank)[0]] = peer
        _answer(peers, _JOINED + _SEAT.pack(port, secret))
    return {"COORDINATOR": f"127.0.0.1:{port}", "COORDINATOR_FD": door.detach(), "SECRET_FD": _pipe_with(secret)}


def _answer(peers: dict[int, socket.socket], answer: bytes) -> None:
    for peer in peers.values():
        with contextlib.suppress(OSError):  # it is gone: the others still must hear, and the job will name it
            peer.sendall(answer)


def _meet_first(place: bytes, rank: int, deadline: float) -> dict[str, object]:
    with _reach(place, deadline) as peer:
        if not _is_own(peer):
            raise HoraInternalError("another user's process sits where the ranks of this torchrun meet")
        peer.settimeout(_start_timeout() + _LAST_WORDS)  # rank 0 came later, and knows more
        try:
            peer.sendall(_RANK.pack(rank))
            answer = _receive(peer, _LONGEST_ANSWER)
        except TimeoutError:
            raise _late("rank 0") from None
        except OSError:
            answer = b""
    if answer[:1] == _REFUSED:
        raise HoraTimeoutError(answer[1:].decode())
    if answer[:1] != _JOINED or len(answer) != 1 + _SEAT.size:
        raise HoraInternalError("rank 0 left while the ranks of this torchrun met")
    port, secret = _SEAT.unpack(answer[1:])
    return {"COORDINATOR": f"127.0.0.1:{port}", "SECRET_FD": _pipe_with(secret)}


def _reach(place: bytes, deadline: float) -> socket.socket:
    """A connection to rank 0, which may have to come first."""
    while time.monotonic() < deadline:
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.connect(place)
            return peer
        except (ConnectionRefusedError, BlockingIOError):
            peer.close()
            time.sleep(_PAUSE)
    raise _late("rank 0")


def _rest(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)


def _late(who: str) -> HoraTimeoutError:
    return HoraTimeoutError(f"{who} of this torchrun did not come within {_start_timeout():g} s: look whether it called init(); a longer wait is HORA_START_TIMEOUT")


def _receive(peer: socket.socket, most: int) -> bytes:
    """Up to that many bytes, fewer if the other end says no more."""
    data = b""
    while len(data) < most and (part := peer.recv(most - len(data))):
        data += part
    return data


def _pipe_with(secret: bytes) -> int:
    """A descriptor from which the secret can be read once, as hrun's."""
    read, write = os.pipe()
    os.write(write, secret)
    os.close(write)
    return read
