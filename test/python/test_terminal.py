# SPDX-License-Identifier: Apache-2.0
"""The view of a user at a terminal of a rank that reads: input(), debuggers, passwords, keys that are
signals. All over real terminals."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import termios

import pexpect
import pytest
from ranks import HRUN, ROOT

SECONDS = 60
CLEARED = re.compile(r"[^\n]*\r\x1b\[K")
UNSEEN = re.compile(r"\x1b\[\d*m|\r|\x1b\[\?2004[hl]")  # colours, and what readline switches on and off


def seen(written: str) -> str:
    """The text that a terminal shows in the end."""
    return UNSEEN.sub("", CLEARED.sub("", written))


class Terminal(pexpect.spawn):
    """A terminal in which a program runs."""

    def __init__(self, program: str, *words: str, environment: dict[str, str] | None = None) -> None:
        everything = {**os.environ, "TERM": "xterm", "PS1": "$ ", **(environment or {})}
        super().__init__(
            program,
            list(words),
            timeout=SECONDS,
            dimensions=(30, 100),
            encoding="utf-8",
            cwd=str(ROOT),
            env=everything,
        )

    def shown(self) -> str:
        """The text that came since the last expectation, up to this one and with it."""
        assert isinstance(self.before, str) and isinstance(self.after, str)
        return seen(self.before + self.after)

    def rest(self) -> str:
        self.expect(pexpect.EOF)
        assert isinstance(self.before, str)
        self.modes_at_the_end = self.modes()
        self.close()
        return seen(self.before)

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.child_fd)


def terminal(*words: str) -> Terminal:
    return Terminal(HRUN, *words)


def python(program: str) -> tuple[str, str, str]:
    return sys.executable, "-c", program


def test_questions_are_seen_and_answered_while_other_ranks_print(tmp_path: pathlib.Path):
    program = """if True:
    import code, getpass, os, hora
    hora.init()
    if hora.rank() == 1:
        hora.recv(source=0)
        print("late")
    else:
        name = input("Name: ")
        print("hello", name, os.get_terminal_size(), os.ttyname(0) == os.ttyname(1))
        breakpoint()
        print(len(getpass.getpass()), "letters")
        code.interact(banner="here", local={"x": 7})
    hora.barrier()
    """
    job = terminal("-np", "2", "--output-filename", str(tmp_path), *python(program))
    before = job.modes()
    job.expect("Name: ")
    assert job.shown() == "Name: ", "no label, and before the line ends"
    assert not (job.modes()[3] & termios.ECHO), "the rank's terminal does it"
    job.sendline("bob")
    job.expect(r"\(Pdb\) ")
    assert (
        "Name: " not in job.shown()
        and "bob\n[0] hello bob os.terminal_size(columns=100, lines=30) True\n" in job.shown()
    )
    job.sendline("p len(name)")
    job.expect(r"\(Pdb\) ")
    assert job.shown() == "p len(name)\n[0] 3\n(Pdb) "
    job.sendline("import numpy; hora.send(numpy.ones(1), dest=1)")
    job.expect("late\r\n")
    job.sendline("continue")
    job.expect("Password: ")
    job.sendline("secret")
    job.expect(">>> ")
    assert "[0] 6 letters\n" in job.shown() and "secret" not in job.shown()
    job.sendline("x * 6")
    job.expect(">>> ")
    assert job.shown() == "x * 6\n[0] 42\n>>> "
    job.sendeof()
    job.rest()
    assert job.exitstatus == 0
    assert job.modes_at_the_end == before
    written = UNSEEN.sub(
        "", (tmp_path / "rank.0/stdout").read_text() + (tmp_path / "rank.0/stderr").read_text()
    )
    for text in ("Name: ", "bob\n", "hello bob", "(Pdb) p len(name)\n3\n", "Password: \n", "x * 6\n42\n"):
        assert text in written
    assert [rank["exit_code"] for rank in json.loads((tmp_path / "summary.json").read_text())["ranks"]] == [
        0,
        0,
    ]


def test_another_rank_can_have_the_terminal_and_none_of_the_others_does():
    job = terminal(
        "-np",
        "3",
        "--stdin",
        "2",
        *python(
            "import os; print(os.environ['RANK'], os.isatty(0)) if os.environ['RANK'] != '2' else "
            "print('got', input('? '))"
        ),
    )
    job.expect(r"\? ")
    job.sendline("words")
    lines = sorted(job.shown().splitlines() + job.rest().splitlines())
    assert [line for line in lines if line.startswith("[")] == ["[0] 0 False", "[1] 1 False", "[2] got words"]


@pytest.mark.parametrize(("reader", "program", "said"), [
    ("0", "import os; os.environ['RANK'] == '1' and input()", "hrun: rank 1 has no standard input: with --stdin 1 it is the one that reads what you type"),
    ("none", "breakpoint()", "hrun: rank 0 has no standard input: with --stdin 0 it is the one that reads what you type"),
])  # fmt: skip
def test_a_rank_that_cannot_ask_says_how_it_could(reader: str, program: str, said: str):
    job = terminal(
        "-np",
        "2" if reader == "0" else "1",
        "--stdin",
        reader,
        *python(f"import hora; hora.init(); {program}"),
    )
    assert said in job.rest().splitlines()
    assert job.exitstatus == 1


def test_an_interrupt_at_a_question_reaches_every_rank():
    program = """if True:
    import os, time
    try:
        input("? ") if os.environ["RANK"] == "0" else (print("up"), time.sleep(1000))
    except KeyboardInterrupt:
        print(os.environ["RANK"], "interrupted")
    """
    job = terminal("-np", "2", *python(program))
    before = job.modes()
    job.expect("up.*[?] |[?] .*up")
    job.sendintr()
    lines = job.rest().splitlines()
    assert {"0 interrupted", "? 0 interrupted"} & set(lines), "behind the question"
    assert "[1] 1 interrupted" in lines
    assert (job.exitstatus, job.signalstatus) == (130, None)
    assert job.modes_at_the_end == before


def test_an_end_of_file_is_one_for_the_rank():
    program = "import sys; print('up', flush=True); print(len(sys.stdin.read()), 'read')"
    job = terminal("-np", "1", *python(program))
    job.expect("up")  # until then keys may be those of the user's own terminal
    job.sendline("words")
    job.expect("words")
    job.sendeof()
    assert "[0] 6 read" in job.rest().splitlines()


def test_the_size_of_the_window_follows_that_of_the_user():
    program = """if True:
    import os, signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})  # none is lost before the wait for it
    print("up")
    signal.sigwait({signal.SIGWINCH})
    print(os.get_terminal_size())
    input()
    """
    job = terminal("-np", "1", *python(program))
    job.expect("up")
    job.setwinsize(40, 120)
    job.expect("columns=120, lines=40")
    job.sendline()
    job.rest()


@pytest.mark.long
@pytest.mark.parametrize(("program", "options", "hurt"), [
    ("input('? '); raise SystemExit(3)", (), None),
    ("input('? '); import os; os.kill(os.getpid(), 9)", (), None),
    ("input('? '); input('again')", ("--timeout", "3"), None),
    ("input('? '); input('again')", (), signal.SIGTERM),
])  # fmt: skip
def test_the_terminal_is_as_it_was_after_every_end(
    program: str, options: tuple[str, ...], hurt: signal.Signals | None
):
    job = terminal("-np", "1", *options, *python(program))
    before = job.modes()
    job.expect("[?] ")
    job.sendline()
    if hurt:
        job.expect("again")
        os.kill(job.pid, hurt)
    job.rest()
    assert job.modes_at_the_end == before


def test_a_job_can_be_stopped_and_goes_on_in_the_foreground_and_waits_in_the_background():
    shell = Terminal("bash", "--norc", "-i")
    shell.expect(r"\$ ")
    program = "print('got', input('first? ')); print('got', input('then? '))"
    shell.sendline(f'{HRUN} -np 1 {sys.executable} -c "{program}"')
    shell.expect(r"first\? ")
    shell.send("\x1a")
    shell.expect(r"Stopped.*\$ ")
    shell.sendline("stty -a | grep -o '[-]*echo '")
    shell.expect(r"\recho \r\n")
    shell.sendline("fg")
    shell.expect(r"-c.*\n")
    shell.sendline("one")
    shell.expect(r"got one.*then\? ")
    shell.sendline("two")
    shell.expect(r"got two.*\$ ")
    shell.sendline(f'{HRUN} -np 1 {sys.executable} -c "{program}" &')
    shell.expect(r"first\? ")
    shell.sendline("echo of the $((20+1))st shell")
    shell.expect("of the 21st shell")
    shell.sendline("fg")
    shell.expect(r"-c.*\n")
    shell.sendline("three")
    shell.expect(r"got three.*then\? ")
    shell.sendline("four")
    shell.expect(r"got four.*\$ ")
    shell.sendline("exit")
    shell.rest()


def test_a_key_that_would_stop_a_job_which_no_shell_has_started_is_ignored():
    job = terminal("-np", "1", *python("print('got', input('? '))"))
    job.expect("[?] ")
    job.send("\x1a")
    job.sendline("words")
    assert "got words" in job.rest()


def test_a_question_is_seen_where_the_output_goes_through_a_pipe():
    job = Terminal(
        "bash", "--norc", "-c", f"{HRUN} -np 1 {sys.executable} -c \"print('got', input('Name: '))\" | cat"
    )
    job.expect("Name: ")
    job.sendline("bob")
    assert "got bob" in job.rest()


@pytest.mark.parametrize(
    ("reader", "read"), [("0", ["4", "0"]), ("1", ["0", "4"]), ("all", ["4", "4"]), ("none", ["0", "0"])]
)
def test_input_that_is_no_terminal_goes_to_whom_it_is_for(reader: str, read: list[str]):
    program = "import os, sys; print(os.environ['RANK'], len(sys.stdin.read()))"
    words = [HRUN, "-np", "2", "--stdin", reader, *python(program)]
    result = subprocess.run(words, input="word", capture_output=True, text=True, timeout=SECONDS, check=True)
    assert sorted(result.stdout.splitlines()) == [f"[{rank}] {rank} {read[rank]}" for rank in range(2)]


def test_input_that_no_rank_reads_is_left_to_the_next_program():
    script = f"while read line; do {HRUN} -np 2 --no-prefix --stdin 0 true; echo $line; done"
    result = subprocess.run(
        ["bash", "-c", script],
        input="one\ntwo\nthree\n",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert result.stdout == "one\ntwo\nthree\n"
