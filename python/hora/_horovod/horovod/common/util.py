# SPDX-License-Identifier: Apache-2.0
"""Questions that scripts and libraries ask about an installation of Horovod."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import hora.torch
from hora import ops
from hora._errors import HoraArgumentError

from .exceptions import get_version_mismatch_message

Item = TypeVar("Item")

EXTENSIONS = ["tensorflow", "torch", "mxnet"]
_cache = functools.cache


def get_ext_suffix() -> str:
    """The end of the names of compiled modules of this Python."""
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Where a compiled module would lie beside a file of a package."""
    *folders, name = args
    return os.path.join(os.path.dirname(pkg_path), *folders, name + get_ext_suffix())


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raises ImportError if Hora does not serve the framework; nothing has to be compiled."""
    if not extension_available(ext_name.removeprefix("horovod.")):
        raise ImportError(
            f"{ext_name} is not part of Hora, which serves PyTorch, Keras, TensorFlow and NumPy",
            name=ext_name,
        )


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether Hora serves the framework: "torch" and "tensorflow"."""
    return ext_base_name in ("torch", "tensorflow")


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether PyTorch finds a GPU."""
    import torch

    return ext_base_name == "torch" and torch.cuda.is_available()


def mpi_built(verbose: bool = False) -> bool:
    return bool(hora.torch.mpi_built())


def gloo_built(verbose: bool = False) -> bool:
    return bool(hora.torch.gloo_built())


def nccl_built(verbose: bool = False) -> int:
    return int(hora.torch.nccl_built())


def ddl_built(verbose: bool = False) -> bool:
    return bool(hora.torch.ddl_built())


def ccl_built(verbose: bool = False) -> bool:
    return bool(hora.torch.ccl_built())


@contextlib.contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Sets variables of the environment for a while; those that are None are left alone."""
    wanted = {name: value for name, value in kwargs.items() if value is not None}
    former = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[int | None, bool | None], int]:
    """A function of `op` and `average` that returns the reduction they mean together."""
    return lambda op, average: ops.chosen(average, op)


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(l: Sequence[Item], n: int) -> list[Sequence[Item]]:  # noqa: E741 - Horovod's name
    """n parts in order, whose lengths differ by one at most; longer ones come first."""
    short, longer = divmod(len(l), n)
    ends = [part * short + min(part, longer) for part in range(n + 1)]
    return [l[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Warns if another version of a package is installed; or raises the exception from that."""
    installed = importlib.metadata.version(name)
    if installed == version:
        return
    if exception is not None:
        raise ImportError(get_version_mismatch_message(name, version, installed), name=name) from exception
    warnings.warn(get_version_mismatch_message(name, version, installed), stacklevel=2)


def is_iterable(x: Any) -> bool:
    return isinstance(x, Iterable)


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether a version, such as "2.11.0+cpu", is at least another of three numbers."""
    if not isinstance(ver, str) or not isinstance(target, str):
        raise HoraArgumentError(f"versions are strings, not {ver!r} and {target!r}")
    wanted = target.split(".")
    if len(wanted) != 3:
        raise HoraArgumentError(
            f"the version to compare with must have three numbers, such as '2.1.0', not {target!r}"
        )
    return _numbers(ver) >= _numbers(target)


def _numbers(version: str) -> list[int]:
    """The first three numbers; what follows a number, such as "rc1" and "+cpu", is left out."""
    parts = (version.partition("+")[0].split(".") + ["0", "0"])[:3]
    return [int(_leading_digits(part) or 0) for part in parts]


def _leading_digits(part: str) -> str:
    return part[: len(part) - len(part.lstrip("0123456789"))]
