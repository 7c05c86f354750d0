# SPDX-License-Identifier: Apache-2.0
"""One job a process, whoever joins it: C and Python in turns; and joining by arguments, without a
launcher."""

import ctypes
import os
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import hora
import pytest
from hora import HoraArgumentError, HoraUnavailableError
from ranks import ROOT, run_python


def library() -> ctypes.CDLL:
    """Libhora as a C program has it: the one that Python uses."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return ctypes.CDLL(next(line.split()[-1] for line in lines if "/libhora.so" in line))


def test_c_gets_the_job_that_python_has_joined_and_the_other_way_round():
    c = library()
    assert c.hora_is_initialized() == 0
    hora.init()
    assert c.hora_is_initialized() == 1
    assert c.hora_size() == 1
    assert c.hora_init() == 0
    assert c.hora_shutdown(None) == 0
    assert not hora.is_initialized()

    assert c.hora_init() == 0
    assert not hora.is_initialized()
    hora.init()
    hora.shutdown()
    assert c.hora_is_initialized() == 0
    assert c.hora_rank() == -1


def test_a_job_that_c_has_left_can_be_joined_again_in_python():
    c = library()
    hora.init()
    pending = hora.irecv(source=0)
    assert (c.hora_init(), c.hora_shutdown(None)) == (0, 0)
    hora.init()
    assert hora.allreduce([1.0]).tolist() == [1.0]
    with pytest.raises(HoraArgumentError):
        hora.synchronize(pending)
    hora.shutdown()


def test_an_extension_in_c_reduces_with_the_ranks_of_a_python_program():
    lines = run_python(
        2,
        """
        import ctypes, pathlib, hora
        hora.init()
        maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
        c = ctypes.CDLL(next(line.split()[-1] for line in maps if "/libhora.so" in line))
        assert c.hora_init() == 0
        assert c.hora_barrier(b"from c", 0) == 0
        print(c.hora_rank() == hora.rank(), c.hora_size())
        """,
    )
    assert lines == [["True 2"]] * 2


def joined(programs: list[str], environment: dict[str, str] | None = None) -> list[tuple[int, str, str]]:
    """Runs these programs of Python at the same time. Gives exit code, output and errors of each."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for program in programs
    ]
    ends = [process.communicate(timeout=60) for process in processes]
    return [(process.returncode, *end) for process, end in zip(processes, ends, strict=True)]


# Rank 0 writes down where it is, and the others read it.
FIRST = """
    import json, os, hora
    place = "PLACE"
    listener = hora.JobListener()
    with open(place + ".new", "w") as file:
        json.dump([listener.coordinator, listener.secret.hex()], file)
    os.rename(place + ".new", place)
"""
OTHER = """
    import json, os, time, hora
    place = "PLACE"
    while not os.path.exists(place): time.sleep(0.01)
    coordinator, secret = json.load(open(place))
    secret = bytes.fromhex(secret)
"""


def test_ranks_meet_where_the_listener_of_rank_0_is(tmp_path: pathlib.Path):
    meet = """
    for job in range(2):
        hora.init(rank=RANK, size=3, WHERE)
        print(hora.allgather([hora.rank(), hora.local_rank(), hora.local_size()]).tolist())
        hora.shutdown()
"""
    first = (FIRST + meet).replace("RANK", "0").replace("WHERE", "listener=listener")
    other = (OTHER + meet).replace("WHERE", "coordinator=coordinator, secret=secret")
    programs = [first, other.replace("RANK", "1"), other.replace("RANK", "2")]
    ends = joined([program.replace("PLACE", str(tmp_path / "place")) for program in programs])
    everyone = f"{[value for rank in range(3) for value in (rank, rank, 3)]}\n" * 2
    assert [end[:2] for end in ends] == [(0, everyone)] * 3, ends


def test_arguments_count_more_than_what_a_launcher_says():
    """Each rank of hrun's job makes a job of its own, in which it alone is."""
    lines = run_python(
        2,
        """
        import hora
        hora.init(rank=0, size=1)
        print(hora.rank(), hora.size(), hora.local_size(), hora.allreduce([1.0], op=hora.Sum).tolist())
        hora.shutdown()
        hora.init()
        print(hora.size())
        """,
    )
    assert lines == [["0 1 1 [1.0]", "2"]] * 2


@pytest.mark.long
def test_a_rank_that_knows_another_secret_does_not_get_in(tmp_path: pathlib.Path):
    first = (
        FIRST
        + """
    hora.init(rank=0, size=2, listener=listener)
"""
    )
    other = (
        OTHER
        + """
    hora.init(rank=1, size=2, coordinator=coordinator, secret=secret[::-1])
"""
    )
    programs = [program.replace("PLACE", str(tmp_path / "place")) for program in (first, other)]
    ends = joined(programs, {"HORA_START_TIMEOUT": "5"})
    assert [end[0] for end in ends] == [1, 1]
    assert "secret" in ends[1][2], ends


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"rank": 0}, "both rank= and size=, or neither"),
        ({"coordinator": "a:1"}, "needs rank= and size= for what says where the ranks meet"),
        ({"rank": 0, "size": 2, "local_rank": 0}, "both local_rank= and local_size=, or neither"),
        (
            {"rank": 0, "size": 1, "local_rank": 2, "local_size": 2},
            "local_rank=2 and local_size=2 do not fit",
        ),
        ({"rank": 0, "size": 1, "comm": [0]}, "either comm or rank= and size="),
        ({"rank": 0, "size": 2}, "size=2 needs a coordinator"),
        ({"rank": 0, "size": 2, "coordinator": "a:1"}, "size=2 needs a secret: 32 random bytes"),
        ({"rank": 0, "size": 2, "coordinator": "a:1", "secret": b"x"}, "secret has 32 bytes, not 1"),
        (
            {"rank": 2, "size": 2, "coordinator": "a:1", "secret": b"x" * 32},
            "rank=2: with size=2 ranks are 0",
        ),
    ],
)
def test_arguments_that_make_no_place_are_refused(arguments: dict[str, Any], why: str):
    with pytest.raises(HoraArgumentError, match=why):
        hora.init(**arguments)
    assert not hora.is_initialized()


def test_a_process_that_has_a_place_gets_no_other():
    hora.init()
    hora.init(rank=0, size=1)
    with pytest.raises(HoraArgumentError, match="this process is rank 0 of 1 already"):
        hora.init(rank=1, size=2, coordinator="a:1", secret=bytes(range(32)))
    hora.shutdown()


def test_a_listener_is_rank_0s():
    listener = hora.JobListener()
    with pytest.raises(HoraArgumentError, match="listener= of rank 0 alone"):
        hora.init(rank=1, size=2, listener=listener)
    assert len(listener.secret) == 32


def test_a_host_that_does_not_exist_is_named():
    with pytest.raises(HoraUnavailableError, match="nowhere.invalid"):
        hora.init(rank=0, size=2, coordinator="nowhere.invalid:1", secret=bytes(range(32)))


def test_a_launcher_may_leave_the_ranks_of_a_host_to_be_found_out():
    """HORA_LOCAL_SIZE=0, as it says in hora/config.h."""
    program = """
        import os, hora
        os.environ.update(HORA_LOCAL_SIZE="0", HORA_LOCAL_RANK="0", HORA_CROSS_SIZE="0")
        hora.init()
        print(hora.local_rank(), hora.local_size(), hora.cross_size())
    """
    lines = run_python(2, program)
    assert lines == [["0 2 1"], ["1 2 1"]]
