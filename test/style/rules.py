# SPDX-License-Identifier: Apache-2.0
"""The rules of the sources, in one table. Each takes a path and its text, and yields what is wrong with
it."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterator

import class_sizes

Finding = tuple[int, str]  # the line, and what to do
Check = Callable[[str, str], Iterator[Finding]]

# The allowed includes: a folder, and the folders that it may include beside itself and <hora/...>.
LAYERS = {
    "core/base": [],
    "core/device": ["core/base"],
    "core/comm": ["core/base", "core/device"],
    "core/launcher": ["core/base", "core/elastic"],
    "core/elastic": ["core/base"],
    "core/join": ["core/base", "core/comm", "core/launcher", "core/elastic", "core/backend"],
    "core/compose": ["core/base", "core/device", "core/comm"],
    "core/backend": ["core/base", "core/device", "core/comm"],
    "core/backend/local": ["core/base", "core/device", "core/comm"],
    "core/backend/shm": ["core/base", "core/device", "core/comm", "core/join", "core/compose"],
    "core/backend/tcp": ["core/base", "core/comm", "core/join"],
    "core/backend/tcp/control": ["core/base", "core/comm", "core/launcher", "core/join", "core/backend/tcp"],
    "core/backend/tcp/data": ["core/base", "core/device", "core/comm", "core/join", "core/backend/tcp"],
    "core/backend/tcp/messages": ["core/base", "core/comm", "core/join", "core/backend/tcp"],
    "core/backend/mpi": [
        "core/base",
        "core/device",
        "core/comm",
        "core/join",
        "core/compose",
        "core/backend",
    ],
    "core/backend/cuda": ["core/base", "core/device"],
    "core/backend/nccl": ["core/base", "core/device", "core/comm", "core/backend", "core/backend/cuda"],
    "core/gpu": ["core/base", "core/device", "core/comm", "core/compose", "core/backend"],
    "core/negotiate": ["core/base", "core/comm"],
    "core/fuse": ["core/base", "core/device", "core/comm", "core/negotiate"],
    "core/watch": ["core/base", "core/comm", "core/negotiate", "core/fuse"],
    "core/runtime": [
        "core/base",
        "core/device",
        "core/comm",
        "core/launcher",
        "core/elastic",
        "core/join",
        "core/compose",
        "core/backend",
        "core/gpu",
        "core/negotiate",
        "core/fuse",
        "core/watch",
    ],
    "core/include/hora": [],
    "frameworks/rounds": [],
    "frameworks/samples": [],
    "frameworks/state": [],
    "frameworks/torch": ["frameworks/rounds", "frameworks/samples", "frameworks/state"],
    "python/native": ["frameworks/rounds", "frameworks/samples", "frameworks/state"],
    "runner": [
        "core/base",
        "core/device",
        "core/comm",
        "core/launcher",
        "core/elastic",
        "core/join",
        "core/backend",
    ],
    "examples": [],
}
NAME_BACKENDS = ["core/runtime/backends.cc", "core/runtime/connect.cc"]
LISTS_BACKENDS = "runner/command_line/build_report.cc"  # for people

# Foreign headers, and the only places that may include them. The torch face is LibTorch's by purpose.
FOREIGN = {
    r"mpi\.h": [
        "core/backend/mpi",
        "test/core/backend/mpi",
        "test/conformance",
        "test/support",
        "test/bench",
    ],
    r"nccl\.h": ["core/backend/nccl", "test/core/backend/nccl", "test/support/fake_gpu"],
    r"cuda.*": ["core/backend/cuda", "test/core/backend/cuda", "test/support/fake_gpu"],
    r"torch/.*": [
        "frameworks/torch",
        "core/include/hora/torch.h",
        "core/include/hora/torch",
        "test/bench",
        "test/frameworks",
        "examples",
    ],
    r"pybind11/.*": ["python/native"],
    r"sodium\.h": ["core/join", "core/backend/shm"],
    r"hwy/.*": ["core/device", "core/backend/shm", "test/core/device", "test/support/targets.h"],
    r"CLI/.*": ["runner"],
    r"yaml-cpp/.*": ["runner"],
    r"nlohmann/.*": ["runner", "test"],
    r"hwloc.*": ["runner"],
}

# Where the preprocessor may decide something, and why.
CONDITIONALS_ALLOWED = {
    "core/device/block_floats.cc": "Highway compiles the file once for each instruction set",
    "core/device/kernels.cc": "Highway compiles the file once for each instruction set",
    "core/include/hora/c.h": "C++ programs include it, too",
}
GETENV_ALLOWED = ["core/base/config.cc", "runner/launch/environment.cc", "examples/", "test/"]
FORBIDDEN_NAMES = [
    "common",
    "util",
    "utils",
    "helper",
    "helpers",
    "manager",
    "misc",
    "impl",
    "context",
    "global",
]
WITHOUT_A_TEST = {
    "runner/main.cc": "hands its arguments on; test/job runs it",
    "runner/streams/standard_input.cc": "is about hrun's own descriptors; test/python/test_terminal.py runs it at terminals, files and pipes",
}
LONGEST_LINE = 110

# The limits of a class, with its functions that are defined outside of it, and the classes that are larger, by
# file and name.
MOST_LINES_OF_A_CLASS = 300
MOST_DATA_MEMBERS = 15
LARGE_CLASSES = {
    ("core/backend/mpi/mpi_collective", "MpiCollective"): "one short function for each operation",
    (
        "core/backend/tcp/control/tcp_control",
        "TcpControl",
    ): "19 members, each a class or a flag: it joins them",
    ("core/runtime/admission", "Admission"): "one short check for each error of a caller",
}


def lines(text: str) -> Iterator[tuple[int, str]]:
    yield from enumerate(text.splitlines(), 1)


def folder_of(path: str, folders: dict[str, list[str]]) -> str | None:
    fitting = [folder for folder in folders if path.startswith(folder + "/")]
    return max(fitting, key=len) if fitting else None


def has_licence(path: str, text: str) -> Iterator[Finding]:
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text.splitlines()[:3]):
        yield 1, "begin with: SPDX-License-Identifier: Apache-2.0"


def keeps_to_the_line_length(path: str, text: str) -> Iterator[Finding]:
    for number, line in lines(text):
        if len(line) > LONGEST_LINE:
            yield number, f"{len(line)} columns; break the line at {LONGEST_LINE}"


def includes_only_what_lies_below(path: str, text: str) -> Iterator[Finding]:
    own = folder_of(path, LAYERS)
    if own is None:
        return
    for number, line in lines(text):
        found = re.match(r'\s*#include "([^"]+)"', line)
        if not found:
            continue
        target = folder_of(found[1], LAYERS)
        if target == own or target in LAYERS[own]:
            continue
        if path in NAME_BACKENDS and found[1].startswith("core/backend/"):
            continue
        if path == LISTS_BACKENDS and found[1] == "core/runtime/backends.h":
            continue
        if own == "python/native" and found[1].startswith("python/native/"):
            continue
        yield number, f"{own} may not include {found[1]}: see LAYERS in test/style/rules.py"


def keeps_foreign_headers_in_their_place(path: str, text: str) -> Iterator[Finding]:
    for number, line in lines(text):
        found = re.match(r'\s*#include [<"]([^>"]+)[>"]', line)
        for pattern, places in FOREIGN.items():
            if found and re.fullmatch(pattern, found[1]) and not path.startswith(tuple(places)):
                yield number, f"<{found[1]}> belongs into {' or '.join(places)}"


def has_no_conditionals(path: str, text: str) -> Iterator[Finding]:
    if path in CONDITIONALS_ALLOWED:
        return
    for number, line in lines(text):
        if re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b", line):
            yield number, "no #if in the sources: make it another file, chosen by CMake or at run time"


def reads_the_environment_in_one_place(path: str, text: str) -> Iterator[Finding]:
    if path.startswith(tuple(GETENV_ALLOWED)):
        return
    for number, line in lines(text):
        if re.search(r"\bgetenv\b", line):
            yield number, f"getenv belongs into {GETENV_ALLOWED[0]}"


def has_no_loose_ends(path: str, text: str) -> Iterator[Finding]:
    for number, line in lines(text):
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
            yield number, "do it, or leave it out"


def names_say_something(path: str, text: str) -> Iterator[Finding]:
    words = re.split(r"[/_.]", path)
    for word in FORBIDDEN_NAMES:
        if word in words:
            yield 1, f"'{word}' says nothing: name the file after what it is"


def sentences_have_a_subject(path: str, text: str) -> Iterator[Finding]:
    """In comments, docstrings, and pages: a sentence names the thing that it is about."""
    c = "//+<?|/?\\*"
    marks = {".cc": c, ".h": c, ".c": c, ".f90": "!", ".cu": "//+<?", ".py": '#|"""', ".md": ""}
    mark = marks.get(pathlib.PurePath(path).suffix, "#")
    begin = rf"(?:^|\s)(?:{mark}) ?(?:.*[.:;] )?" if mark else r"^(?!#)(?:.*[.:;] )?"
    free = r"(?:What|Whoever|Whatever|Which|Whose|Whom|Who)\b"
    for number, line in lines(text):
        if re.search(rf"{begin}{free}[^?]*$", line):
            yield number, "begin the sentence with a noun that names the thing"
    if path.endswith(".py"):
        for docstring in re.finditer(r'^ *r?"""(.*?)"""$', text, re.MULTILINE | re.DOTALL):
            for found in re.finditer(rf"(?:[.:;]\s+|\n\s*\n\s*){free}[^.?]*(?:\.|$)", docstring[1]):
                number = text.count("\n", 0, docstring.start(1) + found.end()) + 1
                yield number, "begin the sentence with a noun that names the thing"


