# SPDX-License-Identifier: Apache-2.0
"""The command line of ./dev."""

import argparse
import os
import signal
import sys
from collections.abc import Callable

from bench.plan import main as plan

from . import demo, machine, setup, suites, wheel
from .shell import HRUN, ROOT, Failed, run


def set_up() -> int:
    setup.everything()
    return 0


def test(wanted: list[str], whole: bool) -> int:
    """Runs these suites, or all. `whole`: also those of which a sample is enough for each commit. The programs
    of some suites are compiled while others run."""
    setup.everything("all")
    return suites.run_suites(wanted, whole)


def check() -> int:
    """Runs the checks that find most mistakes in a few minutes."""
    setup.everything()
    return suites.run_checks()


def all_faults() -> int:
    """Plays the whole table of faults, and writes test/faults/RESULTS.md."""
    setup.everything()
    os.environ["FAULTS"] = "all"
    return suites.run_suites(["faults"], whole=True)


def newest() -> int:
    """Runs the tests of Python with the newest release of everything."""
    setup.everything()
    return suites.run_newest()


def bench(arguments: list[str]) -> int:
    """Measures the rows of the benchmark plan, and writes test/bench/RESULTS.md."""
    parsed = plan.parse(arguments)
    setup.everything()
    return plan.run(parsed)


def make_wheels() -> int:
    """Makes dist/hora-*.whl, and checks them."""
    setup.everything()
    return wheel.everything()


def fuzz(minutes: float) -> int:
    """Runs every fuzzer for so long."""
    setup.everything()
    suites.build_ahead("fuzz", "fuzz")
    tally = suites.fuzz(round(60 * minutes))
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 0 if tally.failed == 0 else 1


def simulate(arguments: list[str]) -> int:
    """Runs simulated jobs of so many seeds."""
    setup.everything()
    run([ROOT / "build/default/test/simulate", *arguments])
    return 0


def soak(arguments: list[str]) -> int:
    """Runs random operations on four ranks, over shared memory and over sockets."""
    setup.everything()
    for plane in ("auto", "tcp"):
        run(
            [
                HRUN,
                "-np",
                "4",
                "-x",
                f"HORA_CPU_OPERATIONS={plane}",
                ROOT / "build/default/test/soak_worker",
                *arguments,
            ]
        )
    return 0


def format_sources() -> int:
    """Formats C++ and Python sources in place."""
    setup.everything()
    run([ROOT / ".venv/bin/clang-format", "-i", *suites.cpp_sources()])
    run([ROOT / ".venv/bin/ruff", "format", "python", "test", "examples", "dev"])
    return 0


def see_what_users_see() -> None:
    """Removes variables that some machines set for every Python program."""
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        os.environ.pop(name, None)


def hear_interrupts() -> None:
    """Processes that a script starts in the background ignore these signals, and so would all processes that
    are started here."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def main(arguments: list[str]) -> int:
    see_what_users_see()
    hear_interrupts()
    parser = argparse.ArgumentParser(prog="./dev", description="Everything a developer of Hora does.")
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="setup|demo|check|test|newest|wheel|fuzz|simulate|soak|bench|format",
    )
    commands.add_parser(
        "setup",
        help="install what is missing (system packages, .venv), build into build/default, install hora into .venv",
    )
    commands.add_parser(
        "demo",
        help="install and compile what this takes, then train the digits example on two ranks, in C++ and in Python",
    )
    commands.add_parser(
        "check",
        help="setup, then formatting, lint, style rules, the tests without other processes, and one job; 4 minutes",
    )
    testing = commands.add_parser(
        "test", help="setup, then run every test; the last line is 'N passed, N failed'"
    )
    testing.add_argument("suite", nargs="*", help=f"only these: {', '.join(suites.names())}")
    testing.add_argument(
        "--faults",
        action="store_true",
        help="instead: every fault in every phase, into test/faults/RESULTS.md; 20 minutes",
    )
    testing.add_argument(
        "--whole",
        action="store_true",
        help="all suites and all their cases; else each commit runs a third of the long ones; 50 minutes more",
    )
    commands.add_parser(
        "newest",
        help="setup, then the tests of Python, examples and package with the newest PyTorch, NumPy, ... of PyPI; 20 minutes",
    )
    commands.add_parser(
        "wheel",
        help="setup, then dist/hora-*.whl, one for each Python 3.11 to 3.13 of this machine, and their sdist",
    )
    commands.add_parser(
        "bench",
        add_help=False,
        help="setup, then compare with peers and limits, into test/bench/RESULTS.md; ./dev bench --help",
    )
    simulation = commands.add_parser(
        "simulate", help="setup, then let simulated jobs run, from other seeds than the tests do"
    )
    simulation.add_argument(
        "arguments", nargs="+", help="SEEDS [FIRST [RANKS]]: how many, the first one, ranks (else 2 to 12)"
    )
    fuzzing = commands.add_parser(
        "fuzz", help="setup, then run every fuzzer for some minutes; what they find stays in build/fuzz/found"
    )
    fuzzing.add_argument("minutes", type=float)
    soaking = commands.add_parser(
        "soak",
        help="setup, then many random operations on four ranks, whose results are checked, and whose memory is watched",
    )
    soaking.add_argument(
        "arguments",
        nargs="*",
        help="[OPERATIONS [SEED]]: how many, else 1000000, over shared memory and over sockets each",
    )
    commands.add_parser("format", help="format C++ and Python sources in place")
    parsed, rest = parser.parse_known_args(arguments)
    if rest and parsed.command != "bench":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    unknown = set(getattr(parsed, "suite", [])) - set(suites.names())
    if unknown:
        parser.error(f"there is no suite {', '.join(sorted(unknown))}; there are {', '.join(suites.names())}")
    acts: dict[str, Callable[[], int]] = {
        "setup": set_up,
        "demo": demo.everything,
        "check": check,
        "test": lambda: all_faults() if parsed.faults else test(parsed.suite, parsed.whole),
        "newest": newest,
        "wheel": make_wheels,
        "fuzz": lambda: fuzz(parsed.minutes),
        "simulate": lambda: simulate(parsed.arguments),
        "soak": lambda: soak(parsed.arguments),
        "bench": lambda: bench(rest),
        "format": format_sources,
    }
    try:
        if strange := machine.check():
            print(strange, flush=True)
        return acts[parsed.command]()
    except Failed as failure:
        print(f"dev: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "dev: interrupted; started again, it goes on after the last step that was done", file=sys.stderr
        )
        return 130
