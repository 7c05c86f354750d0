# SPDX-License-Identifier: Apache-2.0
"""A rank for the tests of faults that need Python: as fault_rank.cc, with the same arguments, words and
cues."""

import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable

import hora
import numpy as np

STAGE, PHASE, _, FAULT, VICTIMS, BYTES = sys.argv[1:]
RANK = int(os.environ["HORA_RANK"])
VICTIM = str(RANK) in VICTIMS.split(",")
ELEMENTS = int(BYTES) // 4
PARAMETERS = 16


class Stage:
    """The line to the test."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(STAGE)
        self._cues: set[str] = set()
        self._rest = b""

    def say(self, event: str, **more: object) -> None:
        self._socket.sendall(
            json.dumps({"rank": RANK, "event": event, "at": time.monotonic(), **more}).encode() + b"\n"
        )

    def heard(self, cue: str, seconds: float | None = 0) -> bool:
        while cue not in self._cues and select.select([self._socket], [], [], seconds)[0]:
            more = self._socket.recv(4096)
            if not more:
                os._exit(99)  # the test is gone
            *whole, self._rest = (self._rest + more).split(b"\n")
            self._cues |= {line.decode() for line in whole}
        return cue in self._cues

    def hear(self, cue: str) -> None:
        self.heard(cue, None)


class Samples:
    """A data set whose worker ends while it loads."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        os._exit(3)


def befall(stage: Stage, where: str) -> None:
    if FAULT == "worker":
        lose_a_worker(stage, where)
    stage.say("fault", where=where)
    raise ValueError("the loss is not a number")


def lose_a_worker(stage: Stage, where: str) -> None:
    """It begins when the loader tells this rank, which is PyTorch's to find out."""
    from torch.utils.data import DataLoader

    try:
        next(iter(DataLoader(Samples(), num_workers=1)))  # type: ignore[arg-type]
    except RuntimeError:
        stage.say("fault", where=where)
        raise


def rounds(
    stage: Stage, start: Callable[[int], list[int]], under_way: Callable[[list[int], float, float], str]
) -> None:
    """Large tensors, until it happens in the middle of them."""
    stage.say("there")
    took = 0.0
    for turn in range(1_000_000):
        begin = time.monotonic()
        handles = start(turn)
        while VICTIM and not all(map(hora.poll, handles)):
            where = under_way(handles, time.monotonic() - begin, took)
            if not where and stage.heard("now"):
                where = "the other victim has had its fault"
            if where:
                befall(stage, where)
        for handle in handles:
            hora.synchronize(handle)
        took = time.monotonic() - begin


def reduce_large(turn: int) -> list[int]:
    return [hora.allreduce_async(np.ones(ELEMENTS, np.float32), name=f"gradient.{turn}")]


def broadcast_parameters(turn: int) -> list[int]:
    return [
        hora.broadcast_async(np.ones(ELEMENTS // PARAMETERS, np.float32), 0, name=f"parameter.{turn}.{at}")
        for at in range(PARAMETERS)
    ]


def in_the_middle(handles: list[int], since: float, took: float) -> str:
    return "half of its time is over" if 0 < took < 2 * since else ""


def between(handles: list[int], since: float, took: float) -> str:
    count = sum(map(hora.poll, handles))
    return f"{count} of {PARAMETERS} parameters are there" if 0 < count < PARAMETERS else ""


def play(stage: Stage) -> None:
    if PHASE == "before":
        stage.say("there")
        stage.hear("go")
        if VICTIM:
            befall(stage, "before init")
    hora.init()
    hora.allreduce(np.ones(1), name="begun")
    if PHASE == "inside":
        rounds(stage, reduce_large, in_the_middle)
    if PHASE == "broadcasting":
        rounds(stage, broadcast_parameters, between)
    if PHASE == "idle" or VICTIM:
        stage.say("there")
        stage.hear("go")
        if VICTIM:
            befall(stage, "nothing is under way" if PHASE == "idle" else "the others wait for 'gradient'")
    handle = hora.allreduce_async(np.ones(1000), name="gradient")
    if PHASE == "negotiating":
        stage.say("there")
    hora.synchronize(handle)


def main() -> int:
    if FAULT == "worker" and VICTIM:
        import torch.utils.data  # noqa: F401  takes its time
    stage = Stage()
    stage.say("born", pid=os.getpid(), descriptors=[])
    try:
        play(stage)
    except hora.HoraError as error:
        stage.say("told", what=str(error))
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