def headers_are_guarded(path: str, text: str) -> Iterator[Finding]:
    if path.endswith(".h") and "#pragma once" not in text:
        yield 1, "a header needs #pragma once"


# Folders whose names are in a namespace of their own.
NAMESPACES = {
    "core/backend/local": "hora::local",
    "core/backend/shm": "hora::shm",
    "core/backend/tcp": "hora::tcp",
    "core/backend/mpi": "hora::mpi",
    "core/backend/cuda": "hora::cuda",
    "core/backend/nccl": "hora::nccl",
    "frameworks/rounds": "hora::rounds",
    "frameworks/samples": "hora::samples",
    "frameworks/state": "hora::state",
    "runner": "hora::hrun",
}


def is_in_the_namespace_of_its_folder(path: str, text: str) -> Iterator[Finding]:
    folder = folder_of(path.removeprefix("test/"), dict.fromkeys(NAMESPACES, []))
    wanted = NAMESPACES[folder] if folder else "hora"
    for number, line in lines(text):
        found = re.match(r"namespace (hora[a-z:]*) \{", line)
        inner = found and found[1].startswith(wanted + "::") and found[1] not in NAMESPACES.values()
        if found and found[1] != wanted and not inner:
            yield number, f"the namespace of this folder is {wanted}"


@dataclasses.dataclass
class Rule:
    check: Check
    pattern: str  # of the paths that it is for


