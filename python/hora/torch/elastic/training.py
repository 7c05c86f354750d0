# SPDX-License-Identifier: Apache-2.0
"""A training loop that goes on when ranks are lost, without losing or repeating a sample."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

import torch

from hora import _job, ops
from hora._errors import HoraUsageError
from hora.torch.elastic import checks
from hora.torch.elastic.audit import Audit, who
from hora.torch.elastic.batches import Batches
from hora.torch.elastic.members import TOLD, Members
from hora.torch.elastic.progress import Progress
from hora.torch.elastic.shares import Piece
from hora.torch.elastic.step import CopyingMaker, DeferredMaker, Maker, Step, why_copies
from hora.torch.elastic.trained import Trained

_Result = TypeVar("_Result")


@dataclasses.dataclass
class Attempt:
    """A step that the program makes itself."""

    counts: bool = False  #: whether it counts, after the `with` block


class Training:
    """Training that goes on when ranks are lost:

        training = hvd.elastic.Training(model, optimizer, dataset, batch=256, microbatch=32)
        for epoch in training.epochs(10):
            for x, y in training.batches():
                training.backward(criterion(model(x), y))
                training.step()

    A step takes `batch` samples of the epoch, cuts them into microbatches, and shares these among the ranks.
    It counts on all ranks or on none. If a rank is lost, the step under way is made again by the others
    (`hrun --min-np`); no exception comes out of the loop. Each sample is taken exactly once in an epoch, and
    the result does not depend on the number of ranks, but for rounding.

    - Gradients are the mean over the samples of the step. The loss must be a mean over its microbatch.
    - The optimizer makes its step when all ranks have voted that they hold the reduced gradients. Before that
      step come `clip_norm`, the scaler, and hooks of `optimizer.register_step_pre_hook`.
    - Running statistics of batch normalisation are averaged over the microbatches of a step.
    - torch's random numbers (dropout) of a microbatch depend on `seed`, epoch and place alone. Workers of a
      DataLoader have their own.
    - All ranks run the program alike. A rank for which a step has no microbatch gets another's, which does
      not count. Leave the loop, save checkpoints, and call `retry` where `training.step()` is True, or after
      `training.batches()`. Other calls that communicate need `retry`.
    - Several optimizers, LBFGS, Adasum: see `attempt`.
    - SIGTERM makes a process leave the job before the next step, with exit code 0, unless the program handles
      it itself.

    Without `hrun --min-np`, or on one process, the same program trains in the same way.

    Args:
        model: a module, on the device where it is trained; all its ranks get the parameters of rank 0.
        optimizer: any of torch.optim's, which becomes a DistributedOptimizer; or a DistributedOptimizer; or a
            list of several.
        data: a data set with a length; a DataLoader, which need not have a batch size; or anything to iterate
            over, such as an IterableDataset, that gives the same samples in the same order on all ranks and
            begins anew with each epoch. Each rank reads all of it.
        batch: the number of samples in a step, on all ranks together. The last step of an epoch may have
            fewer, unless the DataLoader has drop_last=True.
        microbatch: how many samples go through the model at once; a DataLoader's batch size, if it is left
            out. With more ranks than microbatches some ranks have nothing to do.
        shuffle: whether a data set is taken in a random order, another in each epoch. A DataLoader has its
            own `shuffle`.
        seed: of that order, and of random numbers.
        scheduler: a learning-rate scheduler that makes a step after each step that counts. One that counts
            epochs is called by the program, after `training.batches()`.
        scaler: a torch.amp.GradScaler.
        clip_norm: the most that the norm of all gradients may be.
        audit: a folder, into which each process writes which samples it has trained on (see
            `hora.torch.elastic.audit`).

    Attributes:
        progress: `epoch`, `place` (how many of its samples are done), and `steps` (that count).

    Raises:
        HoraArgumentError (a ValueError): an argument is of the wrong kind or out of range.
        HoraUnsupportedError: the model has SyncBatchNorm layers, or the DataLoader a sampler of its own.
        HoraInternalError: the models, optimizers, data or arguments of the ranks differ.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Any,
        data: Any,
        *,
        batch: int,
        microbatch: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        scheduler: Any = None,
        scaler: Any = None,
        clip_norm: float | None = None,
        audit: str | os.PathLike[str] | None = None,
    ) -> None:
        _job.runtime().leave_on_sigterm()
        checks.check_model(model)
        self.progress = Progress()
        optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        self._trained = Trained(model, optimizers, scheduler, scaler)
        why = why_copies(optimizers)
        checks.check_step(scheduler, clip_norm, why)
        batch = checks.checked_number("batch", batch)
        microbatch = checks.checked_microbatch(microbatch, data, batch)
        self._batches = Batches(data, batch, microbatch, shuffle, seed, one_piece=bool(why))
        checks.wrap(model, optimizers, ops.Average if why else ops.Sum)
        self._maker: Maker
        if why:
            self._maker = CopyingMaker(model, optimizers, scheduler, scaler)
        else:
            self._maker = DeferredMaker(model, optimizers[0], scheduler, scaler, clip_norm)
        self._audit = None if audit is None else Audit(audit)
        self._running: Callable[[], Generator[Any] | None] = lambda: None  # what `batches` has given last
        self._step: Step | None = None
        self._left = False  # whether the last step was left before its end
        self._members = Members(self._batches, self._trained, self._maker, self.progress)
        self._members.begin()
        if why and _job.runtime().is_elastic and _job.rank() == 0 and not _job.is_alone():
            _tell_of_copies(why)

    # --- the loop ---

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of the epochs from the present one up to `count` - 1. An epoch ends when
        `training.batches()` has, or when the program goes on to the next one; all ranks do that alike."""
        self._members.join()
        while (epoch := self.progress.epoch) < count:
            yield epoch
            if self.progress.epoch == epoch:
                self._take_back_if_left()
                self._members.end_steps()
                self._end_epoch()

    def batches(self) -> Iterator[Any]:
        """The microbatches of this rank in the rest of the epoch, as the data set or DataLoader makes them.
        One comes again if its step does not count.

        Raises:
            HoraArgumentError (a ValueError): the epoch has no step, for lack of samples.
            HoraUsageError: the program has not called `backward` and `step` for each microbatch.
        """
        self._members.join()
        former = self._running()
        if former is not None:
            former.close()
        batches = self._run(self.progress.epoch)
        self._running = weakref.ref(batches)
        return batches

    def _run(self, epoch: int) -> Generator[Any]:
        self._batches.begin(epoch, self.progress.place)
        try:
            while self.progress.epoch == epoch:
                self._take_back_if_left()
                whole = self._next_step(epoch)
                if whole is None:
                    self._members.end_steps()
                    self._end_epoch()
                    return
                step = self._begin(whole)
                for piece in step.pieces:
                    with _void_if_ranks_change(step):
                        self._members.await_state()
                    if step.is_void or _job.runtime().generation_has_ended:
                        step.is_void = True
                        self._finish(step)
                        break
                    step.taken += 1
                    yield self._batches.load(piece)
                    if step.done != step.taken:
                        raise HoraUsageError(_calls(self._maker))
                    if step.is_void:
                        break
        finally:  # the program may have left the loop
            self._left = self._step is not None and not self._step.has_ended
            self._step = None

    def _next_step(self, epoch: int) -> Piece | None:
        """The samples of the next step of the epoch, which the ranks share that are there then; None: there
        is none, and nobody joins or leaves."""
        if self._batches.may_begin_with_others(epoch, self.progress.place):
            self._members.begin_step()
        return self._batches.step_from(epoch, self.progress.place)

    def backward(self, loss: torch.Tensor) -> None:
        """`loss.backward()`, with the weight that the microbatch has in its step. It reduces gradients if the
        microbatch is this rank's last one in the step. If the step does not count any more, it does nothing.

        Args:
            loss: a scalar, the mean over the samples of the microbatch.
        """
        step = self._of_the_user("backward")
        maker = self._maker
        if not isinstance(maker, DeferredMaker):
            raise HoraUsageError(_calls(maker))
        if step.passed == step.taken:
            raise HoraUsageError(f"backward() was called twice for one microbatch. {_calls(maker)}")
        step.passed = step.taken
        if not step.is_void:
            with _void_if_ranks_change(step):
                maker.backward(step, loss)

    def step(self) -> bool:
        """Ends the microbatch. After this rank's last one in a step it waits until all ranks have voted, and
        makes the optimizer's step if the step counts. Returns whether a step was made, on all ranks alike.

        Raises:
            HoraInternalError: this process is not among the ranks that are left, or the job has failed.
            HoraUsageError: the ranks make different steps.
        """
        step = self._of_the_user("step")
        if step.passed != step.taken:
            raise HoraUsageError(_calls(self._maker))
        step.done = step.taken
        return (step.has_last or step.is_void) and self._finish(step)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """A step that the program makes itself, with several optimizers, LBFGS, Adasum, or an optimizer over
        a process set:

            for x, y in training.batches():
                with training.attempt() as attempt:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                if attempt.counts:
                    print(loss.item())

        If the step does not count, model, optimizers, scheduler and scaler become what they were before, from
        a copy in memory, and the samples come again. The block may have ended early then. Each rank gets its
        samples of a step as one batch. Ranks with one sample more than others count as much as those, and the
        number of ranks changes the result. The program steps the scaler; Training steps the scheduler.
        """
        step = self._of_the_user("attempt")
        if not isinstance(self._maker, CopyingMaker):
            raise HoraUsageError(
                "attempt() is for several optimizers, LBFGS, Adasum and process sets. " + _calls(self._maker)
            )
        step.done = step.taken
        attempt = Attempt()
        with _void_if_ranks_change(step):
            yield attempt
        attempt.counts = self._finish(step)

    def retry(self, function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
        """Calls a function that communicates, between two steps, such as an evaluation. It calls the function
        again until a call has ended on all ranks without a loss of ranks. Returns the result. All ranks call
        it alike."""
        if self._step is not None and not self._step.has_ended:
            raise HoraUsageError(
                "retry() was called within a step: call it where training.step() is True, or after the loop"
            )
        self._take_back_if_left()
        return self._members.retry(function, *args, **kwargs)

    # --- checkpoints ---

    def state_dict(self) -> dict[str, Any]:
        """The state of model, optimizers, scheduler, scaler and progress: that of rank 0 is to be saved.
        Between two steps."""
        return {**self._trained.state_dict(), "progress": dataclasses.asdict(self.progress)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state of `state_dict`. All ranks call it; what rank 0 has loaded counts.

        Raises:
            HoraArgumentError (a ValueError): it is the state of another training; the text says why.
        """
        trained = dict(state)
        self.progress.become(Progress(**trained.pop("progress")))
        self._trained.load_state_dict(trained)
        self._members.give_to_all()
        self._batches.begin(self.progress.epoch, self.progress.place)

    # --- the parts of a step ---

    def _take_back_if_left(self) -> None:
        if self._left:
            self._maker.take_back()
            self._left = False

    def _begin(self, whole: Piece) -> Step:
        self._maker.begin()
        share = self._batches.share_of(whole)
        self._step = Step(whole, share, self._batches.given_for(share, whole), who())
        return self._step

    def _of_the_user(self, called: str) -> Step:
        """The step whose microbatch the user has. Raises HoraUsageError if there is none."""
        step = self._step
        if step is None or step.has_ended or step.taken == step.done:
            raise HoraUsageError(f"{called}() is called once for each microbatch of training.batches()")
        return step

    def _finish(self, step: Step) -> bool:
        """Ends a step: it counts, or is taken back. Returns whether it counts."""
        if not step.is_void:
            with _void_if_ranks_change(step):
                self._maker.complete()
                self._members.confirm()
        step.has_ended = True
        return self._members.end_step(lambda: self._make(step), self._maker.take_back, step.is_void)

    def _make(self, step: Step) -> None:
        """Makes a step that counts."""
        self._batches.seed(step.whole.epoch, step.whole.last)  # the same on all ranks, also for hooks
        self._maker.make()
        self.progress.place = step.whole.last
        self.progress.steps += 1
        self._batches.forget(step.whole.last)
        if self._audit is not None:
            self._audit.write(self.progress.steps, step.whole, step.share, step.made_by)

    def _end_epoch(self) -> None:
        self.progress.epoch += 1
        self.progress.place = 0


@contextlib.contextmanager
def _void_if_ranks_change(step: Step) -> Iterator[None]:
    """Makes the step void if the job goes on with other ranks after an error within it."""
    try:
        yield
    except TOLD:
        if not _job.runtime().is_elastic:
            raise
        step.is_void = True


def _tell_of_copies(why: str) -> None:
    print(
        f"hora: Training copies model and optimizers before each step, as {why}; a step that is made again "
        "begins from the copy",
        file=sys.stderr,
        flush=True,
    )


def _calls(maker: Maker) -> str:
    """The calls of a program for each microbatch."""
    if isinstance(maker, CopyingMaker):
        return "Each microbatch needs `with training.attempt():` around the whole step"
    return "Each microbatch needs training.backward(loss), and then training.step()"
