# SPDX-License-Identifier: Apache-2.0
"""Scripts written for Horovod, unchanged: what `import horovod` means, and who says so."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import pytest
from ranks import hrun, run_python
from ready_ranks import ready_python

MODULES = """
import horovod, horovod.torch as hvd
from horovod import run
from horovod.runner import run as run_too
from horovod.common import basics, elastic, exceptions, process_sets, util
from horovod.common.basics import HorovodBasics
from horovod.common.elastic import ObjectState, State, notification_manager, run_fn
from horovod.common.exceptions import HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt, get_version_mismatch_message
from horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
from horovod.data.data_loader_base import BaseDataLoader
from horovod.torch import compression, functions, mpi_ops, optimizer, sync_batch_norm
from horovod.torch.compression import Compression, Compressor, FP16Compressor, NoneCompressor
from horovod.torch.elastic import ElasticSampler, TorchState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import ModelStateHandler, OptimizerStateHandler, SamplerStateHandler, StateHandler, get_handler_registry, set_handler_registry
from horovod.torch.functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from horovod.torch.mpi_ops import Average, Max, Min, Product, Sum, allreduce_async_, handle_average_backwards_compatibility, rank, size, synchronize
from horovod.torch.optimizer import DistributedOptimizer
from horovod.torch.sync_batch_norm import SyncBatchNorm
"""


def hrun_horovod(
    ranks: int,
    program: str,
    *flags: str,
    environment: dict[str, str] | None = None,
    python: Sequence[str] = (sys.executable,),
) -> subprocess.CompletedProcess[str]:
    result = hrun("-np", str(ranks), "--horovod", *flags, *python, "-c", program, environment=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.mark.long
def test_every_module_of_horovod_resolves_to_hora_and_only_when_asked_for():
    hrun_horovod(
        2,
        MODULES
        + """
import os, hora, hora.torch, torch
assert horovod.run is hora.run is run is run_too and horovod.__version__ == "0.28.1"
assert all(getattr(hvd, name) is getattr(hora.torch, name) for name in hora.torch.__all__ if name != "elastic")
assert hvd._check_has_gpu() is torch.cuda.is_available()
assert hvd.elastic.run is hora.torch.elastic.run and TorchState is hora.torch.elastic.TorchState
assert HorovodInternalError is hora.HoraInternalError is hvd.HorovodInternalError
assert not [name for name in dir(hora.torch) if not name.startswith("_") and not hasattr(hvd, name)]

for name in ("mxnet", "spark", "spark.torch", "ray"):
    try:
        __import__(f"horovod.{name}")
    except ImportError as error:
        assert f"horovod.{name.split('.')[0]} is not part of Hora" in str(error)
    else:
        raise AssertionError(name)

hvd.init()
names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
assert [int(os.environ[f"HOROVOD_{name}"]) for name in names] == [getattr(hvd, name.lower())() for name in names]

# Parts behind the names that programs reach for.
handle = hvd.allreduce_async(torch.ones(1), name="x")
assert handle in mpi_ops._handle_map
hvd.synchronize(handle)
assert handle not in mpi_ops._handle_map and mpi_ops._basics.rank() == hvd.rank() == HorovodBasics("path", "library").rank()
assert mpi_ops._basics.nccl_built() == hvd.nccl_built()
assert mpi_ops._basics._get_process_set_ids_and_ranks() == {0: [0, 1]}
assert mpi_ops._basics._process_set_size(0) == 2 and mpi_ops._basics._process_set_rank(0) == hvd.rank()
number = mpi_ops._basics._add_process_set_impl([1])
assert mpi_ops._basics._get_process_set_ids_and_ranks() == {0: [0, 1], number: [1]}
assert mpi_ops._basics._remove_process_set_impl(number) == number
assert mpi_ops._basics._get_process_set_ids_and_ranks() == {0: [0, 1]}
assert handle_average_backwards_compatibility(None, None) == Average == 0 and handle_average_backwards_compatibility(Sum, None) == Sum
""",
    )
    alone = subprocess.run(
        [sys.executable, "-c", "import hora.torch, horovod"], capture_output=True, text=True, check=False
    )
    assert "No module named 'horovod'" in alone.stderr


CHILDREN = """
import multiprocessing, os, subprocess, sys

def where():
    import horovod
    return horovod.__file__

