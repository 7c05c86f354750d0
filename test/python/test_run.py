# SPDX-License-Identifier: Apache-2.0
"""hora.run: a function on every rank, called from a program that is no rank."""

import contextlib
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import textwrap

import hora
import hora.elastic
import numpy as np
import pytest

SCALE = 10


def of_this_module(value: int, *, more: int = 0) -> tuple[int, int, float]:
    hora.init()
    total = hora.allreduce(np.full(2, float(hora.rank() + value)), op=hora.Sum)
    return hora.rank(), hora.size(), float(total[0]) + more


def test_results_come_back_by_rank():
    assert hora.run(of_this_module, (1,), {"more": 5}, np=3) == [(rank, 3, 11.0) for rank in range(3)]
    assert hora.run(of_this_module, [1]) == [(0, 1, 1.0)]


def test_functions_without_a_name_and_what_they_enclose_are_carried():
    data = np.arange(4.0)

    def part() -> np.ndarray:
        hora.init()
        return data[hora.rank() :: hora.size()] * SCALE

    parts = hora.run(
        part,
        num_proc=2,
        hosts="localhost:2",
        use_gloo=True,
        start_timeout=60,
        ssh_port=22,
        disable_cache=True,
        network_interfaces="lo",
    )
    assert [found.tolist() for found in parts] == [[0, 20], [10, 30]]
    assert hora.run(lambda: os.environ["HORA_START_TIMEOUT"], start_timeout=7) == ["7"]


def test_other_hosts_are_reached_by_ssh(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """Here ssh only says how it was called, and leads to this machine."""
    ssh = tmp_path / "ssh"
    ssh.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nexec '
        '/bin/sh -c "$*"\n'
    )
    ssh.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = hora.run(
        lambda: (os.environ["HORA_RANK"], os.environ["HORA_CROSS_RANK"], sys.stdin.read()),
        np=2,
        hosts="one.invalid,two.invalid",
        ssh_port=2222,
    )
    assert found == [("0", "0", ""), ("1", "1", "")]
    assert [
        f"-p 2222 -- {host} exec" in (tmp_path / "calls").read_text()
        for host in ("one.invalid", "two.invalid")
    ] == [True, True]


def test_output_is_passed_on_with_its_rank(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path):
    def speak() -> None:
        print("wörds of", os.environ["HORA_RANK"])
        print("trouble of", os.environ["HORA_RANK"], file=sys.stderr)
        sys.stdout.write("no end of line")

    assert hora.run(speak, np=2, output_filename=str(tmp_path)) == [None, None]
    seen = capsys.readouterr()
    assert sorted(seen.out.splitlines()) == [
        "[0] no end of line",
        "[0] wörds of 0",
        "[1] no end of line",
        "[1] wörds of 1",
    ]
    assert sorted(seen.err.splitlines()) == ["[0] trouble of 0", "[1] trouble of 1"]
    assert (tmp_path / "rank.1/stdout").read_text().startswith("wörds of 1")


def test_an_exception_arrives_with_its_rank_and_traceback():
    class Odd(Exception):
        pass

    def fail() -> None:
        def turn() -> None:
            raise Odd("wrong turn")

        hora.init()
        if hora.rank() == 1:
            turn()
        hora.allreduce(np.ones(1))

    with pytest.raises(hora.HoraRankError) as caught:
        hora.run(fail, np=3)
    error = caught.value
    assert isinstance(error, RuntimeError)
    assert error.rank == 1
    for function in ("fail", "turn"):
        assert re.search(rf'File "{re.escape(__file__)}", line \d+, in {function}\n', error.traceback_text), (
            error.traceback_text
        )
    assert 'raise Odd("wrong turn")' in error.traceback_text
    assert "_rank_main" not in error.traceback_text
    assert str(error).startswith("rank 1 raised an exception:\nTraceback")
    assert type(error.__cause__).__name__ == "Odd"
    assert str(error.__cause__) == "wrong turn"


