# SPDX-License-Identifier: Apache-2.0
"""The examples in examples/frameworks: each prints what its first lines say, and the same figures as with
PyTorch's Gloo. Also the statements of docs/frameworks.md, and ranks that are killed."""

import dataclasses
import functools
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from listed_output import check_output  # noqa: E402
from ranks import HRUN, ROOT, environment_with, hrun  # noqa: E402

FOLDER = ROOT / "examples/frameworks"

LONGEST = 300.0  # seconds, on a machine that compiles meanwhile

PYTHON = (sys.executable,)
UNDER_HRUN = (HRUN, "-np", "2", sys.executable)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ACCELERATE = (sys.executable, "-m", "accelerate.commands.launch", "--multi-gpu", "--num-processes", "2")


# The exit codes of programs with Gloo are not looked at: a thread of it that is slow to let go of a tensor may
# abort a process which has ended well.


@dataclasses.dataclass(frozen=True)
class Example:
    package: str  # the one that it needs, beside PyTorch
    starts: dict[str, tuple[str, ...]]  # by their names, with the words before the script
    peer: str = ""  # a script that prints the same figures, instead of this one with Gloo


EXAMPLES = {
    "accelerate_ddp": Example("accelerate", {"accelerate": ACCELERATE, "hrun": UNDER_HRUN}),
    "checkpoint": Example("torch", {"torchrun": TORCHRUN, "hrun": UNDER_HRUN}),
    "dtensor": Example("torch", {"torchrun": TORCHRUN, "hrun": UNDER_HRUN}),
    "fabric_ddp": Example("lightning", {"itself": PYTHON, "hrun": UNDER_HRUN}),
    "fsdp2": Example("torch", {"torchrun": TORCHRUN, "hrun": UNDER_HRUN}),
    "lightning_ddp": Example("lightning", {"itself": PYTHON, "hrun": UNDER_HRUN}),
    "lightning_hora": Example("lightning", {"itself": PYTHON, "hrun": UNDER_HRUN}, peer="lightning_ddp"),
    "ray_hora": Example("ray", {"itself": PYTHON}, peer="ray_train"),
    "ray_train": Example("ray", {"itself": PYTHON}),
    "spawn_ddp": Example("torch", {"itself": PYTHON}),
    "torchrun_ddp": Example("torch", {"torchrun": TORCHRUN, "hrun": UNDER_HRUN}),
    "transformers_trainer": Example("transformers", {"torchrun": TORCHRUN, "hrun": UNDER_HRUN}),
    "zero1": Example("torch", {"torchrun": TORCHRUN, "hrun": UNDER_HRUN}),
}


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        importlib.util.find_spec(package) is None, reason=f"needs {package}: ./dev test frameworks"
    )


