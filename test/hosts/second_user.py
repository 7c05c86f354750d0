# SPDX-License-Identifier: Apache-2.0
"""A running and a failing job, and another user of the host who tries everything on them (other_user.py):
prints the table of attempts.

It needs root, and a /tmp and a network of its own, which test_second_user.py makes. The exit code is 0 if all
attempts were refused or harmless.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from launch import REDUCE_ON  # noqa: E402
from ranks import HRUN  # noqa: E402

OTHER_USER = 65534
RANKS = 2
METRICS = 9400
PATH_OF_METRICS = "/tmp/metrics"
MINE = "the user's own\n"
# Ranks whose secret is kept, for a later look whether anybody sees it.
SCRIPT = 'head -c 32 <&$HORA_SECRET_FD >"$0/secret$HORA_RANK"; exec {given}<"$0/secret$HORA_RANK"; HORA_SECRET_FD=$given exec "$@"'
Row = tuple[str, str, str, bool]


def as_other_user(phase: str, known: Mapping[str, object]) -> list[Row]:
    """The attempts of the other user. The program goes in its arguments, as the other user may not be able to
    read this folder."""
    program = (HERE / "other_user.py").read_text()
    python = os.path.realpath(sys.executable)
    ended = subprocess.run(
        [python, "-I", "-c", program, phase],
        check=False,
        input=json.dumps(known),
        capture_output=True,
        text=True,
        timeout=120,
        user=OTHER_USER,
        group=OTHER_USER,
        extra_groups=[],
        cwd="/",
    )
    assert ended.returncode == 0, ended.stderr
    rows: list[Row] = [tuple(row) for row in json.loads(ended.stdout)]
    return rows


class Jobs:
    """Jobs of this user, and the file that the other one is after."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.victim = folder / "victim"
        self.victim.write_text(MINE)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("TMPDIR", "XDG_RUNTIME_DIR") and not name.startswith("HORA_")
        }

    @contextlib.contextmanager
    def running(self, *flags: str) -> Iterator[subprocess.Popen[str]]:
        words = [
            HRUN,
            "-np",
            str(RANKS),
            *flags,
            "bash",
            "-c",
            SCRIPT,
            str(self.folder),
            sys.executable,
            "-c",
            REDUCE_ON,
        ]
        job = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment
        )
        assert job.stdout is not None
        try:
            for _ in range(RANKS):
                line = job.stdout.readline()
                assert "] in " in line, line
            yield job
        finally:
            job.terminate()
            job.wait(timeout=60)

    def hrun(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HRUN, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment | more,
        )

    def row(self, name: str, done: str) -> Row:
        same = self.victim.read_text() == MINE
        return (
            name,
            done,
            "the user's file is as it was" if same else "the user's file was overwritten",
            same,
        )


def what_is_known(jobs: Jobs, job: subprocess.Popen[str]) -> dict[str, object]:
    """The facts that the other user is told: more than it could find out."""
    status = json.loads(jobs.hrun("status", str(job.pid), "--json").stdout)
    dumped = jobs.hrun("dump", str(job.pid))
    dumps = pathlib.Path(dumped.stdout.split("rank 0 on localhost: ")[1].splitlines()[0]).parent
    private = dumps.parents[1]
    pids = {str(job.pid): "hrun"} | {str(rank["pid"]): f"rank {rank['rank']}" for rank in status["ranks"]}
    return {
        "pids": pids,
        "job": status["job"],
        "secret": (jobs.folder / "secret0").read_bytes().hex(),
        "sockets": [f"{private}/{status['job']}.{job.pid}", PATH_OF_METRICS],
        "private": str(private),
        "dumps": str(dumps),
        "metrics": METRICS,
        "names": {str(private): "/tmp/hora-0-RANDOM", status["job"]: "JOB", f".{job.pid}": ".PID"},
    }


def refused_starts(jobs: Jobs) -> list[Row]:
    """Jobs that write to names that the other user has taken."""
    started = jobs.hrun("-np", str(RANKS), "--output-filename", "/tmp/output", "true")
    rows = [jobs.row("--output-filename", f"job ended with code {started.returncode}")]
    jobs.hrun(
        "-np",
        str(RANKS),
        sys.executable,
        "-c",
        "import hora; hora.init(); hora.barrier()",
        HORA_TIMELINE="/tmp/trace.json",
    )
    rows.append(jobs.row("HORA_TIMELINE", "job ran"))
    failing = "import hora, os; hora.init(); hora.barrier(); hora.rank() and os.kill(os.getpid(), 9); hora.barrier()"
    jobs.hrun("-np", str(RANKS), sys.executable, "-c", failing, HORA_DUMP_DIR="/tmp/named")
    rows.append(jobs.row("HORA_DUMP_DIR", "job failed"))
    return rows


def tried(jobs: Jobs) -> list[Row]:
    told: dict[str, object] = {"user": os.geteuid(), "victim": str(jobs.victim), "ranks": RANKS}
    rows = as_other_user("plant", told)
    rows += refused_starts(jobs)
    with jobs.running("--metrics", str(METRICS)) as job, jobs.running("--metrics", f"unix:{PATH_OF_METRICS}"):
        known = told | what_is_known(jobs, job)
        rows += as_other_user("attack", known)
        jobs.hrun("dump", str(job.pid))
        rows.append(jobs.row("hrun dump", "asked for by the user, with all that planted"))
        pids = known["pids"]
        assert isinstance(pids, dict)
        os.kill(int(list(pids)[-1]), signal.SIGKILL)
        said = job.communicate(timeout=60)[1]
    dumps = str(known["dumps"])
    rows.append(jobs.row("failing job", "ended, and its ranks wrote dumps"))
    told_where = f"hrun analyze {dumps} compares" in said
    analysis = jobs.hrun("analyze", dumps)
    rows.append(
        (
            "hrun analyze",
            "reads the folder that hrun named",
            "compared" if analysis.returncode == 0 else analysis.stderr,
            told_where and analysis.returncode == 0,
        )
    )
    return rows + as_other_user("look", known)


def main() -> int:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        rows = tried(Jobs(pathlib.Path(folder)))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, attempt, result, harmless in rows:
        print(f"{name:{widths[0]}}  {attempt:{widths[1]}}  {result}{'' if harmless else '   <-- HARM'}")
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
