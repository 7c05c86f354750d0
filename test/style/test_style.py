# SPDX-License-Identifier: Apache-2.0
"""The rules of rules.py over the whole tree, and the rules themselves."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess

import class_sizes
import pytest
from rules import LARGE_CLASSES, RULES, Rule, large_classes, types_of_headers, untested

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".venv/bin"  # as requirements.txt pins them


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


def test_no_two_headers_define_types_of_one_name_in_a_namespace():
    headers = {
        path: (ROOT / path).read_text()
        for path in tracked()
        if re.fullmatch(r"(core|runner|frameworks)/.*\.h", path)
    }
    twins = {name: paths for name, paths in types_of_headers(headers).items() if len(paths) > 1}
    assert not twins
    one = "namespace hora {\nstruct A {\n"
    same = "namespace hora {\nclass A final : public B {\n"
    other = "namespace hora::tcp {\nstruct A {\n"
    assert [len(paths) for paths in types_of_headers({"a.h": one, "b.h": same, "c.h": other}).values()] == [
        2,
        1,
    ]


def test_every_setting_is_explained_in_the_header_and_on_its_page():
    knobs = re.findall(r'"((?:HORA|NCCL)_[A-Z0-9_]+)"', (ROOT / "core/base/knobs.cc").read_text())
    assert knobs
    for place in ("core/include/hora/config.h", "docs/settings.md"):
        text = (ROOT / place).read_text()
        assert not [knob for knob in knobs if knob not in text], place


def test_rule_of_classes_holds():
    """A class is one concept: it has at most 300 lines and 15 data members."""
    large = large_classes(
        {path: (ROOT / path).read_text() for path in tracked() if path.endswith((".cc", ".h", ".py"))}
    )
    assert not {name: size for name, size in large.items() if name not in LARGE_CLASSES}, "split these"
    assert not LARGE_CLASSES.keys() - large.keys(), "take these out of LARGE_CLASSES in test/style/rules.py"


def test_rule_of_classes_counts_what_belongs_to_a_class():
    header = """
class A final : public B<int> {
 public:
  A& operator=(const A&) = delete;
  [[nodiscard]] int f() const { return g({1, 2}); }
  using C = std::map<int, int>;
  static constexpr int kMost = 3;

 private:
  struct Inner {
    int x = 0;
  };
  void h(int y);  // int no_member;
  const int one_;
  std::map<int, std::function<void(int, Inner)>> two_;
  int three_ = f();
  Inner four_{.x = 1};
};
"""
    source = """
void A::h(int y) {
  if (y > 0) {
  }
}

class A::Other {
  int x_;
};
"""
    sizes = class_sizes.of_cpp({"core/a.h": header, "core/a.cc": source})
    assert sizes["core/a", "A"] == class_sizes.Size(lines=17 + 4, members=4)
    assert sizes["core/a", "Other"] == class_sizes.Size(lines=3, members=1)
    assert sizes["core/a", "Inner"].members == 0, "a struct is a value"
    many = "class A {\n" + "".join(f"  int a{i}_;\n" for i in range(16)) + "};\n"
    long = "class A:\n" + "    x = 1\n" * 300
    assert large_classes({"core/a.h": many, "python/b.py": long, "core/c.h": header}).keys() == {
        ("core/a", "A"),
        ("python/b", "A"),
    }


def test_sources_are_formatted():
    sources = [path for path in tracked() if path.endswith((".cc", ".h", ".c"))]
    result = subprocess.run(
        [TOOLS / "clang-format", "--dry-run", "-Werror", *sources],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "error:" in line})
    assert result.returncode == 0, f"run ./dev format; these are not formatted: {', '.join(wrong)}"


def complaints(command: list[str], paths: list[str]) -> list[str]:
    """The output of a command for each file that it rejects; it runs on as many files at a time as there are
    cores."""

    def check(path: str) -> str:
        result = subprocess.run([*command, path], cwd=ROOT, capture_output=True, text=True, check=False)
        return "" if result.returncode == 0 else f"{path}:\n{result.stdout}{result.stderr}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [complaint for complaint in pool.map(check, paths) if complaint]


def sources_in(compiled: pathlib.Path) -> list[str]:
    """The source files that the compiler is given with a file: that file, or those which CMake put together
    in it."""
    together = (
        re.findall(r'^#include "(.*)"$', compiled.read_text(), re.MULTILINE)
        if "Unity" in compiled.parts
        else [str(compiled)]
    )
    return [os.path.relpath(source, ROOT) for source in together]


def compiled_alike(sources: list[str]) -> dict[tuple[str, str], list[str]]:
    """Sources by folder and compiler options; those that are compiled by themselves stay so."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in json.loads((ROOT / "build/default/compile_commands.json").read_text()):
        options = re.findall(r"(?<= )(?:-isystem \S+|-[DI]\S+|-std=\S+)", entry["command"])
        used = " ".join(option for option in options if not option.endswith("_EXPORTS"))
        for source in sources_in(pathlib.Path(entry["file"])):
            place = os.path.dirname(source) if "/Unity/" in entry["file"] else source
            if source in sources:
                groups.setdefault((place, used), []).append(source)
    return groups


