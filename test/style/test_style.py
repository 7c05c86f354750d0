# SPDX-License-Identifier: Apache-2.0
"""The rules of rules.py over the whole tree, and the rules themselves."""

import concurrent.futures
import os
import pathlib
import re
import subprocess

import pytest
from rules import RULES, Rule, types_of_headers, untested

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)
def test_rule_holds(rule: Rule):
    findings = []
    for path in tracked():
        if re.fullmatch(rule.pattern, path):
            text = (ROOT / path).read_text(errors="replace")
            findings += [f"{path}:{line}: {remedy}" for line, remedy in rule.check(path, text)]
    assert not findings, "\n" + "\n".join(findings)


def test_every_source_file_has_a_test_file():
    assert not untested(tracked()), "add test/<path>_test.cc for these"


def test_no_two_headers_define_types_of_one_name():
    headers = {path: (ROOT / path).read_text() for path in tracked() if re.fullmatch(r"(core|runner|frameworks)/.*\.h", path)}
    twins = {name: paths for name, paths in types_of_headers(headers).items() if len(paths) > 1}
    assert not twins
    assert len(types_of_headers({"a.h": "struct A {\n", "b.h": "class A final : public B {\n"})["A"]) == 2


def test_sources_are_formatted():
    sources = [path for path in tracked() if path.endswith((".cc", ".h"))]
    result = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *sources], cwd=ROOT, capture_output=True, text=True, check=False)
    wrong = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "error:" in line})
    assert result.returncode == 0, f"run ./dev format; these are not formatted: {', '.join(wrong)}"


def complaints(command: list[str], paths: list[str]) -> list[str]:
    """What a command says of each file that it does not like; as many at a time as there are cores."""

    def check(path: str) -> str:
        result = subprocess.run([*command, path], cwd=ROOT, capture_output=True, text=True, check=False)
        return "" if result.returncode == 0 else f"{path}:\n{result.stdout}{result.stderr}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [complaint for complaint in pool.map(check, paths) if complaint]


def test_clang_tidy_finds_nothing():
    """As .clang-tidy says; needs build/compile_commands.json, which ./dev setup makes."""
    sources = [path for path in tracked() if path.startswith(("core/", "runner/")) and path.endswith(".cc")]
    findings = complaints(["clang-tidy-14", "-p", "build", "--quiet"], sources)
    assert not findings, "\n".join(findings)


def test_headers_stand_alone():
    headers = [path for path in tracked() if path.startswith(("core/", "runner/")) and path.endswith(".h") and "torch" not in path]
    mpi = subprocess.run(["pkg-config", "--cflags-only-I", "ompi-c"], capture_output=True, text=True, check=True).stdout.split()
    findings = complaints(["g++", "-std=c++20", "-fsyntax-only", "-Icore/include", "-I.", *mpi, "-x", "c++"], headers)
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    ("name", "path", "bad", "good"),
    [
        ("has_licence", "core/base/x.h", "int x;", "// SPDX-License-Identifier: Apache-2.0\n"),
        ("keeps_to_the_line_length", "a.cc", "x" * 111, "x" * 110),
        ("includes_only_what_lies_below", "core/comm/x.h", '#include "core/runtime/loop.h"', '#include "core/base/log.h"'),
        ("includes_only_what_lies_below", "core/runtime/loop.cc", '#include "core/backend/tcp/mesh.h"', '#include "core/fuse/plan.h"'),
        ("includes_only_what_lies_below", "frameworks/torch/x.cc", '#include "core/comm/world.h"', "#include <hora/hora.h>"),
        ("keeps_foreign_headers_in_their_place", "core/runtime/x.cc", "#include <mpi.h>", "#include <map>"),
        ("has_no_conditionals", "core/base/x.cc", "#ifdef X", "#define X"),
        ("reads_the_environment_in_one_place", "core/runtime/x.cc", "std::getenv(name)", "get(env)"),
        ("has_no_loose_ends", "core/base/x.cc", "// TODO: later", "// done"),
        ("names_say_something", "core/base/string_utils.cc", "", None),
        ("headers_are_guarded", "core/base/x.h", "int x;", "#pragma once\n"),
    ],
)
def test_rule_finds_what_it_is_for(name: str, path: str, bad: str, good: str | None):
    check = next(rule.check for rule in RULES if rule.check.__name__ == name)
    assert list(check(path, bad))
    if good is not None:
        assert not list(check(path, good))