def finished(*words: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end: that of all processes which have its output. It finds no mpi4py: Lightning
    asks MPI for the rank if no launcher has told it, and Open MPI may fail to start the daemon for that."""
    with tempfile.TemporaryDirectory(prefix="hora-", dir="/tmp") as folder:
        (pathlib.Path(folder) / "mpi4py.py").write_text("raise ImportError\n")
        path = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path), **(environment or {})}
        return subprocess.run(
            words,
            cwd=ROOT,
            env=environment_with(settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )


def ray_in(folder: str) -> dict[str, str]:
    """Variables with which Ray writes into a folder alone, whose path must be short. Its processes have the
    priority of others: at its own, they stand still while a compiler runs."""
    return {
        "HOME": folder,
        "RAY_TMPDIR": folder,
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
    }


@functools.cache
def printed(name: str, start: str, backend: str) -> str:
    """The output of an example, without the labels of hrun."""
    # Processes of Ray's may still write into the folder.
    with tempfile.TemporaryDirectory(prefix="hora-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        words = [*EXAMPLES[name].starts[start], str(FOLDER / f"{name}.py")]
        arguments = [f"{folder}/checkpoint", backend] if name == "checkpoint" else [backend]
        result = finished(*words, *arguments, environment=ray_in(folder))
    assert result.returncode == 0 or backend == "gloo", result.stdout + result.stderr
    return re.sub(r"^\[0\] ", "", result.stdout, flags=re.MULTILINE)


def figures(output: str) -> list[str]:
    return re.findall(r"^(?:epoch|loss|parameters).*", output, re.MULTILINE)


def test_every_example_is_tested():
    of_others = {
        "digits.py",
        "jax_digits.py",
        "keras_digits.py",
        "tensorflow_digits.py",
    }  # test_jax, test_keras
    assert {f"{name}.py" for name in EXAMPLES} == {path.name for path in FOLDER.glob("*.py")} - of_others


# Half a sum and half another are added up on either side: two ranks round alike, so figures are equal to the
# last digit.
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "start"),
    [
        pytest.param(name, start, marks=needs(example.package))
        for name, example in EXAMPLES.items()
        for start in example.starts
    ],
)
def test_an_example_prints_what_it_says_and_the_figures_of_gloo(name: str, start: str):
    output = printed(name, start, "hora")
    check_output(FOLDER / f"{name}.py", output)
    peer = EXAMPLES[name].peer or name
    assert figures(output) == figures(printed(peer, next(iter(EXAMPLES[peer].starts)), "gloo"))


@needs("lightning")
def test_lightning_asks_neither_slurm_nor_mpi_for_the_rank_that_hrun_has_given():
    program = """
    import sys
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, logger=False, enable_checkpointing=False,
        strategy=DDPStrategy(process_group_backend="hora"),
    )
    print(trainer.global_rank, trainer.local_rank, trainer.world_size, "mpi4py.MPI" in sys.modules)
    """
    result = hrun(
        *UNDER_HRUN[1:],
        "-c",
        textwrap.dedent(program),
        seconds=LONGEST,
        environment={"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "5", "SLURM_LOCALID": "5"},
    )
    assert importlib.util.find_spec("mpi4py") is not None
    assert result.returncode == 0, result.stdout + result.stderr
    assert {"[0] 0 0 2 False", "[1] 1 1 2 False"} <= set(result.stdout.splitlines()), result.stdout


# --- a rank that is killed ---

UNDER_LIGHTNING = """
    import os, signal, sys, time
    import lightning, torch
    from lightning.pytorch.strategies import DDPStrategy
    from hora.lightning import HoraStrategy

    killed = int(sys.argv[1])

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8)))

        def training_step(self, batch, index):
            if index == 3 and self.global_rank == killed:
                self.layers[3].weight.register_hook(lambda gradient: os.kill(os.getpid(), signal.SIGKILL))
            self.begin = time.monotonic()
            return self.layers(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-9)

    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=3, max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, strategy=STRATEGY,
    )
    try:
        trainer.fit(model, torch.utils.data.DataLoader(torch.randn(64, 64), batch_size=4))
    except RuntimeError as error:
        text = str(error).replace(chr(10), " ")[:300]
        print(f"pid {os.getpid()} heard {time.monotonic() - model.begin < 1} {text}", flush=True)
        raise SystemExit(5)
    """

WITH_FSDP2 = """
    import os, signal, sys, time
    import torch, torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("hora")
    layers = [torch.nn.Linear(64, 64) for _ in range(8)]
    model = torch.nn.Sequential(*layers)
    for layer in (*layers, model):
        fully_shard(layer, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    for step in range(3):
        model(torch.randn(4, 64)).sum().backward()
    if dist.get_rank() == int(sys.argv[1]):
        layers[3].register_full_backward_pre_hook(lambda *of_layer: os.kill(os.getpid(), signal.SIGKILL))
    begin = time.monotonic()
    try:
        model(torch.randn(4, 64)).sum().backward()
    except RuntimeError as error:
        text = str(error).replace(chr(10), " ")[:300]
        print(f"pid {os.getpid()} heard {time.monotonic() - begin < 1} {text}", flush=True)
        raise SystemExit(5)
    """

DDP = "DDPStrategy(process_group_backend='hora', bucket_cap_mb=0.02)"


def heard_of_a_death(
    folder: pathlib.Path, program: str, killed: int, *start: str
) -> list[tuple[str, str, str]]:
    """Of the ranks that are left: the pid, whether the error came within a second, and its text."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    result = finished(*start, str(script), str(killed))
    heard = re.findall(r"pid (\d+) heard (\w+) (.*)", result.stdout)
    assert len(heard) == 2, result.stdout + result.stderr
    return heard


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "killed"),
    [
        pytest.param(UNDER_LIGHTNING.replace("STRATEGY", DDP), 0, marks=needs("lightning"), id="ddp-0"),
        pytest.param(UNDER_LIGHTNING.replace("STRATEGY", DDP), 1, marks=needs("lightning"), id="ddp-1"),
        pytest.param(
            UNDER_LIGHTNING.replace("STRATEGY", "HoraStrategy()"), 1, marks=needs("lightning"), id="hora-1"
        ),
        pytest.param(WITH_FSDP2, 1, id="fsdp2-1"),
    ],
)
def test_a_rank_that_is_killed_in_backward_is_an_error_with_its_cause_on_all_others(
    program: str, killed: int, tmp_path: pathlib.Path
):
    for pid, soon, text in heard_of_a_death(tmp_path, program, killed, HRUN, "-np", "3", sys.executable):
        assert soon == "True"
        assert re.search(rf"rank {killed} \(pid \d+ on \S+\) is gone: it was killed by signal 9", text), text
        assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.long
