# SPDX-License-Identifier: Apache-2.0
"""Calling a function on every rank of a job, from a program that is no rank itself."""

from __future__ import annotations

import codecs
import dataclasses
import operator
import os
import pathlib
import pickle
import selectors
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, TypeVar

from hora import _aliases, _pickles
from hora._errors import HoraArgumentError, HoraInternalError, HoraRankError

Result = TypeVar("Result")

CALL = "call"
_USAGE = "usage: hrun"
_REFUSED = 2  # the exit code of hrun where it has started nothing


_RESULT = "result."


def result_name(rank: int) -> str:
    """The file in which a rank leaves its result: a pickled value as bytes, or a Failure; pickled. In an
    elastic job, the process that was started last for a rank."""
    return f"{_RESULT}{rank}"


#: A program that becomes another one, which gets SIGTERM when the thread that has started it ends: with the
#: caller, however that may end. Arguments: the process of the caller, and the words of the other program.
_ENDS_WITH_THE_CALLER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclasses.dataclass
class Failure:
    """The exception that ended a rank."""

    rank: int
    when: float  #: by this machine's monotonic clock
    text: str  #: with its traceback
    exception: bytes | None  #: pickled, if it can be


def run(
    func: Callable[..., Result],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[int] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: float | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: bool | int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: str | Sequence[str] | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Result]:
    """Calls `func(*args, **kwargs)` on every rank of a new job, which `hrun` starts, and waits for all.
    `func` calls `init()` itself. The output of the ranks appears on this program's stdout and stderr, with
    the rank before it. Ctrl-C ends the ranks, and so does the end of this process.

        def train(lr):
            hvd.init()
            ...
            return loss

        losses = hora.run(train, args=(0.1,), np=4)

    Args:
        func: also one that is defined in a notebook or an interactive session, and closures (cloudpickle
            carries it).
        args, kwargs: for `func`; they and its results are pickled.
        num_proc, np: how many ranks; both are the same.
        hosts: "a:4,b:4": where, and how many ranks each host takes; else this machine. The function and its
            results go through a temporary directory, which all hosts must share: TMPDIR names one that they
            do.
        hostfile: the same from a file; see `hrun --help`.
        start_timeout: seconds for hosts to answer, and then for all ranks to meet.
        ssh_port, ssh_identity_file: how other hosts are reached.
        network_interface, network_interfaces: which addresses ranks use for each other: networks
            ("10.1.0.0/16") and names of interfaces, separated by commas or in a sequence.
        output_filename: a directory; what rank K prints is also written to `rank.K/stdout` and `stderr`
            there.
        verbose: say what is done.
        executable: the Python to run the ranks, with this version of Hora; else that of this process.
        min_num_proc, min_np: the job is elastic (docs/elastic.md): it goes on as long as so many ranks are
            left, and processes that are lost are replaced; both are the same.
        max_num_proc, max_np: how many ranks an elastic job may have; both are the same. Without min_num_proc
            it needs num_proc.
        host_discovery_script: a command that prints the hosts of an elastic job.
        slots: of a host that the command prints without a number.
        reset_limit: ends the job when its ranks have changed so often.
        cooldown_range: seconds, the shortest and the longest, after which a rank that has failed again is
            replaced.
        disable_cache, use_gloo: accepted, and of no consequence.
        use_mpi, mpi_args: there is no mpirun beneath; leave them out.

    Returns:
        The results by rank. Of an elastic job, those of the ranks that have called `func` to its end.

    Raises:
        HoraRankError (a RuntimeError): `func` raised an exception on a rank; it has the rank and the
            traceback, and the exception itself as its cause. If it did so on several ranks, the first one.
        HoraInternalError (a RuntimeError): a rank ended without a result.
        HoraArgumentError (a ValueError): an argument makes no sense or is not supported, or cannot be
            pickled.
    """
    if use_mpi or mpi_args is not None:
        raise HoraArgumentError(
            "use_mpi= and mpi_args= have no meaning: hrun starts the ranks, without MPI; leave them out"
        )
    if hosts is not None and hostfile is not None:
        raise HoraArgumentError("give either hosts= or hostfile=, not both")
    ranks = _number_of_ranks(num_proc, np)
    least = _one_of("min_num_proc", min_num_proc, "min_np", min_np)
    most = _one_of("max_num_proc", max_num_proc, "max_np", max_np)
    is_elastic = (least, most, host_discovery_script) != (None, None, None)
    if np is None and num_proc == 1 and least is not None:
        ranks = least
    options = ["-np", str(ranks)]
    networks = (
        [network_interface, network_interfaces]
        if isinstance(network_interfaces, str)
        else [network_interface, *(network_interfaces or ())]
    )
    flags: list[tuple[str, object]] = [
        ("-H", hosts),
        ("--hostfile", hostfile),
        ("--start-timeout", start_timeout),
        ("--ssh-port", ssh_port),
        ("--ssh-identity-file", ssh_identity_file),
        *(("--network", network) for network in networks),
        ("--output-filename", output_filename),
        ("--min-np", least),
        ("--max-np", most),
        ("--host-discovery-script", host_discovery_script),
        ("--slots-per-host", slots),
        ("--reset-limit", reset_limit),
    ]
    for flag, value in flags:
        options += [] if value is None else [flag, str(value)]
    if cooldown_range is not None:
        options += ["--blacklist-cooldown-range", *map(str, cooldown_range)]
    options += ["--verbose"] if verbose else []
    options += ["--horovod"] if _aliases.installed() else []
    content = _pickled_call(func, args, dict(kwargs or {}))
    with tempfile.TemporaryDirectory(prefix="hora-run-") as name:  # for this user's eyes only
        directory = pathlib.Path(name)
        (directory / CALL).write_bytes(pickle.dumps((sys.path, content)))
        program = [executable or sys.executable, "-m", "hora._rank_main", name]
        exit_code, remarks = _hrun([*options, *program])
        found = _found(directory)
        if is_elastic and exit_code == 0:
            return _values(found)
        return _results(found, ranks, exit_code, remarks)