@pytest.mark.long
@pytest.mark.parametrize("part", range(3))
def test_clang_tidy_finds_nothing(tmp_path: pathlib.Path, part: int):
    """The checks are those of .clang-tidy; needs build/default/compile_commands.json, which ./dev setup
    makes. Files of a folder are looked at as one, as they are compiled in unity builds: most of the time goes
    into the standard library's headers. Format strings are checked by the compiler alone: newer clangs do not
    accept what the fmt of Debian 13 has in chrono.h."""
    sources = [path for path in tracked() if path.startswith(("core/", "runner/")) and path.endswith(".cc")]
    groups = compiled_alike(sources)
    assert sorted(sum(groups.values(), [])) == sorted(sources), "what ./dev setup built is not what is there"

    def check(group: tuple[tuple[str, str], list[str]]) -> str:
        (folder, options), members = group
        together = tmp_path / f"{folder.replace('/', '_')}_{os.path.basename(members[0])}"
        together.write_text("".join(f'#include "{ROOT / member}"\n' for member in members))
        command = [
            TOOLS / "clang-tidy",
            "--quiet",
            f"--config-file={ROOT / '.clang-tidy'}",
            str(together),
            "--",
            *shlex.split(options),
            "-DFMT_CONSTEVAL=",
        ]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return "" if result.returncode == 0 else f"{result.stdout}{result.stderr}"

    largest_first = sorted(groups.items(), key=lambda group: -len(group[1]))[part::3]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [finding for finding in pool.map(check, largest_first) if finding]
    assert not findings, "\n".join(findings)


def test_links_of_pages_lead_somewhere():
    missing = []
    for page in (path for path in tracked() if path.endswith(".md")):
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (ROOT / page).read_text()):
            if not (ROOT / page).parent.joinpath(target).exists():
                missing.append(f"{page}: {target}")
    assert not missing


def test_files_named_by_the_page_on_adding_exist():
    paths = re.findall(r"`([a-z]\w*/[\w./]+|CMakeLists\.txt)`", (ROOT / "docs/adding.md").read_text())
    assert len(paths) > 40
    assert not [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.long
@pytest.mark.parametrize("part", range(3))
def test_headers_stand_alone(part: int):
    """Where a header has a source file that is plain to see: that file includes it first.

    Not those with PTX: only nvcc compiles them.
    """
    files = set(tracked())
    headers = [
        path
        for path in sorted(files)
        if path.startswith(("core/", "runner/"))
        and path.endswith(".h")
        and "torch" not in path
        and "/ptx/" not in path
    ]
    for source in sorted(
        path.removesuffix(".h") + ".cc" for path in headers if path.removesuffix(".h") + ".cc" in files
    ):
        first = re.search(r"^#include .*$", (ROOT / source).read_text(), re.MULTILINE)
        header = source.removesuffix(".cc") + ".h"
        assert first and first.group() == f'#include "{header}"', f"{source} must include {header} first"
        headers.remove(header)
    mpi = subprocess.run(
        ["pkg-config", "--cflags-only-I", "ompi-c"], capture_output=True, text=True, check=True
    ).stdout.split()
    findings = complaints(
        ["g++", "-std=c++20", "-fsyntax-only", "-Icore/include", "-I.", *mpi, "-x", "c++"],
        headers[part::3],
    )
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    ("name", "path", "bad", "good"),
    [
        ("has_licence", "core/base/x.h", "int x;", "// SPDX-License-Identifier: Apache-2.0\n"),
        ("keeps_to_the_line_length", "a.cc", "x" * 111, "x" * 110),
        (
            "includes_only_what_lies_below",
            "core/comm/x.h",
            '#include "core/runtime/loop.h"',
            '#include "core/base/log.h"',
        ),
        (
            "includes_only_what_lies_below",
            "core/runtime/loop.cc",
            '#include "core/backend/tcp/data/mesh.h"',
            '#include "core/fuse/plan.h"',
        ),
        (
            "includes_only_what_lies_below",
            "frameworks/torch/x.cc",
            '#include "core/comm/world.h"',
            "#include <hora/hora.h>",
        ),
        ("keeps_foreign_headers_in_their_place", "core/runtime/x.cc", "#include <mpi.h>", "#include <map>"),
        ("has_no_conditionals", "core/base/x.cc", "#ifdef X", "#define X"),
        ("reads_the_environment_in_one_place", "core/runtime/x.cc", "std::getenv(name)", "get(env)"),
        ("has_no_loose_ends", "core/base/x.cc", "// TODO: later", "// done"),
        ("names_say_something", "core/base/string_utils.cc", "", None),
        ("headers_are_guarded", "core/base/x.h", "int x;", "#pragma once\n"),
        (
            "is_in_the_namespace_of_its_folder",
            "core/backend/tcp/data/x.h",
            "namespace hora {\n",
            "namespace hora::tcp {\n",
        ),
        (
            "sentences_have_a_subject",
            "core/base/x.h",
            "/// What came of it.",
            "/// The outcome. Is it what we want?",
        ),
        ("sentences_have_a_subject", "x.c", "int x;  // What counts.", "int x;  // The count."),
        ("sentences_have_a_subject", "x.f90", "! Who waits works.", "! A waiting rank works."),
        ("sentences_have_a_subject", "x.py", '"""One.\n\nWho waits.\n"""', '"""One.\n\nWho waits?\n"""'),
        ("sentences_have_a_subject", "x.py", "x = 1  # one. Who waits is told", 'print("What now")'),
    ],
)
def test_rule_finds_what_it_is_for(name: str, path: str, bad: str, good: str | None):
    check = next(rule.check for rule in RULES if rule.check.__name__ == name)
    assert list(check(path, bad))
    if good is not None:
        assert not list(check(path, good))
