# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that measures: rank.py TASK, where TASK is the JSON that jobs.RankJob makes.

It writes FOLDER/rank<k>.json: of each case the begin and end of every call, by the clock that all processes
of a machine share; or one value. Without a folder only the job's own time counts.
"""

import importlib
import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

FOLDER = "bench.plan.ranks"


def main() -> None:
    task = json.loads(sys.argv[1])
    library = importlib.import_module(f"{FOLDER}.{task['libraries']}").LIBRARIES[task["library"]]()
    workload = importlib.import_module(f"{FOLDER}.work_{task['workload']}")
    cases = workload.work(library, **task["options"])
    if task["folder"]:
        pathlib.Path(task["folder"], f"rank{library.rank}.json").write_text(json.dumps(cases))
    library.close()


if __name__ == "__main__":
    main()
