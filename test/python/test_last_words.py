# SPDX-License-Identifier: Apache-2.0
"""The report to the other ranks of an exception that ends one rank."""

import pathlib
import subprocess
import sys

import pytest
from ranks import hrun


def test_an_exception_names_the_line_of_the_program_and_not_of_the_library_that_raised_it(
    tmp_path: pathlib.Path,
):
    script = tmp_path / "train.py"
    script.write_text("""import json, sys, hora
def load():
    return json.loads("nonsense")
hora.init()
if hora.rank() == 1:
    load()
try:
    hora.barrier()
except RuntimeError as error:
    print(error)
""")
    result = hrun("-np", "2", sys.executable, str(script), seconds=30)
    assert (
        "failed: json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) (train.py:3); it "
        "exited with code 1\n" in result.stdout
    )


def test_an_exception_is_told_though_another_thread_of_its_rank_still_waits_for_the_others():
    program = """import threading, time, numpy as np, hora
hora.init()
if hora.rank() == 1:
    began = threading.Event()
    def wait():
        began.set()
        try:
            hora.recv(source=0, tag=7)
        except RuntimeError as error:
            print(error)
    threading.Thread(target=wait).start()
    began.wait()
    raise ValueError("no data here")
try:
    hora.allreduce(np.ones(1), name="x")
except RuntimeError as error:
    print(error)
"""
    result = hrun("-np", "2", sys.executable, "-c", program, seconds=30)
    assert result.returncode == 1, result.stderr
    assert "failed: ValueError: no data here (<string>:13)" in result.stdout


@pytest.mark.parametrize("origin", [0, 1, 2])
def test_the_hook_of_the_program_still_runs(origin: int):
    program = f"""import sys
def own(kind, value, trace):
    print("own hook:", value)
sys.excepthook = own
import hora
hora.init()
if hora.rank() == {origin}:
    raise ValueError("no data here")
try:
    hora.barrier()
except RuntimeError as error:
    print(error)
"""
    result = hrun("-np", "3", sys.executable, "-c", program, seconds=30)
    assert result.returncode == 1
    assert result.stdout.count("own hook: no data here\n") == 1
    assert result.stdout.count("failed: ValueError: no data here (<string>:8); it exited with code 1\n") == 2


def test_an_exit_code_is_told_with_the_line_that_set_it(tmp_path: pathlib.Path):
    script = tmp_path / "train.py"
    script.write_text("""import sys, hora
def give_up():
    sys.exit("no data here")
hora.init()
if hora.rank() == 1:
    give_up()
try:
    hora.barrier()
except RuntimeError as error:
    print(error)
""")
    result = hrun("-np", "2", sys.executable, str(script), seconds=30)
    assert result.returncode == 1
    assert "failed: sys.exit('no data here') (train.py:3)" in result.stdout
    assert "hrun: rank 1 (" in result.stderr and "failed first: it exited with code 1" in result.stderr


def test_an_exit_in_good_order_is_no_failure():
    program = """import sys, hora
hora.init()
hora.barrier()
sys.exit(0)
"""
    result = hrun("-np", "2", sys.executable, "-c", program, seconds=30)
    assert (result.returncode, result.stderr) == (0, "")


def test_importing_changes_nothing_outside_and_a_job_only_until_it_ends():
    program = """import logging, os, signal, sys, threading, warnings
import numpy, concurrent.futures  # these change what they change
changing = {"modules", "path_importer_cache", "last_value", "last_traceback", "last_type", "last_exc"}
def state():
    return (
        {name: value for name, value in vars(sys).items() if name not in changing and not isinstance(value, list)},
        [list(sys.path), list(sys.meta_path), list(sys.path_hooks), list(sys.argv)],
        dict(os.environ),
        {number: signal.getsignal(number) for number in signal.valid_signals()},
        threading.excepthook,
        list(logging.root.handlers),
        list(warnings.filters),
    )
before = state()
import hora
assert state() == before
for _ in range(2):
    hora.init()
    assert sys.exit is not before[0]["exit"]
    assert sys.excepthook is not before[0]["excepthook"]
    hora.shutdown()
    assert state() == before

hora.init()
hook = sys.exit
def over_it(*arguments):
    hook(*arguments)
sys.exit = over_it
hora.shutdown()
assert sys.exit is over_it, "this belongs to the program"
hora.init()
try:
    sys.exit(3)
except SystemExit as end:
    assert end.code == 3
hora.shutdown()
assert sys.exit is over_it
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
