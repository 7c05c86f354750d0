# SPDX-License-Identifier: Apache-2.0
"""All test suites: one function each, one table."""

import concurrent.futures
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable, Mapping, Sequence

from . import frameworks, newest, setup, times
from .shell import LOGS, PYTHON, ROOT, VENV, Failed, Word, end_of_log, last_lines, run_quietly

FUZZ_SECONDS = 10  # a sample, from what is known; ./dev fuzz MINUTES searches
SHOWN = 10  # of a suite's failed cases, with what they said


@dataclasses.dataclass
class Tally:
    """The counts of a suite."""

    passed: int = 0
    failed: int = 0
    skipped: list[str] = dataclasses.field(default_factory=list)
    named: list[tuple[str, str]] = dataclasses.field(
        default_factory=list
    )  # cases that failed, and what they said, where a report tells

    def add(self, other: "Tally") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.named += other.named


def cpp_sources() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.cc", "*.h", "*.c"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split() if (ROOT / name).exists()]


def read_reports(folder: pathlib.Path) -> Tally:
    """Counts the cases of GoogleTest's and pytest's XML reports."""
    tally = Tally()
    for report in sorted(folder.glob("*.xml")):
        for case in xml.parse(report).getroot().iter("testcase"):
            said = [
                each.text or each.get("message") or ""
                for kind in ("failure", "error")
                for each in case.findall(kind)
            ]
            if said:
                tally.failed += 1
                tally.named.append((f"{case.get('classname')}.{case.get('name')}", "\n".join(said)))
            elif case.find("skipped") is not None or case.get("result") == "skipped":
                reason = case.find("skipped")
                text = (reason.get("message") or "") if reason is not None else ""
                tally.skipped.append(
                    f"{case.get('classname')}.{case.get('name')}: "
                    f"{text.strip().splitlines()[-1] if text.strip() else 'skipped'}"
                )
            else:
                tally.passed += 1
    return tally