def test_what_cannot_be_pickled_is_said(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(
        hora.HoraArgumentError,
        match=r"(?i)the function or its arguments cannot be pickled: TypeError: cannot pickle .*generator",
    ):
        hora.run(print, (number for number in [1]), {"file": (number for number in [1])})
    with pytest.raises(hora.HoraRankError, match="(?i)cannot pickle .*generator"):
        hora.run(lambda: (number for number in [1]))


def test_a_rank_that_ends_without_a_result_is_named():
    def vanish() -> int:
        if os.environ["HORA_RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return 1

    with pytest.raises(hora.HoraInternalError) as caught:
        hora.run(vanish, np=3)
    assert str(caught.value).startswith("rank 1 ended without a result; hrun's exit code is 137\n")
    assert "failed first: it was killed by signal 9 (Killed)" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"np": 0}, "np=0: expected a number of ranks from 1 up"),
        ({"num_proc": 2, "np": 3}, "num_proc=2 and np=3 are the same argument"),
        (
            {"np": 2, "hosts": "localhost:1,127.0.0.1:1"},
            "hosts 'localhost' and '127.0.0.1' are both this machine; name it once with all its slots",
        ),
        (
            {"np": 2, "ssh_identity_file": "/nowhere"},
            "--ssh-identity-file /nowhere: No such file or directory",
        ),
        ({"np": 4, "hosts": "localhost:2"}, "-np 4 is more than the slots of the hosts, which are 2"),
        ({"hostfile": "/nowhere"}, "/nowhere"),
        ({"hosts": "localhost:1", "hostfile": "file"}, "either hosts= or hostfile=, not both"),
        ({"use_mpi": True}, "hrun starts the ranks, without MPI"),
        ({"use_mpi": True, "use_gloo": True}, "hrun starts the ranks, without MPI"),
        ({"mpi_args": "--verbose"}, "hrun starts the ranks, without MPI"),
        ({"np": 2, "min_num_proc": 3}, "--min-np"),
        ({"min_num_proc": 1, "min_np": 2}, "min_num_proc=1 and min_np=2 are the same argument"),
        ({"np": 3, "max_np": 2}, "--max-np"),
        ({"executable": "/nowhere/python"}, "cannot start '/nowhere/python': there is no such file"),
    ],
)
def test_arguments_that_have_no_meaning_here_are_refused(
    arguments: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(ValueError) as caught:
        hora.run(print, **arguments)  # type: ignore[arg-type]
    assert type(caught.value) is hora.HoraArgumentError
    assert said in str(caught.value)
    assert capsys.readouterr() == ("", "")


def test_something_that_is_no_function_is_refused():
    with pytest.raises(hora.HoraArgumentError, match="cannot be called; for a program use hrun"):
        hora.run("train.py")  # type: ignore[arg-type]


def test_an_interactive_session_can_call_what_it_defines():
    session = textwrap.dedent("""
        import hora
        word = "defined here"
        class Answer:
            def __init__(self, text): self.text = text

        def speak(times):
            hora.init()
            return Answer(f"{word} {hora.rank()}" * times)

        print([answer.text for answer in hora.run(speak, (1,), np=2)])
        """)
    result = subprocess.run(
        [sys.executable, "-i", "-q"], input=session, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "['defined here 0', 'defined here 1']\n", result.stderr


WAIT = """
import os, signal, hora
def wait():
    print("process", os.getpid(), flush=True)
    signal.pause()
hora.run(wait, np=2)
"""


def waiting_ranks(caller: "subprocess.Popen[str]") -> list[int]:
    """The processes of the ranks, once they wait."""
    assert caller.stdout is not None
    return [int(caller.stdout.readline().split()[-1]) for _ in range(2)]


def ends(process: int) -> bool:
    """Whether a process has ended, or does within a minute."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process)
        try:
            return bool(select.select([descriptor], [], [], 60)[0])
        finally:
            os.close(descriptor)
    return True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ranks_end_with_their_caller(how: signal.Signals):
    with subprocess.Popen(
        [sys.executable, "-c", WAIT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as caller:
        try:
            ranks = waiting_ranks(caller)
            caller.send_signal(how)
            assert all(ends(rank) for rank in ranks)
            assert caller.wait(60) == -how
            if how == signal.SIGINT:
                assert caller.stderr is not None
                assert caller.stderr.read().rstrip().endswith("KeyboardInterrupt")
        finally:
            caller.kill()


def train_elastically() -> tuple[int, int]:
    """Rank 1 is killed and replaced, and then rank 2 leaves."""
    hora.init()
    number = int(os.environ["HORA_RANK"])
    state = hora.elastic.ObjectState(hora.broadcast_object, hora.rank, step=0, lost=False)

    @hora.elastic.run
    def train(state: hora.elastic.ObjectState) -> int:
        while state.step < 6:
            hora.allreduce(np.ones(4))
            if number == 1 and state.step == 2 and "HORA_JOINS_LATE" not in os.environ:
                os.kill(os.getpid(), signal.SIGKILL)
            if state.step == 3 and hora.size() < 3:  # until another process is there
                state.commit()
                continue
            if number == 2 and state.step == 4:
                os.kill(os.getpid(), signal.SIGTERM)
            state.step += 1
            state.commit()
        return hora.size()

    return number, train(state)


def test_an_elastic_job_returns_the_results_of_the_ranks_that_are_left():
    assert hora.run(train_elastically, min_np=2, np=3, max_np=3) == [(0, 2), (1, 2)]


def test_an_elastic_job_that_fails_names_the_exception():
    def fail() -> None:
        hora.init()
        raise KeyError("no data")

    with pytest.raises(hora.HoraRankError, match="KeyError: 'no data'"):
        hora.run(fail, min_num_proc=2)