@needs("lightning")
def test_ranks_that_lightning_has_started_end_when_the_one_that_has_started_them_is_killed(
    tmp_path: pathlib.Path,
):
    """Nobody but the processes themselves tells that rank 0 has ended, or by which signal."""
    program = UNDER_LIGHTNING.replace("STRATEGY", DDP)
    for _, soon, text in heard_of_a_death(tmp_path, program, 0, sys.executable):
        assert soon == "True"
        assert re.search(r"rank 0 \(pid \d+ on \S+\) is gone: its process ended", text), text


@pytest.mark.long
@needs("ray")
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("raise KeyError('rows')", r"rank 1 \(pid \d+ on \S+\) failed: KeyError: 'rows'"),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"rank 1 \(pid \d+ on \S+\) is gone: its process ended"),
    ],
    ids=["exception", "killed"],
)
def test_a_worker_of_ray_hears_how_another_one_has_ended(end: str, expected: str, tmp_path: pathlib.Path):
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, pathlib, signal
            import hora, numpy as np
            from hora.ray import HoraConfig
            from ray.train import ScalingConfig
            from ray.train.torch import TorchTrainer

            def train():
                assert hora.allreduce(np.array([hora.rank()]), op=hora.Sum)[0] == 1
                if hora.rank() == 1:
                    {end}
                try:
                    hora.allreduce(np.ones(1))
                except RuntimeError as error:
                    pathlib.Path("{tmp_path}/heard").write_text(str(error))

            try:
                TorchTrainer(
                    train, torch_config=HoraConfig(), scaling_config=ScalingConfig(num_workers=2)
                ).fit()
            except Exception as error:
                print("raised", type(error).__name__)
            """
        )
    )
    with tempfile.TemporaryDirectory(prefix="hora-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        result = finished(sys.executable, str(script), environment=ray_in(folder))
    assert "raised" in result.stdout, result.stdout + result.stderr
    assert re.search(expected, (tmp_path / "heard").read_text())


# --- HoraStrategy ---

TRAINING = """
    import pathlib, sys
    import lightning, torch
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.strategies import DDPStrategy
    from torch.utils.data import DataLoader
    from hora.lightning import HoraStrategy

    strategy, folder = sys.argv[1], pathlib.Path(sys.argv[2])

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(self.rank_seed())
            self.net = torch.nn.Sequential(
                torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
            )

        def rank_seed(self):
            import os
            return int(os.environ["RANK"])  # rank 0's parameters are to count

        def training_step(self, batch, index):
            return self.net(batch).square().mean()

        def validation_step(self, batch, index):
            self.log("loss", self.net(batch).square().mean(), sync_dist=True)

        def on_validation_epoch_end(self):
            buffers = torch.cat([each.flatten().float() for each in self.buffers()])
            equal = all(torch.equal(each, buffers) for each in self.all_gather(buffers))
            if not self.trainer.sanity_checking:
                self.print(f"loss {self.trainer.callback_metrics['loss']:.9g} {equal}")

        def on_train_epoch_end(self):
            total = sum(each.double().sum() for each in self.parameters())
            self.print(f"sum {total.item():.9g} {all(each == total for each in self.all_gather(total))}")

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]

    def trainer(epochs, **more):
        kind = {"ddp": DDPStrategy(process_group_backend="hora"), "hora": HoraStrategy()}[strategy]
        return lightning.Trainer(
            accelerator="cpu", devices=2, max_epochs=epochs, strategy=kind, default_root_dir=folder, logger=False,
            enable_progress_bar=False, accumulate_grad_batches=3, gradient_clip_val=0.5, **more
        )

    data = torch.randn(256, 8, generator=torch.Generator().manual_seed(1))
    loaders = DataLoader(data, batch_size=4, shuffle=True), DataLoader(data[:64], batch_size=4)
    """


def lines_of_rank_0(program: str, *arguments: str, gloo: bool = False) -> list[str]:
    """The lines with figures. `gloo`: the program uses Gloo."""
    words = ("-np", "2", sys.executable, "-c", textwrap.dedent(program), *arguments)
    result = hrun(*words, seconds=LONGEST, environment={"OMP_NUM_THREADS": "1"})
    assert result.returncode == 0 or gloo, result.stdout + result.stderr
    return re.findall(r"^\[0\] ((?:loss|sum|said).*)", result.stdout, re.MULTILINE)


def continued(rest: str) -> str:
    return textwrap.dedent(TRAINING) + textwrap.dedent(rest)


@pytest.mark.long
@needs("lightning")
def test_hora_strategy_trains_as_ddp_does(tmp_path: pathlib.Path):
    """With accumulation, clipping, a scheduler, BatchNorm, and another start on rank 1."""
    program = continued(
        """
        trainer(3, enable_checkpointing=False).fit(Model(), *loaders)
        """
    )
    lines = of_both(program, tmp_path)
    assert len(lines) == 6
    assert all(line.endswith("True") for line in lines)


def of_both(program: str, folder: pathlib.Path) -> list[str]:
    """The lines of a program with HoraStrategy, which are those of DDP."""
    hora, ddp = (lines_of_rank_0(program, strategy, str(folder)) for strategy in ("hora", "ddp"))
    assert hora == ddp
    return hora


@pytest.mark.long
@needs("lightning")
def test_hora_strategy_validates_tests_and_predicts_without_a_fit(tmp_path: pathlib.Path):
    program = continued(
        """
        class Answering(Model):
            def test_step(self, batch, index):
                self.log("tested", self.net(batch).mean(), sync_dist=True)

            def predict_step(self, batch, index):
                return self.net(batch)

        made, model = trainer(1, enable_checkpointing=False), Answering()
        if strategy == "ddp":
            model.load_state_dict(torch.load(folder / "of rank 0"))
        made.validate(model, loaders[1], verbose=False)
        tested = made.test(model, loaders[1], verbose=False)
        answers = torch.cat(made.predict(model, loaders[1]))
        if model.global_rank == 0:
            torch.save(model.state_dict(), folder / "of rank 0")
            print("said", tested, answers.shape, f"{answers.double().sum().item():.9g}")
        """
    )
    assert len(of_both(program, tmp_path)) == 2


@pytest.mark.long
@needs("lightning")
@pytest.mark.parametrize(
    "options",
    [
        "precision='bf16-mixed'",
        "precision='64-true'",
        "callbacks=[StochasticWeightAveraging(swa_lrs=0.05, swa_epoch_start=2)]",
        "limit_train_batches=7, val_check_interval=3, overfit_batches=0.5",
    ],
)
def test_hora_strategy_trains_as_ddp_does_with(options: str, tmp_path: pathlib.Path):
    program = continued(
        f"""
        from lightning.pytorch.callbacks import StochasticWeightAveraging

        trainer(4, enable_checkpointing=False, {options}).fit(Model(), *loaders)
        """
    )
    assert any(line.startswith("sum") for line in of_both(program, tmp_path))


@pytest.mark.long
@needs("lightning")
def test_a_learning_rate_is_found_with_hora_strategy(tmp_path: pathlib.Path):
    program = continued(
        """
        from lightning.pytorch.tuner import Tuner

        class Tuned(Model):
            lr = 0.1

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=self.lr)

        model, made = Tuned(), trainer(1, enable_checkpointing=False)
        found = Tuner(made).lr_find(model, *loaders, num_training=20)
        model.print("said", found.suggestion(skip_begin=2, skip_end=1))
        made.fit(model, *loaders)
        """
    )
    assert len(of_both(program, tmp_path)) >= 3


@pytest.mark.long
@needs("lightning")
def test_a_fit_with_hora_strategy_goes_on_from_a_checkpoint(tmp_path: pathlib.Path):
    lines = lines_of_rank_0(
        continued(
            """
            kept = ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1)
            trainer(3, callbacks=[kept]).fit(Model(), *loaders)
            trainer(3).fit(Model(), *loaders, ckpt_path=folder / "epoch=0.ckpt")
            """
        ),
        "hora",
        str(tmp_path),
    )
    assert len(lines) == 6 + 4
    assert lines[6:] == lines[2:6]


@pytest.mark.long
@needs("lightning")
def test_a_model_is_fitted_again_with_hora_strategy(tmp_path: pathlib.Path):
    """The parameters belong to the optimizer of the last fit, also with the trainer of the first."""
    lines = lines_of_rank_0(
        continued(
            """
            model, first, second = Model(), trainer(1), trainer(1)
            first.fit(model, *loaders)
            second.fit(model, *loaders)
            first.fit_loop.max_epochs = 2
            first.fit(model, *loaders)
            first.validate(model, loaders[1])
            """
        ),
        "hora",
        str(tmp_path),
    )
    assert len(lines) == 7
    assert all(line.endswith("True") for line in lines)


@pytest.mark.long
@needs("lightning")
def test_hora_strategy_uses_ddp_with_manual_optimization(tmp_path: pathlib.Path):
    lines = lines_of_rank_0(
        continued(
            """
            class Manual(Model):
                def __init__(self):
                    super().__init__()
                    self.automatic_optimization = False

                def configure_optimizers(self):
                    return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.net[:2], self.net[2:])]

                def training_step(self, batch, index):
                    for optimizer in self.optimizers():
                        optimizer.zero_grad()
                    self.manual_backward(self.net(batch).square().mean())
                    for optimizer in self.optimizers():
                        optimizer.step()
                    if index == 0:
                        self.print("said", type(self.trainer.strategy.model).__name__)

            kind = HoraStrategy()
            lightning.Trainer(
                accelerator="cpu", devices=2, max_epochs=1, strategy=kind, logger=False,
                enable_checkpointing=False, enable_progress_bar=False
            ).fit(Manual(), *loaders)
            """
        ),
        "hora",
        str(tmp_path),
    )
    assert lines[0] == "said DistributedDataParallel"
    assert lines[-1].endswith("True")


@pytest.mark.long
@needs("lightning")
def test_parameters_need_not_be_used_with_hora_strategy(tmp_path: pathlib.Path):
    lines = lines_of_rank_0(
        continued(
            """
            class Heads(Model):
                def __init__(self):
                    super().__init__()
                    self.heads = torch.nn.ModuleList([torch.nn.Linear(8, 1) for _ in range(3)])

                def training_step(self, batch, index):
                    return self.heads[self.global_rank](batch).square().mean()

                def on_before_optimizer_step(self, optimizer):
                    self.having = [head.weight.grad is not None for head in self.heads]

                def on_train_end(self):
                    self.print("said", self.having)

            trainer(1).fit(Heads(), *loaders)
            """
        ),
        "hora",
        str(tmp_path),
    )
    assert lines[-1] == "said [True, True, False]"
    assert lines[-2].endswith("True")


@pytest.mark.long
@needs("lightning")
def test_after_a_fit_with_hora_strategy_ranks_use_the_module_alone(tmp_path: pathlib.Path):
    """The module has a complex buffer, and is also fitted without an optimizer."""
    lines = lines_of_rank_0(
        continued(
            """
            class Rotated(Model):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("turns", torch.full((2, 3), complex(self.rank_seed() + 1)))

            class Without(Rotated):
                def configure_optimizers(self):
                    return None

            model = Rotated()
            trainer(1, enable_checkpointing=False).fit(model, *loaders)
            if model.global_rank == 0:
                model.net(data[:4]).sum().backward()
                print("said", model.turns[0, 0].item())
            kind = HoraStrategy()
            lightning.Trainer(
                accelerator="cpu", devices=2, max_epochs=1, strategy=kind, logger=False,
                enable_checkpointing=False, enable_progress_bar=False
            ).fit(Without(), *loaders)
            """
        ),
        "hora",
        str(tmp_path),
    )
    assert lines[2] == "said (1+0j)"


@needs("lightning")
def test_hora_strategy_refuses_another_backend():
    from hora.lightning import HoraStrategy

    with pytest.raises(ValueError, match="process_group_backend must be 'hora', not 'gloo'"):
        HoraStrategy(process_group_backend="gloo")


# --- statements of docs/frameworks.md ---


@pytest.mark.long
@needs("lightning")
@pytest.mark.parametrize(("made_before", "used"), [("hora", "hora"), ("", "gloo")])
def test_the_strategy_ddp_of_lightning_takes_the_group_that_is_there(made_before: str, used: str):
    lines = lines_of_rank_0(
        """
        import sys
        import lightning, torch, torch.distributed as dist

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Linear(8, 1)

            def training_step(self, batch, index):
                return self.net(batch).square().mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

            def on_train_end(self):
                self.print("said", dist.get_backend())

        if sys.argv[1]:
            dist.init_process_group(sys.argv[1])
        lightning.Trainer(
            accelerator="cpu", devices=2, max_epochs=1, strategy="ddp", logger=False,
            enable_checkpointing=False, enable_progress_bar=False
        ).fit(Model(), torch.utils.data.DataLoader(torch.randn(8, 8)))
        """,
        made_before,
        gloo=used == "gloo",
    )
    assert lines == [f"said {used}"]


@pytest.mark.long
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            "import accelerate; accelerate.Accelerator(cpu=True, kwargs_handlers="
            "[accelerate.utils.InitProcessGroupKwargs(backend='hora')])",
            marks=needs("accelerate"),
            id="accelerate",
        ),
        pytest.param(
            "import transformers; transformers.TrainingArguments('', use_cpu=True, ddp_backend='hora')",
            marks=needs("transformers"),
            id="transformers",
        ),
    ],
)
def test_accelerate_refuses_the_name_hora_on_the_cpu(make: str):
    """Therefore the examples make the group before."""
    lines = lines_of_rank_0(
        f"""
        try:
            {make}
        except ValueError as error:
            print("said", error)
        """
    )
    assert lines == ["said Your assigned backend hora is not available, please use gloo"]