def fresh(folder: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def scratch(name: str) -> dict[str, str]:
    """Where a suite's temporary files go, among them what failing jobs dump: an empty folder."""
    return {"TMPDIR": str(fresh(ROOT / "build/tmp" / name))}


def count(
    name: str, reports: pathlib.Path, command: list[Word], environment: Mapping[str, str] | None = None
) -> Tally:
    """Runs what leaves XML reports in a folder, and counts their cases. If it dies without one, that is one
    failure."""
    good = run_quietly(name, command, {**scratch(name), **(environment or {})})
    tally = read_reports(reports)
    if not good and tally.failed == 0:
        tally.failed = 1
    return tally


def ctest(name: str, preset: str, *choice: str, environment: Mapping[str, str] | None = None) -> Tally:
    """Runs the GoogleTest programs of a preset, each of which leaves its report where test/CMakeLists.txt
    says."""
    reports = fresh(ROOT / f"build/{preset}/reports")
    tally = count(name, reports, ["ctest", "--preset", preset, *choice], environment)
    if tally.failed:
        tally.named += [
            (case, "began and did not end: its program died or stood still\n")
            for case in unfinished((LOGS / f"{name}.log").read_text(errors="replace"))
        ]
    return tally


def unfinished(log: str) -> list[str]:
    """The cases of GoogleTest programs that a log tells the beginning of, and not the end."""
    begun = re.findall(r"^\[ RUN      \] (\S+)", log, re.MULTILINE)
    ended = set(re.findall(r"^\[ +(?:OK|FAILED|SKIPPED) +\] (\S+?),? ", log, re.MULTILINE))
    return [case for case in begun if case not in ended]


def one(name: str, command: Sequence[object], seconds: float = 1800) -> Tally:
    return Tally(passed=1) if run_quietly(name, command, seconds=seconds) else Tally(failed=1)  # type: ignore[arg-type]


def pytest(
    name: str, *chosen: str, python: pathlib.Path = PYTHON, whole: bool = True, libtorch: bool = False
) -> Tally:
    """Runs tests in Python: all, or without a part of those that take long. `libtorch`: those that run a C++
    program of LibTorch, and else the others."""
    chosen = (*chosen, "-m", "libtorch" if libtorch else "not libtorch")
    if not whole:
        chosen = (*chosen, f"--third={commits() % 3}")
    reports = fresh(LOGS / f"reports-{name}")
    return count(name, reports, [python, "-m", "pytest", "-q", *chosen, f"--junitxml={reports}/{name}.xml"])


def style(whole: bool) -> Tally:
    """Checks of the sources, which run nothing."""
    tally = pytest("style", "test/style", whole=whole)
    tally.add(one("ruff", [ROOT / ".venv/bin/ruff", "check", "python", "test", "examples", "dev"]))
    tally.add(
        one(
            "ruff-format", [ROOT / ".venv/bin/ruff", "format", "--check", "python", "test", "examples", "dev"]
        )
    )
    tally.add(one("mypy", [PYTHON, "-m", "mypy", "--strict", "python/hora"]))
    return tally


def in_process() -> Tally:
    return ctest("in-process", "default", "-L", "^inprocess$", "-j", "2")  # most of them wait


def conformance() -> Tally:
    return ctest("conformance", "default", "-L", "^conformance$", "-j", "2")


def jobs() -> Tally:
    return ctest("jobs", "default", "-L", "^(job|processes)$")


def of_libtorch() -> list[str]:
    """The files of tests with the mark "libtorch". pytest cannot have all folders at once, as some of their files
    have the same name."""
    files = sorted((ROOT / "test").glob("*/test_*.py"))
    return [str(path.relative_to(ROOT)) for path in files if "pytest.mark.libtorch" in path.read_text()]


def torch(whole: bool) -> Tally:
    """Programs of LibTorch in C++, those of GoogleTest and those that Python starts."""
    tally = ctest("torch", "default", "-L", "^torch$")
    tally.add(pytest("torch-programs", *of_libtorch(), whole=whole, libtorch=True))
    return tally


def commits() -> int:
    """The number of commits up to this one; 0 outside of a repository."""
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(counted.stdout or 0)


def sanitized(preset: str, whole: bool) -> Tally:
    """The tests without other processes under a sanitizer. The conformance suites take most of the time.
    Unless `whole`, each turn of the sanitizer runs the next eighth of their cases."""
    tally = ctest(preset, preset, "--label-exclude", "^conformance$")
    eighth = (
        {} if whole else {"GTEST_TOTAL_SHARDS": "8", "GTEST_SHARD_INDEX": str(commits() // len(TURNS) % 8)}
    )
    tally.add(ctest(f"{preset}-conformance", preset, "-L", "^conformance$", environment=eighth))
    return tally


def fuzz(seconds: int = FUZZ_SECONDS) -> Tally:
    def run_one(target: pathlib.Path) -> Tally:
        known = ROOT / "test/fuzz/corpus" / target.name.removeprefix("fuzz_")
        new = fresh(ROOT / "build/fuzz/found" / target.name)  # what a fuzzer finds goes into the first folder
        corpora = [new, known] if known.is_dir() else [new]
        return one(
            target.name, [target, f"-max_total_time={seconds}", "-timeout=10", *corpora], seconds + 300
        )

    tally = Tally()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as cores:
        for each in cores.map(run_one, sorted((ROOT / "build/fuzz/bin").glob("fuzz_*"))):
            tally.add(each)
    return tally


def core_only() -> Tally:
    """Hora with the core's own libraries and nothing else: builds, runs jobs, and needs nothing foreign at
    run time."""
    tally = ctest("core-only", "core-only")
    linked = subprocess.run(
        ["ldd", ROOT / "build/core-only/lib/libhora.so"], capture_output=True, text=True, check=True
    ).stdout
    libraries = [
        line.split()[0] for line in linked.splitlines()
    ]  # NAME => PATH (ADDRESS): an address may spell a name
    foreign = [
        name
        for name in libraries
        if any(word in name.lower() for word in ("torch", "mpi", "cuda", "python", "c10"))
    ]
    print(f"    libhora links {len(libraries)} libraries; foreign: {foreign or 'none'}")
    tally.add(Tally(failed=1) if foreign else Tally(passed=1))
    return tally


def examples(whole: bool) -> Tally:
    others = [f"--ignore={path}" for path in frameworks.TESTS]  # a suite of its own
    return pytest("examples", "test/examples", "test/packaging", *others, whole=whole)


def hosts(whole: bool) -> Tally:
    """Across hosts, which are namespaces of this machine: with root alone."""
    return pytest("hosts", "test/hosts", "test/docker", whole=whole)


def faults() -> Tally:
    """The faults, in every phase of a job, on machines that are namespaces of this one: a sample, or all with
    FAULTS=all."""
    return pytest("faults", "test/faults")


def python(whole: bool) -> Tally:
    return pytest("python", "test/python", "test/gpu", whole=whole)


def one_job() -> Tally:
    """The shortest whole job: PyTorch learns on two ranks."""
    return one("demo", [VENV / "bin/hrun", "-np", "2", PYTHON, "-m", "hora.demo"])


def with_newest(whole: bool) -> Tally:
    """The tests with the newest PyTorch, and the versions that requirements.txt pins of all other
    packages."""
    print(f"    with {newest.versions()}", flush=True)
    chosen = newest.ALL if whole else newest.SAMPLE
    return pytest("newest", *chosen, python=newest.PYTHON, whole=whole)


def with_frameworks(whole: bool) -> Tally:
    """Frameworks that train on Hora."""
    print(f"    with {frameworks.versions()}", flush=True)
    return pytest("frameworks", *frameworks.TESTS, python=frameworks.PYTHON, whole=whole)


def build_ahead(configuration: str, preset: str) -> None:
    """Builds a preset into the folder of its configuration, with what suites that run meanwhile leave of the
    machine."""
    with times.counted(f"compiling for {preset}, beside other suites"):
        if configuration != "default":  # the set-up has; others run in that folder
            setup.configure(configuration)
        setup.compile_all(preset, niceness=19)


@dataclasses.dataclass
class Suite:
    name: str
    run: Callable[[], Tally]
    logs: list[str]  # to show when it fails
    ahead: Callable[[], None] | None = None  # makes ready what it needs beside the set-up
    whole: Callable[[], Tally] | None = None  # all of its cases, where `run` is a sample
    beside: bool = False  # whether it is in the second row


def built(configuration: str, preset: str = "") -> Callable[[], None]:
    return functools.partial(build_ahead, configuration, preset or configuration)


def sampled(
    name: str,
    run: Callable[[bool], Tally],
    *logs: str,
    ahead: Callable[[], None] | None = None,
    beside: bool = True,
) -> Suite:
    """A suite of which each commit runs a part, and the next ones the rest. `logs`: beside that of its name."""
    return Suite(name, lambda: run(False), [name, *logs], ahead, whole=lambda: run(True), beside=beside)


def sanitizer(preset: str) -> Suite:
    run = functools.partial(sanitized, preset)
    return sampled(preset, run, f"{preset}-conformance", ahead=built(preset), beside=False)


# Two rows of suites run side by side, which take about equally long. The suites of GoogleTest are in one row, as
# their reports share a folder. Suites that need nothing more come first, while the needs of others are made ready.
SUITES = [
    Suite("conformance", conformance, ["conformance"]),
    Suite("jobs", jobs, ["jobs"]),
    sampled("style", style, "ruff", "ruff-format", "mypy", beside=False),
    Suite("in-process", in_process, ["in-process"], built("default", "in-process")),
    sampled("torch", torch, "torch-programs", ahead=built("default", "torch"), beside=False),
    sanitizer("tsan"),
    sanitizer("asan"),
    Suite("fuzz", fuzz, [], built("fuzz")),
    Suite("core-only", core_only, ["core-only"], built("core-only")),
    Suite("faults", faults, ["faults"], beside=True),
    sampled("hosts", hosts),
    sampled("examples", examples),
    sampled("python", python),
    sampled("newest", with_newest, ahead=lambda: newest.prepare(upgrade=False)),
    sampled("frameworks", with_frameworks, ahead=frameworks.prepare),
]


# Suites that compile or install the most. Unless all is asked for, each commit runs those of one line, which take about
# equally long. Sanitizers run the tests of in-process, too.
TURNS = (("tsan",), ("asan",), ("core-only", "torch", "frameworks"), ("in-process", "fuzz", "newest"))


def of_this_turn() -> list[Suite]:
    """All suites but those of other commits' turns."""
    turn = commits() % len(TURNS)
    left_out = sorted({name for each in TURNS for name in each} - set(TURNS[turn]))
    print(f"left to other commits: {', '.join(left_out)}; ./dev test --whole runs all", flush=True)
    return [suite for suite in SUITES if suite.name not in left_out]


def names() -> list[str]:
    return [suite.name for suite in SUITES]


def in_whole(*wanted: str) -> list[Suite]:
    """These suites, with all of their cases."""
    chosen = [suite for suite in SUITES if suite.name in wanted]
    return [dataclasses.replace(suite, run=suite.whole or suite.run) for suite in chosen]


def run_suites(wanted: list[str], whole: bool) -> int:
    if wanted:
        chosen = [suite for suite in SUITES if suite.name in wanted]
    else:
        chosen = SUITES if whole else of_this_turn()
    if whole:
        chosen = in_whole(*(suite.name for suite in chosen))
    return run_all(chosen)


def run_checks() -> int:
    """The checks that find most mistakes: of the sources, the tests without other processes, and one job."""
    quick = in_whole("style", "conformance", "in-process")
    return run_all([*quick, Suite("demo", one_job, ["demo"])])


def run_newest() -> int:
    """All of the tests of which ./dev test runs a sample with the newest releases."""
    (suite,) = in_whole("newest")
    return run_all([dataclasses.replace(suite, ahead=lambda: newest.prepare(upgrade=True))])


def run_all(suites: list[Suite]) -> int:
    with concurrent.futures.ThreadPoolExecutor(1) as builder:
        return run_after(suites, {suite.name: builder.submit(suite.ahead) for suite in suites if suite.ahead})


def run_after(suites: list[Suite], builds: dict[str, concurrent.futures.Future[None]]) -> int:
    rows = [[suite for suite in suites if suite.beside == each] for each in (False, True)]
    total = Tally()
    with concurrent.futures.ThreadPoolExecutor(len(rows)) as threads:
        for tally in threads.map(lambda row: run_row(row, builds), rows):
            total.add(tally)
    for reason in total.skipped:
        print(f"skipped {reason}")
    for case, _ in total.named:
        print(f"failed {case}")
    if parts := times.table():
        print(parts)
    print(f"{total.passed} passed, {total.failed} failed")
    return 0 if total.failed == 0 and total.passed > 0 else 1


def run_row(suites: list[Suite], builds: dict[str, concurrent.futures.Future[None]]) -> Tally:
    """Runs suites one after the other."""
    total = Tally()
    for suite in suites:
        name = suite.name
        start = time.monotonic()
        try:
            if name in builds:
                with times.counted(f"waiting until {name} is ready"):
                    builds[name].result()
                start = time.monotonic()
            tally = suite.run()
        except Failed as failure:
            print(f"    {failure}")
            tally = Tally(failed=1)
        seconds = time.monotonic() - start
        times.add(f"suite {name}", seconds)
        print(result(suite, tally, seconds), flush=True)
        total.add(tally)
    return total


def result(suite: Suite, tally: Tally, seconds: float) -> str:
    """A line for a suite, and what its failed cases have said."""
    lines = [
        f"{suite.name:12} {tally.passed:5} passed {tally.failed:3} failed {len(tally.skipped):3} skipped "
        f"{seconds:7.0f} s"
    ]
    lines += [f"  {case} failed:\n{last_lines(said)}" for case, said in tally.named[:SHOWN]]
    if tally.failed > len(tally.named):
        logs = [log for log in suite.logs if (LOGS / f"{log}.log").exists()]
        lines += [f"  the end of {end_of_log(log)}" for log in logs]
    return "\n".join(lines)