CPP = r".*\.(cc|h)"
CLASSES_OF_CPP = r"(core|runner|frameworks)/.*\.(cc|h)"
CLASSES_OF_PYTHON = r"(python|examples|test)/.*\.py"
OURS = r"(core|runner|frameworks|python/native|examples|test)/.*\.(cc|h)"
RULES = [
    Rule(
        has_licence,
        r"(?!.*\.(csv|md|txt)$)(core|runner|frameworks|python|examples|test|docker)/.*\.(cc|h|c|f90|py|pyi|txt|cmake)",
    ),
    Rule(keeps_to_the_line_length, r".*\.(cc|h|c|f90)"),
    Rule(includes_only_what_lies_below, CPP),
    Rule(keeps_foreign_headers_in_their_place, CPP),
    Rule(has_no_conditionals, OURS),
    Rule(reads_the_environment_in_one_place, OURS),
    Rule(
        has_no_loose_ends,
        r"(?!test/style/)(core|runner|frameworks|python|examples|test)/.*\.(cc|h|c|f90|py)",
    ),
    Rule(names_say_something, r"(?!python/hora/_horovod/)(core|runner|frameworks|python|examples|test)/.*"),
    Rule(headers_are_guarded, CPP),
    Rule(
        is_in_the_namespace_of_its_folder,
        r"(core|runner|frameworks|test/(core|runner|frameworks))/.*\.(cc|h)",
    ),
    Rule(
        sentences_have_a_subject,
        r"(?!.*(RESULTS|CHANGELOG)\.md$|test/(style|fuzz/corpus)/).*(\.(cc|h|cu|c|f90|py|cmake|md)|CMakeLists\.txt)",
    ),
]


def types_of_headers(texts: dict[str, str]) -> dict[str, list[str]]:
    """The types that headers define, with their namespace, each with its headers. Two of one name in one
    namespace are one to the linker: hrun and the modules share a process with libhora."""
    found: dict[str, list[str]] = {}
    for path, text in texts.items():
        namespace = re.search(r"^namespace ([\w:]+) \{", text, re.MULTILINE)
        for name in re.findall(
            r"^(?:class|struct|enum class) (\w+)(?: final)?(?: : [\w: ]+)? \{", text, re.MULTILINE
        ):
            found.setdefault(f"{namespace[1] if namespace else ''}::{name}", []).append(path)
    return found


def untested(paths: list[str]) -> list[str]:
    """Source files of the core, of the rounds and of hrun that have no test file at the same path."""
    sources = [
        path
        for path in paths
        if re.fullmatch(r"(core|runner|frameworks/rounds|frameworks/samples|frameworks/state)/.*\.cc", path)
        and path not in WITHOUT_A_TEST
    ]
    return [path for path in sources if f"test/{path.removesuffix('.cc')}_test.cc" not in paths]


def large_classes(sources: dict[str, str]) -> dict[tuple[str, str], class_sizes.Size]:
    """The classes that are larger than allowed, by the path of their files without its suffix, and by name."""
    cpp = {path: text for path, text in sources.items() if re.fullmatch(CLASSES_OF_CPP, path)}
    python = {path: text for path, text in sources.items() if re.fullmatch(CLASSES_OF_PYTHON, path)}
    return {
        name: size
        for name, size in (class_sizes.of_cpp(cpp) | class_sizes.of_python(python)).items()
        if size.lines > MOST_LINES_OF_A_CLASS or size.members > MOST_DATA_MEMBERS
    }
