# SPDX-License-Identifier: Apache-2.0
"""The sizes of the classes of C++ and Python sources, by a parser that knows as much as it needs."""

import ast
import dataclasses
import re
from collections.abc import Iterator


@dataclasses.dataclass
class Size:
    """The size of a class."""

    lines: int = 0  # of the class, and of its functions that are defined outside of it
    members: int = (
        0  # its data members, if it hides them: a struct is a value, with as many as there are facts
    )


_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
_CLASS = re.compile(
    r"^[ \t]*(?:template <[^;{]*>\s*)?(class|struct) (?:\w+::)*(\w+)(?: final)?(?:\s*:(?!:)[^;{(]*)?\s*\{",
    re.MULTILINE,
)
_DEFINITION = re.compile(
    r"^(?=\S)(?:[\w:<>&*,\[\] ]+\s)?(\w+)::(?:\w+::)*~?\w+\([^;{]*?\)[^;{}]*\{", re.MULTILINE
)
_NO_MEMBER = re.compile(r"(using|friend|typedef|enum|class|struct|static|template|union|.*\boperator)\b")


def _code_only(text: str) -> str:
    """The text with blanks instead of comments and literals."""
    return _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _end_of_block(code: str, begin: int) -> int:
    """The closing brace that belongs to the opening one at `begin`."""
    depth = 0
    for at in range(begin, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code)


def _statements(body: str) -> Iterator[str]:
    """The declarations in the body of a class. Blocks are left out, but for their braces."""
    depth = 0
    statement = ""
    for char in body:
        depth -= char == "}"
        if depth == 0 and char == ";":
            yield statement
            statement = ""
        elif depth == 0:
            statement += char
        depth += char == "{"


def _is_data_member(statement: str) -> bool:
    statement = re.sub(r"\b(public|private|protected):", "", statement)
    statement = re.sub(r".*\)[^{};]*\{\}(?!\s*$)", "", statement, flags=re.DOTALL)  # functions before it
    while (shorter := re.sub(r"<[^<>]*>", "", statement)) != statement:
        statement = shorter
    declaration = re.split(r"[={]", statement)[0].strip()
    return bool(re.fullmatch(r"[\w:&*\s\[\]]+", declaration)) and not _NO_MEMBER.match(declaration)


def of_cpp(sources: dict[str, str]) -> dict[tuple[str, str], Size]:
    """The sizes of classes by the path of their files without its suffix, and by their names. A header and its
    source file count together."""
    sizes: dict[tuple[str, str], Size] = {}
    for path, text in sources.items():
        code = _code_only(text)
        for head in _CLASS.finditer(code):
            end = _end_of_block(code, head.end() - 1)
            size = sizes.setdefault((path.rsplit(".", 1)[0], head[2]), Size())
            size.lines += code.count("\n", head.start(), end) + 1
            if head[1] == "class":
                size.members += sum(map(_is_data_member, _statements(code[head.end() : end])))
        for head in _DEFINITION.finditer(code):
            size = sizes.setdefault((path.rsplit(".", 1)[0], head[1]), Size())
            size.lines += code.count("\n", head.start(), _end_of_block(code, head.end() - 1)) + 1
    return sizes


def of_python(sources: dict[str, str]) -> dict[tuple[str, str], Size]:
    """The same of Python's classes, whose data members do not count."""
    return {
        (path.rsplit(".", 1)[0], node.name): Size((node.end_lineno or node.lineno) - node.lineno + 1)
        for path, text in sources.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    }
