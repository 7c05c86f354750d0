# SPDX-License-Identifier: Apache-2.0
"""hrun starts ranks on other hosts; and what it says when it cannot."""

import ast
import os
import pathlib
import re
import secrets
import shutil
import sys

import pexpect
import pytest
from launch import BUILD, HRUN, good, hrun
from machines import OTHER_PORT, Cluster

WHO = 'echo $(hostname) $HORA_RANK/$HORA_SIZE $HORA_LOCAL_RANK/$HORA_LOCAL_SIZE $HORA_CROSS_RANK/$HORA_CROSS_SIZE "$@"'
SUM = "import hora, numpy as np; hora.init(); print(hora.rank(), hora.allreduce(np.array([hora.rank() + 1.0]), op=hora.Sum)[0])"


def test_ranks_are_where_they_are_asked_for(hosts: Cluster):
    expected = ["[0] a 0/4 0/2 0/2", "[1] a 1/4 1/2 0/2", "[2] b 2/4 0/2 1/2", "[3] b 3/4 1/2 1/2"]
    assert good(hosts["a"], "-np", "4", "-H", "a:2,b:2", "sh", "-c", WHO) == expected
    assert good(hosts["c"], "-np", "4", "-H", "a:2,b:2", "sh", "-c", WHO) == expected


def test_hosts_may_come_from_a_file_and_differ_in_their_slots(hosts: Cluster, tmp_path: pathlib.Path):
    file = tmp_path / "hosts"
    file.write_text(
        f"# mine\nc slots=1 max_slots=4\n\n{hosts['b'].address}:2   # by "
        f"address\n[{hosts['a'].addresses6[0]}]\n"
    )
    expected = ["[0] c 0/4 0/1 0/3", "[1] b 1/4 0/2 1/3", "[2] b 2/4 1/2 0/1", "[3] a 3/4 0/1 2/3"]
    assert good(hosts["a"], "--hostfile", file, "sh", "-c", WHO) == expected


@pytest.mark.long
def test_ranks_meet_and_reduce(hosts: Cluster):
    program = [sys.executable, "-c", SUM]
    assert good(hosts["a"], "-H", "a:2,b:1,c:1", *program) == [
        "[0] 0 10.0",
        "[1] 1 10.0",
        "[2] 2 10.0",
        "[3] 3 10.0",
    ]
    assert good(hosts["c"], "-H", "b:1,a:1", *program) == ["[0] 0 3.0", "[1] 1 3.0"]
    addresses = f"{hosts['b'].addresses[1]}:1,{hosts['c'].addresses[1]}:1"
    assert good(hosts["a"], "-H", addresses, *program) == ["[0] 0 3.0", "[1] 1 3.0"]


def test_port_and_key_are_chosen_by_flags(hosts: Cluster):
    flags = ["--ssh-port", str(OTHER_PORT), "--ssh-identity-file", hosts.other_key]
    assert good(hosts["a"], *flags, "-H", f"{hosts['b'].address}:2", "sh", "-c", WHO) == [
        "[0] b 0/2 0/2 0/1",
        "[1] b 1/2 1/2 0/1",
    ]


