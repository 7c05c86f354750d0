# SPDX-License-Identifier: Apache-2.0
"""Timelines that a program starts and stops."""

import json
import pathlib
import sys

from ranks import hrun
from ready_ranks import run_ready


def events_by_row(path: pathlib.Path) -> dict[tuple[int, str], list[str]]:
    """The events of each tensor on each rank, in the order of the file."""
    events = json.loads(path.read_text())
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    rows: dict[tuple[int, str], list[str]] = {(pid, name): [] for (pid, _), name in names.items()}
    for event in events:
        name = names.get((event["pid"], event.get("tid")))
        if name is not None and event["ph"] != "M":
            rows[event["pid"], name].append(event["name"])
    return rows


def test_a_timeline_has_every_operation_of_all_ranks_between_its_start_and_its_end(tmp_path: pathlib.Path):
    run_ready(
        2,
        """
        import pathlib, pytest, sys, torch, hora.torch as hvd
        folder = pathlib.Path(sys.argv[1])
        hvd.init()
        alone = hvd.add_process_set([1])
        for path in (folder / "first.json", folder / "second.json"):
            hvd.allreduce(torch.ones(3), name="before")
            hvd.start_timeline(path, mark_cycles=True)
            if hvd.rank() == 0:
                with pytest.raises(ValueError, match="stop it first"):
                    hvd.start_timeline(str(path))
            hvd.barrier()  # rank 0 has started it
            for name in (path.stem, path.stem):
                hvd.allreduce(torch.ones(3), name=name)
            hvd.grouped_allgather([torch.ones(2), torch.ones(3)], name="group")
            hvd.reducescatter(torch.ones(4), name="rows")
            hvd.alltoall(torch.ones(4), name="rows")
            hvd.broadcast(torch.ones(4), 1, name="rows")
            if alone.included():
                hvd.allreduce(torch.ones(2), name="alone", process_set=alone)
            hvd.barrier()  # all of that has ended on every rank
            hvd.stop_timeline()
            hvd.stop_timeline()
            hvd.allreduce(torch.ones(3), name="after")
        if hvd.rank() == 0:
            with pytest.raises(ValueError, match="No such file"):
                hvd.start_timeline(folder / "missing" / "timeline.json")
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2
        """,
        str(tmp_path),
    )
    for stem, other in (("first", "second"), ("second", "first")):
        rows = events_by_row(tmp_path / f"{stem}.json")
        for rank in (0, 1):
            assert rows[rank, f"allreduce.{stem}"].count("ALLREDUCE") == 2
            assert rows[rank, f"allreduce.{stem}"].count("NEGOTIATE_ALLREDUCE") == 2
            for name in ("grouped_allgather.group_1of2", "grouped_allgather.group_2of2"):
                assert "ALLGATHER" in rows[rank, name]
            for operation in ("reducescatter", "alltoall", "broadcast"):
                assert rows[rank, f"{operation}.rows"].count(operation.upper()) == 1
            assert ((rank, "allreduce.alone (process set 1)") in rows) == (rank == 1)
            for name in (f"allreduce.{other}", "allreduce.before", "allreduce.after"):
                assert (rank, name) not in rows


def test_hrun_writes_a_timeline_of_the_whole_job(tmp_path: pathlib.Path):
    path = tmp_path / "job.json"
    program = "import numpy, hora; hora.init(); [hora.allreduce(numpy.ones(3), name='x') for _ in range(5)]"
    result = hrun(
        "-np", "2", "--timeline-filename", str(path), "--timeline-mark-cycles", sys.executable, "-c", program
    )
    assert result.returncode == 0, result.stderr
    rows = events_by_row(path)
    assert rows[0, "allreduce.x"].count("ALLREDUCE") == rows[1, "allreduce.x"].count("ALLREDUCE") == 5
    assert any(event["name"] == "CYCLE_START" for event in json.loads(path.read_text()))


def test_a_timeline_that_cannot_be_written_ends_the_job_with_the_reason(tmp_path: pathlib.Path):
    path = tmp_path / "missing" / "job.json"
    result = hrun(
        "-np", "2", "--timeline-filename", str(path), sys.executable, "-c", "import hora; hora.init()"
    )
    assert result.returncode == 1
    assert f"cannot write the timeline {path}: No such file or directory" in result.stderr