if __name__ == "__main__":
    {install}
    home = where()
    assert f"hora{{os.sep}}_horovod" in home, home
    assert subprocess.check_output([sys.executable, "-c", "import horovod; print(horovod.__file__)"], text=True).strip() == home
    for method in ("spawn", "forkserver", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply(where) == home, method
"""


def test_spawned_and_child_interpreters_find_it_too(tmp_path: pathlib.Path):
    script = tmp_path / "children.py"
    script.write_text(CHILDREN.format(install="pass"))
    result = hrun("-np", "1", "--horovod", sys.executable, str(script))
    assert result.returncode == 0, result.stderr
    script.write_text(
        CHILDREN.format(
            install="import hora; hora.install_as_horovod(); hora.install_as_horovod(); assert os.environ['PYTHONPATH'].count('_horovod') == 1"
        )
    )
    own = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert own.returncode == 0, own.stderr


def test_it_comes_before_an_installed_horovod_and_never_after_an_imported_one(tmp_path: pathlib.Path):
    (tmp_path / "horovod.py").write_text("")
    environment = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    hrun_horovod(1, "import horovod; assert horovod.__version__", environment=environment)
    late = "import horovod, hora\ntry:\n    hora.install_as_horovod()\nexcept hora.HoraInternalError as error:\n    print(error)"
    said = subprocess.run(
        [sys.executable, "-c", late],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert (
        said
        == f"another horovod is imported already, from {tmp_path}/horovod.py; call install_as_horovod() before\n"
    )


def test_scripts_with_a_first_line_and_shell_scripts_are_served(tmp_path: pathlib.Path):
    script = tmp_path / "train"
    script.write_text(f"#!{sys.executable}\nimport horovod\nprint(horovod.__version__)\n")
    script.chmod(0o755)
    shell = tmp_path / "train.sh"
    shell.write_text(f"#!/bin/sh\nexec {sys.executable} {script}\n")
    shell.chmod(0o755)
    for program in (script, shell):
        path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        result = hrun("-np", "1", "--horovod", str(program), environment={"PATH": path})
        assert (result.returncode, result.stdout) == (0, "[0] 0.28.1\n"), result.stderr


def test_a_python_without_hora_is_named(tmp_path: pathlib.Path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    result = hrun("-np", "1", "--horovod", str(python), "train.py")
    assert result.returncode == 2
    assert f"--horovod: '{python}' does not find the package hora" in result.stderr


def test_variables_of_horovod_count_or_are_named_once():
    program = "import hora\nfor _ in range(2):\n    hora.init(); hora.shutdown()"
    set_by_user = {
        "HOROVOD_FUSION_THRESHOLD": "0",
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        "HOROVOD_CYCLE_TIME": "5",
        "HOROVOD_CACHE_CAPACITY": "0",
    }
    lines = hrun_horovod(2, program, environment=set_by_user).stderr.splitlines()
    assert [line.split(" rank 0 warning: ")[-1] for line in lines] == [
        "taken from Horovod's variables: HOROVOD_FUSION_THRESHOLD=0 as HORA_FUSION_THRESHOLD=1, "
        "HOROVOD_STALL_CHECK_DISABLE=1 as HORA_MISSING_WARNING=0, "
        "HOROVOD_STALL_CHECK_DISABLE=1 as HORA_MISSING_TIMEOUT=0",
        "variables of Horovod's that mean nothing here: HOROVOD_CACHE_CAPACITY, HOROVOD_CYCLE_TIME",
    ]
    assert (
        hrun_horovod(1, program, environment={"HOROVOD_LOG_LEVEL": "fatal", "HOROVOD_CYCLE_TIME": "5"}).stderr
        == ""
    )


@pytest.mark.long
def test_functions_that_horovod_run_calls_import_horovod():
    program = """
import hora
hora.install_as_horovod()
import horovod

def work(word):
    import os, horovod.torch as hvd
    hvd.init()
    return word * hvd.size(), os.environ["HOROVOD_RANK"]

assert horovod.run(work, args=("x",), np=2) == [("xx", "0"), ("xx", "1")]
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr


def test_small_questions_are_answered():
    hrun_horovod(
        1,
        """
import os, horovod.torch as hvd, torch
from horovod.common import util
from horovod.common.exceptions import HorovodVersionMismatchError, HostsUpdatedInterrupt, get_version_mismatch_message

def refused(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(f"{call} took {arguments}")

assert util.EXTENSIONS == ["tensorflow", "torch", "mxnet"]
assert util.get_extension_full_path("/a/b.py", "c", "d") == "/a/c/d" + util.get_ext_suffix()
util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", "/a/b.py", "mpi_lib_v2")
assert "horovod.mxnet is not part of Hora" in refused(ImportError, util.check_extension, "horovod.mxnet", "HOROVOD_WITH_MXNET", "/a/b.py", "mpi_lib")
assert util.extension_available("torch") and not util.extension_available("mxnet", verbose=True)
assert util.gpu_available("torch") is torch.cuda.is_available()
assert [util.mpi_built(), util.gloo_built(True), util.nccl_built(), util.ddl_built(), util.ccl_built()] == [
    hvd.mpi_built(), hvd.gloo_built(), hvd.nccl_built(), hvd.ddl_built(), hvd.ccl_built()]
os.environ["KEPT"] = "1"
with util.env(KEPT="2", NEW="3", LEFT=None):
    assert os.environ["KEPT"] == "2" and os.environ["NEW"] == "3" and "LEFT" not in os.environ
assert os.environ["KEPT"] == "1" and "NEW" not in os.environ
assert [number for number in range(-1, 10) if util.num_rank_is_power_2(number)] == [1, 2, 4, 8]
assert util.split_list([1, 2, 3, 4, 5, 6, 7], 3) == [[1, 2, 3], [4, 5], [6, 7]]
assert util.is_iterable([]) and not util.is_iterable(3)
greater = util.is_version_greater_equal_than
assert greater("2.11.0+cpu", "2.9.1") and greater("2.0", "2.0.0") and not greater("1.13.1", "2.0.0") and greater("2.1.0rc1", "2.1.0")
assert "three numbers" in refused(ValueError, greater, "2.1.0", "2.1")
assert "strings" in refused(ValueError, greater, 2, "2.1.0")
calls = []
cached = util._cache(lambda number: calls.append(number) or number)
assert (cached(1), cached(1), cached(2)) == (1, 1, 2) and calls == [1, 2]
util.check_installed_version("torch", torch.__version__)

mismatch = HorovodVersionMismatchError("torch", "1.0", "2.0")
assert isinstance(mismatch, ImportError) and (mismatch.name, mismatch.version, mismatch.installed_version) == ("torch", "1.0", "2.0")
assert str(mismatch) == get_version_mismatch_message("torch", "1.0", "2.0") and "2.0" in str(mismatch)
assert HostsUpdatedInterrupt(True).skip_sync and isinstance(HostsUpdatedInterrupt(False), RuntimeError)
""",
        python=ready_python(),
    )


@pytest.mark.parametrize("size", [0, 1, 64])
def test_data_loaders_read_ahead_and_pass_exceptions_on(size: int):
    from hora.data import AsyncDataLoaderMixin, BaseDataLoader

    class Numbers(BaseDataLoader):
        def __init__(self, count: int, trouble: bool = False) -> None:
            self.count = count
            self.trouble = trouble

        def __len__(self) -> int:
            return self.count

        def _iterate(self):
            yield from range(self.count)
            if self.trouble:
                raise KeyError("the disk is gone")

        def _process_batch(self, batch: int) -> int:
            return batch * 2

    class Ahead(AsyncDataLoaderMixin, Numbers):
        pass

    loader = Ahead(size, False, 100)
    assert len(loader) == 100
    assert list(loader) == list(loader) == list(range(0, 200, 2))
    for batch in loader:
        if batch == 6:
            break
    assert list(loader)[:2] == [0, 2]
    loader.close_async_loader()
    loader.close_async_loader()
    troubled = Ahead(async_loader_queue_size=size, count=3, trouble=True)
    seen = []
    with pytest.raises(KeyError, match="the disk is gone"):
        for batch in troubled:
            seen.append(batch)
    assert seen == [0, 2, 4]


def test_without_the_flag_ranks_do_not_hear_of_horovod():
    lines = run_python(
        1,
        "import os; print(sorted(name for name in os.environ if name.startswith('HOROVOD_')), 'horovod' in "
        "os.environ.get('PYTHONPATH', ''))",
    )
    assert lines == [["[] False"]]


@pytest.mark.parametrize(
    ("module", "missing", "said"),
    [
        ("keras", "keras", "hora.keras needs Keras 3, and none is installed here: pip install keras"),
        ("tensorflow.keras", "tensorflow", "hora.tensorflow needs TensorFlow 2.16 or newer, and none is"),
        ("tensorflow", "tensorflow", "hora.tensorflow needs TensorFlow 2.16 or newer, and none is installed"),
    ],
)
def test_a_framework_that_is_missing_is_named(module: str, missing: str, said: str):
    program = f"import sys; sys.modules[{missing!r}] = None; import horovod.{module}"
    result = hrun("-np", "1", "--horovod", sys.executable, "-c", program)
    assert result.returncode == 1 and f"ImportError: {said}" in result.stderr, result.stderr


@pytest.mark.long
def test_a_script_for_horovod_that_is_started_alone_says_how_it_starts():
    def end_of(program: str) -> str:
        result = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        return (result.stdout + result.stderr).splitlines()[-1]

    assert end_of("import horovod.torch as hvd").startswith(
        "ModuleNotFoundError: No module named 'horovod'. Hora is installed, and runs scripts for Horovod"
    )
    assert (
        end_of("import sys; print('hora' in sys.modules, 'hora._no_horovod' in sys.modules)") == "False False"
    ), "it costs nothing before"
    assert end_of("import importlib.util; print(importlib.util.find_spec('horovod'))") == "None", (
        "there is none, for who asks only that"
    )
    assert (
        end_of("import hora; hora.install_as_horovod(); import horovod.torch; print(horovod.__version__)")
        == "0.28.1"
    )
    assert end_of("import horovods") == "ModuleNotFoundError: No module named 'horovods'"