def _one_of(name: str, value: int | None, other_name: str, other: int | None) -> int | None:
    """The value of an argument that has two names."""
    if value is not None and other is not None and value != other:
        raise HoraArgumentError(
            f"{name}={value} and {other_name}={other} are the same argument: give one of them"
        )
    return other if value is None else value


def _number_of_ranks(num_proc: int, np: int | None) -> int:
    if np is not None and num_proc not in (1, np):
        raise HoraArgumentError(f"num_proc={num_proc} and np={np} are the same argument: give one of them")
    wanted = num_proc if np is None else np
    try:
        ranks = operator.index(wanted)
    except TypeError:
        ranks = 0
    if ranks < 1 or isinstance(wanted, bool):
        raise HoraArgumentError(f"np={wanted!r}: expected a number of ranks from 1 up")
    return ranks


def _pickled_call(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> bytes:
    if not callable(func):
        raise HoraArgumentError(f"func={func!r} cannot be called; for a program use hrun")
    try:
        return _pickles.dumps((func, tuple(args), kwargs))
    except Exception as error:  # noqa: BLE001 - objects raise what they like
        raise HoraArgumentError(
            f"the function or its arguments cannot be pickled: {type(error).__name__}: {error}"
        ) from error


def find_hrun() -> str:
    """HORA_HRUN, or beside the package's other scripts, or beside this Python, or in PATH."""
    named = os.environ.get("HORA_HRUN")
    places = (
        [named]
        if named
        else [
            os.path.join(sysconfig.get_path("scripts"), "hrun"),
            os.path.join(os.path.dirname(sys.executable), "hrun"),
            shutil.which("hrun"),
        ]
    )
    for place in places:
        if place is not None and os.access(place, os.X_OK):
            return place
    raise HoraInternalError(
        f"cannot find hrun: looked in {', '.join(str(place) for place in places if place)}, and PATH; "
        "HORA_HRUN can name it"
    )


class _Echo:
    """Passes on what hrun writes, line by line, to this program's own stream, which in a notebook is no
    descriptor."""

    def __init__(self, target: IO[str]) -> None:
        self._target = target
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._held: list[str] | None = []  #: all so far, while that may be a refusal; None: it is none
        self.remarks: list[str] = []  #: what hrun itself says

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._pass(line + "\n")
        self._target.flush()

    def end(self) -> None:
        if self._rest:
            self._pass(self._rest)

    def _pass(self, line: str) -> None:
        own = line.startswith("hrun: ")
        if own:
            self.remarks.append(line.rstrip("\n"))
        if self._held is not None and (own or line.startswith(_USAGE)) and not self.remarks[:-1]:
            self._held.append(line)
        else:
            self.release()
            self._target.write(line)

    def release(self) -> None:
        """Passes on what was held back."""
        for line in self._held or []:
            self._target.write(line)
        self._held = None

    def refusal(self) -> str | None:
        """Why hrun has started nothing, if all that it has written is one line of its own, or one after the
        usage line."""
        return (
            self.remarks[0].removeprefix("hrun: ").removesuffix("; hrun --help says more")
            if self._held and self.remarks
            else None
        )


def _hrun(arguments: list[str]) -> tuple[int, list[str]]:
    """Runs hrun to its end; its exit code, and what it said itself. A process group of its own keeps the
    terminal's Ctrl-C from coming twice, which would mean more.

    Raises:
        HoraArgumentError: hrun takes the arguments for wrong, and has started nothing.
    """
    process = subprocess.Popen(
        [sys.executable, "-ISc", _ENDS_WITH_THE_CALLER, str(os.getpid()), find_hrun(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    interrupted = False
    with process, selectors.DefaultSelector() as selector:
        assert process.stdout is not None and process.stderr is not None
        errors = _Echo(sys.stderr)
        echoes = {process.stdout.fileno(): _Echo(sys.stdout), process.stderr.fileno(): errors}
        for descriptor in echoes:
            selector.register(descriptor, selectors.EVENT_READ)
        try:
            while selector.get_map():
                try:
                    _pass_on(selector, echoes)
                except KeyboardInterrupt:
                    interrupted = True
                    process.send_signal(signal.SIGINT)
        except BaseException:
            process.terminate()
            raise
    if interrupted:
        raise KeyboardInterrupt
    refusal = errors.refusal()
    if process.returncode == _REFUSED and refusal is not None:
        raise HoraArgumentError(refusal)
    errors.release()
    return process.returncode, errors.remarks


def _pass_on(selector: selectors.BaseSelector, echoes: Mapping[int, _Echo]) -> None:
    for key, _ in selector.select():
        data = os.read(key.fd, 1 << 16)
        if data:
            echoes[key.fd].feed(data)
        else:
            echoes[key.fd].end()
            selector.unregister(key.fd)


def _found(directory: pathlib.Path) -> dict[int, bytes | Failure]:
    """The results that ranks have left, by rank."""
    return {
        int(file.name.removeprefix(_RESULT)): pickle.loads(file.read_bytes())
        for file in directory.glob(f"{_RESULT}*")
    }


def _values(found: dict[int, bytes | Failure]) -> list[Any]:
    """The values of those that have one, by rank."""
    return [pickle.loads(result) for _, result in sorted(found.items()) if isinstance(result, bytes)]


def _results(found: dict[int, bytes | Failure], ranks: int, exit_code: int, remarks: list[str]) -> list[Any]:
    failures = [result for _, result in sorted(found.items()) if isinstance(result, Failure)]
    if failures:
        first = min(failures, key=lambda failure: failure.when)
        raise HoraRankError(first.rank, first.text) from _exception_of(first)
    missing = sorted(set(range(ranks)) - found.keys())
    if missing:
        said = "".join(
            f"\n  {remark}" for remark in remarks if not remark.endswith(":")
        )  # what follows those was passed on
        raise HoraInternalError(
            f"{'ranks' if len(missing) > 1 else 'rank'} {', '.join(map(str, missing))} ended without a "
            f"result; hrun's exit code is {exit_code}{said}"
        )
    if exit_code != 0:
        warnings.warn(
            f"all ranks returned, and then the job ended with exit code {exit_code}: {'; '.join(remarks)}",
            stacklevel=3,
        )
    return _values(found)


def _exception_of(failure: Failure) -> BaseException | None:
    if failure.exception is None:
        return None
    try:
        exception = pickle.loads(failure.exception)
    except Exception:  # noqa: BLE001 - what it needs may not be importable here; the text is there
        return None
    return exception if isinstance(exception, BaseException) else None