def test_arguments_environment_and_directory_are_the_callers(
    hosts: Cluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OF_THE_CALLER", 'it\'s "quoted" $HOME\n and more')
    monkeypatch.chdir(tmp_path)
    words = ["a b", "*", "'", "", "$HOME", "end\\"]
    show = "import os, sys; print(os.getcwd(), sys.argv[1:], repr(os.environ['OF_THE_CALLER']), os.environ['GIVEN'], os.environ['PATH'])"
    expected = f"{tmp_path} {words} {os.environ['OF_THE_CALLER']!r} x=y {os.environ['PATH']}"
    assert good(hosts["a"], "-H", "a,b", "-x", "GIVEN=x=y", sys.executable, "-c", show, *words) == [
        f"[0] {expected}",
        f"[1] {expected}",
    ]


SHOW_COMMANDS = """
import contextlib, os, pathlib
assert "OF_THE_CALLER" in os.environ
for each in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        print(each.read_text().split("\\0"))
"""


def test_no_secret_and_no_variable_is_on_a_command_line(hosts: Cluster, monkeypatch: pytest.MonkeyPatch):
    """All users of a host can see the command lines. The value of a variable of the caller's is not in them.
    No word of them looks like 32 bytes in hexadecimal digits or in base64."""
    value = secrets.token_hex(8)
    monkeypatch.setenv("OF_THE_CALLER", value)
    seen = good(hosts["a"], "-H", "a,b", "-x", "OF_THE_CALLER", sys.executable, "-c", SHOW_COMMANDS)
    commands = [ast.literal_eval(line.partition(" ")[2]) for line in seen]
    assert any("--agent" in words for words in commands)
    for words in commands:
        shown = " ".join(word for word in words if word != SHOW_COMMANDS)
        assert value not in shown
        for word in shown.split():
            assert (
                not re.fullmatch(r"[0-9a-f]{64}|[A-Za-z0-9+/]{43}=?", word) or pathlib.Path(word).exists()
            ), shown


def test_input_goes_to_rank_0_alone(hosts: Cluster):
    command = f"echo words | {HRUN} -H b,a sh -c 'cat; echo $(hostname)'"
    assert sorted(hosts["a"].do("sh", "-c", command).splitlines()) == ["[0] b", "[0] words", "[1] a"]


def test_a_rank_of_another_host_has_the_terminal_of_the_user(hosts: Cluster):
    program = """if True:
    import os, signal, sys
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})  # none is lost before the wait for it
    print("got", input("Name: "), os.environ["TERM"], os.get_terminal_size())
    signal.sigwait({signal.SIGWINCH})
    print("now", os.get_terminal_size())
    breakpoint()
    """
    words = hosts["a"].command(
        HRUN,
        "-H",
        "a,b,c",
        "--stdin",
        "1",
        sys.executable,
        "-c",
        f"import os; os.environ['RANK'] == '1' and exec({program!r})",
    )
    job = pexpect.spawn(
        words[0],
        words[1:],
        timeout=60,
        dimensions=(30, 100),
        encoding="utf-8",
        env={**os.environ, "TERM": "xterm"},
    )
    job.expect("Name: ")
    job.sendline("bob")
    job.expect(r"got bob xterm os.terminal_size\(columns=100, lines=30\)")
    job.setwinsize(40, 120)
    job.expect(r"now os.terminal_size\(columns=120, lines=40\)")
    job.expect(r"\(Pdb\) ")
    job.sendline("continue")
    job.expect(pexpect.EOF)
    job.close()
    assert job.exitstatus == 0


def test_every_rank_reads_where_all_are_to(hosts: Cluster):
    command = f"seq 200000 | {HRUN} -H b:2,a --stdin all sh -c 'echo $(hostname) $(cksum)'"
    lines = sorted(hosts["a"].do("sh", "-c", command).splitlines())
    assert [line.split()[:2] for line in lines] == [["[0]", "b"], ["[1]", "b"], ["[2]", "a"]]
    assert len({tuple(line.split()[2:]) for line in lines}) == 1
    assert lines[0].endswith(f" {sum(len(f'{i}') + 1 for i in range(1, 200_001))}")


def test_much_output_comes_whole_and_in_lines(hosts: Cluster):
    many = "import os; [print(os.environ['HORA_RANK'], 'x' * 100, i) for i in range(20_000)]"
    found = hrun(hosts["a"], "-H", "a,b", sys.executable, "-c", many).stdout.splitlines()
    for rank in (0, 1):
        assert [line for line in found if line.startswith(f"[{rank}]")] == [
            f"[{rank}] {rank} {'x' * 100} {i}" for i in range(20_000)
        ]


# ---- what cannot be reached


def refusal(hosts: Cluster, *words: str | os.PathLike[str], directory: pathlib.Path | None = None) -> str:
    """The error of hrun when hosts cannot be made ready; nothing may have been started."""
    result = hrun(hosts["a"], *words, "sh", "-c", "echo started", directory=directory)
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    return result.stderr


@pytest.mark.long
def test_all_hosts_that_fail_are_named_at_once_with_what_ssh_says(hosts: Cluster):
    b, c = hosts["b"], hosts["c"]
    c.cut()
    try:
        said = refusal(hosts, "--start-timeout", "10", "-H", f"a,nowhere,{b.addresses6[1].join('[]')},c,b")
    finally:
        c.mend()
    assert "cannot start ranks on 3 of 5 hosts, and has started none:\n" in said
    assert "\n  nowhere: ssh: Could not resolve hostname nowhere: Name or service not known" in said
    assert f"\n  {b.addresses6[1]}: " in said
    assert "Host key verification failed" in said
    assert (
        "\n  c: ssh: connect to host c port 22: Connection timed out\n" in said
        or "\n  c: no answer within 10 s" in said
    )
    assert "\n  a:" not in said
    assert "\n  b:" not in said


def test_a_wrong_key_and_a_closed_port_are_told_apart(hosts: Cluster):
    denied = refusal(hosts, "-p", str(OTHER_PORT), "-H", "b")
    assert "\n  b: root@b: Permission denied (publickey)." in denied
    assert "ssh-copy-id b" in denied
    assert "\n  b: ssh: connect to host b port 23: Connection refused" in refusal(
        hosts, "-p", "23", "-H", "b"
    )


def test_a_host_without_hrun_is_named(hosts: Cluster):
    with hosts["b"].instead_of(BUILD / "bin"):
        said = refusal(hosts, "-H", "a,b")
    assert f"\n  b: there is no hrun: neither {BUILD / 'bin/hrun'} nor one in PATH" in said


def test_another_version_is_refused(hosts: Cluster, tmp_path: pathlib.Path):
    version = hosts["a"].do(HRUN, "--version").split()[1]
    older = "9" + version[1:]
    for folder in ("bin", "lib"):
        (tmp_path / folder).mkdir()
        for file in (BUILD / folder).glob("hrun" if folder == "bin" else "libhora.so*"):
            shutil.copy(file, tmp_path / folder / file.name, follow_symlinks=False)
            if not file.is_symlink():
                (tmp_path / folder / file.name).write_bytes(
                    file.read_bytes().replace(version.encode() + b"\0", older.encode() + b"\0")
                )
    with (
        hosts["b"].instead_of(BUILD / "bin", tmp_path / "bin"),
        hosts["b"].instead_of(BUILD / "lib", tmp_path / "lib"),
    ):
        assert hosts["b"].do(HRUN, "--version") == f"hrun {older}\n"
        said = refusal(hosts, "-H", "a,b")
    assert (
        f"\n  b: its hrun ({HRUN}) is of version {older}, and this one of {version}: install the "
        "same on all hosts" in said
    )


def test_a_directory_that_is_not_there_is_named(hosts: Cluster):
    hosts["a"].do("mkdir", "/dev/shm/only-a")
    said = refusal(hosts, "-H", "a,b", directory=pathlib.Path("/dev/shm/only-a"))
    hosts["a"].do("rmdir", "/dev/shm/only-a")
    assert "\n  b: the working directory /dev/shm/only-a cannot be entered: No such file or directory" in said


def test_a_program_that_is_not_there_is_named(hosts: Cluster):
    hosts["a"].do("cp", "/bin/true", "/dev/shm/program")
    result = hrun(hosts["a"], "-H", "a,b", "/dev/shm/program")
    hosts["a"].do("rm", "/dev/shm/program")
    assert result.returncode == 1
    assert "\n  b: " in result.stderr
    assert "/dev/shm/program" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(("how", "said"), [("DROP", "timed out"), ("REJECT", "refused")])
def test_ranks_that_cannot_reach_each_other_make_a_matrix(hosts: Cluster, how: str, said: str):
    """ssh leads to b and c, and a is reached from them; but between the two all else is blocked."""
    b, c = hosts["b"], hosts["c"]
    for host in (b, c):
        host.firewall(how)
    try:
        result = hrun(hosts["a"], "--start-timeout", "5", "-H", "a,b,c", sys.executable, "-c", SUM)
    finally:
        for host in (b, c):
            host.open_firewall()
    assert result.returncode == 1, result.stderr
    assert re.search(
        rf"\n\[\d\]   rank 2 on c -> rank 1 on b: {re.escape(b.address)}:\d+ {said}", result.stderr
    ), result.stderr


# ---- what is wrong already on the command line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-H", "a:2,b:x"], "'b:x'"),
        (["-H", "a:2,,b:1"], "there is no host name"),
        (["-H", "a:0"], "'a:0'"),
        (["-H", "[fd00:20::12"], "'[fd00:20::12'"),
        (["-H", "-oProxyCommand=touch"], "cannot be the name of a host"),
        (["-H", "a;reboot"], "cannot be the name of a host"),
        (["-H", "a:1,b:1,a:1"], "host 'a' is named twice; name it once with all its slots"),
        (
            ["-H", "a:1,10.20.0.11:1"],
            "hosts 'a' and '10.20.0.11' are both this machine; name it once with all its slots",
        ),
        (
            ["-np", "5", "-H", "a:2,b:2"],
            "-np 5 is more than the slots of the hosts, which are 4; --oversubscribe",
        ),
        (["--hostfile", "{}"], "hosts.txt:3: "),
        (["--hostfile", "/nowhere/hosts"], "/nowhere/hosts"),
        (["-H", "b", "-i", "/nowhere/key"], "--ssh-identity-file /nowhere/key: No such file or directory"),
        (["-H", "b", "-p", "70000"], "70000"),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_starts(
    hosts: Cluster, tmp_path: pathlib.Path, words: list[str], said: str
):
    file = tmp_path / "hosts.txt"
    file.write_text("a slots=2\n# b\nb slot=2\n")
    result = hrun(hosts["a"], *[word.format(file) for word in words], "sh", "-c", "echo started")
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr


def test_more_ranks_than_slots_start_when_told_so(hosts: Cluster):
    found = good(hosts["a"], "-np", "3", "--oversubscribe", "-H", "a:1,b:1", "sh", "-c", WHO)
    assert found == ["[0] a 0/3 0/2 0/2", "[1] a 1/3 1/2 0/1", "[2] b 2/3 0/1 1/2"]
