# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: gradients reduced over all ranks while backward() still runs."""

from __future__ import annotations

import contextlib
import copyreg
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from hora import ops
from hora._errors import HoraArgumentError, HoraUsageError
from hora._gradients import checked_reduction, is_alone
from hora.compression import Compression
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops.reduction import Reduction
from hora.torch._optimizer.adasum import DeltaReducer
from hora.torch._optimizer.parameters import Groups, check_groups, names_of
from hora.torch._optimizer.reducer import GradientReducer
from hora.torch._optimizer.rounds import Rounds
from hora.torch._untraced import untraced


class _DistributedOptimizer:
    """The methods that DistributedOptimizer puts before those of the wrapped optimizer's class."""

    _reducer: Rounds
    _reduction: Reduction
    _parameter_names: dict[torch.Tensor, str]
    _groups: Groups
    _should_synchronize = True
    _check_finite = False
    sparse_as_dense: bool  #: whether sparse gradients are made dense to be reduced

    @untraced
    def synchronize(self) -> None:
        """Makes every gradient the reduced one, if backward() has not done so already. Idempotent; `step`
        does not reduce again, and does not warn of it. For clipping in scripts written for Horovod:
        `optimizer.synchronize(); clip_grad_norm_(...); with optimizer.skip_synchronize(): optimizer.step()`.

        Needed before gradients are looked at only after a window of `backward_passes_per_step` passes that
        has ended early; there also before `GradScaler.unscale_` and `GradScaler.step`, so that all ranks skip
        the same steps."""
        self._reducer.synchronize()

    def skip_synchronize(self) -> contextlib.AbstractContextManager[None]:
        """For scripts written for Horovod: `step` never reduces twice here, with or without it."""
        return contextlib.nullcontext()

    @untraced
    def gradients_finite(self) -> bool:
        """Whether the reduced gradients have no element that is infinite or not a number; the same on all
        ranks. Needs `check_finite=True`. Reduces gradients that backward() has left unreduced, as
        `synchronize` does; waits for the GPU.

        Looked at where gradients are reduced, it costs next to nothing. So a step whose loss was scaled too
        much can be left out on all ranks alike: `if optimizer.gradients_finite(): optimizer.step()`.

        Raises:
            HoraUsageError (a ValueError): the optimizer was made without `check_finite=True`.
        """
        if not self._check_finite:
            raise HoraUsageError("gradients_finite() needs DistributedOptimizer(..., check_finite=True)")
        self.synchronize()
        return self._reducer.gradients_finite()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward() only adds up gradients on this rank; the backward() after it reduces the
        whole."""
        state = self._reducer.state
        former, state.accumulating = state.accumulating, True
        try:
            yield
        finally:
            state.accumulating = former

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up before gradients are reduced; counted from now.

        Raises:
            HoraArgumentError (a ValueError): it is no number from 1 up.
        """
        self._reducer.state.passes_per_round = _checked_passes(passes)
        self._reducer.state.restart_count()

    @property
    def backward_passes_per_step(self) -> int:
        """How many backward passes add up before gradients are reduced."""
        return self._reducer.state.passes_per_round

    @backward_passes_per_step.setter
    def backward_passes_per_step(self, passes: int) -> None:
        self._reducer.state.passes_per_round = _checked_passes(passes)

    @property
    def op(self) -> int:
        """Average, Sum or Adasum."""
        return self._reduction.op

    @property
    def gradient_predivide_factor(self) -> float:
        """The factor by which gradients are divided before the sum, and multiplied after it."""
        return self._reduction.postscale

    @property
    def process_set(self) -> ProcessSet:
        """The ranks over which gradients are reduced."""
        return self._reduction.process_set

    @property
    def _compression(self) -> Any:
        return self._reduction.compression

    @property
    def _requires_update(self) -> set[torch.Tensor]:
        groups = self.param_groups  # type: ignore[attr-defined]
        return {each for options in groups for each in options["params"] if each.requires_grad}

    @property
    def _handles(self) -> dict[torch.Tensor, Any]:
        """The reductions under way: none after backward(), unless that was interrupted."""
        return {
            slot.parameter: slot.pending
            for slot in getattr(self._reducer, "slots", ())
            if slot.pending is not None
        }

    @property
    def _synchronized(self) -> bool:
        return self._reducer.state.rounds > 0 and not self._reducer.state.is_owed

    @untraced
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """`synchronize()`, then the optimizer's own step. With a closure: each time after it gradients are
        reduced, and so is the loss that it returns, so that all ranks take the same decisions (LBFGS searches
        along a line)."""
        if closure is None:
            self.synchronize()
            result = super().step()  # type: ignore[misc]
        else:
            inner = closure

            def reduced() -> Any:
                loss = inner()
                self.synchronize()
                return self._reducer.reduce_loss(loss)

            result = super().step(reduced)  # type: ignore[misc]
        self._reducer.end_step()
        self._opt_called = True
        return result

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # schedulers need not wrap it to see that it was called
    step.hooked = True  # type: ignore[attr-defined]  # the former class's step, which it calls, runs the hooks of a step

    @untraced
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients: None, or zeros."""
        self._reducer.forget()
        super().zero_grad(set_to_none=set_to_none)  # type: ignore[misc]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles are plain optimizers, of the class that was wrapped."""
        warnings.warn(
            "a copy of a DistributedOptimizer is a plain optimizer: wrap it, too, before you train with it",
            stacklevel=2,
        )
        return copyreg._reconstructor, (type(self).__bases__[1], object, None), self.__getstate__()  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads options and state; gradients that are under way are finished first."""
        self._reducer.finish()
        super().load_state_dict(state_dict)  # type: ignore[misc]


class _AdasumOptimizer(_DistributedOptimizer):
    """Steps are made by each rank for itself, and what they change is combined."""

    _reducer: DeltaReducer

    @untraced
    def synchronize(self) -> None:
        """Gradients stay this rank's own. Only makes inf and nan known to all ranks, if backward() has not
        done so already."""
        super().synchronize()

    def skip_synchronize(self) -> contextlib.AbstractContextManager[None]:
        """Does not exist here. Raises HoraUsageError (an AssertionError)."""
        raise HoraUsageError(
            "skip_synchronize() is not supported with op=Adasum: what a step changes is reduced in step(); "
            "leave it out"
        )

    @untraced
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """The optimizer's own step, on this rank's gradients; then every parameter is what it was before plus
        the Adasum of what the step has changed on each rank. Returns what the closure returned: this rank's
        own loss. However often the closure is called, ranks need not call it equally often."""
        if closure is None:
            self._reducer.synchronize()
        before = self._reducer.values()
        try:
            with self.no_sync():
                result = super(_DistributedOptimizer, self).step(closure)  # type: ignore[misc]
        except BaseException:
            self._reducer.restore(before)
            raise
        self._reducer.combine(before)
        self._reducer.end_step()
        self._opt_called = True
        return result

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    step.hooked = True  # type: ignore[attr-defined]


def _checked_passes(passes: Any) -> int:
    if not isinstance(passes, int) or passes < 1:
        raise HoraArgumentError(f"backward_passes_per_step must be a number from 1 up, not {passes!r}")
    return passes


def _check_optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, _DistributedOptimizer):
        raise HoraArgumentError("this optimizer already is a DistributedOptimizer")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise HoraArgumentError(
            "expected an optimizer, such as torch.optim.SGD(model.parameters(), 0.1), not "
            f"{type(optimizer).__name__}"
        )


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    *,
    check_finite: bool = False,
) -> Any:
    """Wraps an optimizer so that gradients are reduced over all ranks, while backward() still runs. On the
    CPU of one host that has no more than one core for each rank they are reduced when backward() has made
    them all, which is faster there.

    The result is the same object, whose class now derives from the former one: `isinstance` holds, and state,
    options and learning-rate schedulers stay. Gradients live side by side in memory that the ranks of a host
    share, or that NCCL knows.

    - When backward() returns, gradients are the reduced ones: clip them, look at them, give them to a
      GradScaler. An inf or nan on one rank is one on all, so that all skip the same steps.
    - If backward() fails on one rank, it fails on all: that rank gets its own exception, the others
      HoraBackwardError, which says why. The gradients of all ranks are then None, and `step` fails, too,
      until the next `zero_grad` or backward(). The others wait until the rank does one of these three, or
      ends.
    - On a GPU the host does not wait for them: the stream on which backward() was called does.
    - Accumulation: `no_sync()`, or `backward_passes_per_step=k` (gradients of k passes are summed, as in
      Horovod; not divided by k). Without either, each backward() before a step reduces what it has added.
      `step` after fewer than k passes reduces what there is. In a step of more than k passes, each of them
      reaches some parameter on every rank.
    - A parameter that this rank did not use counts as zeros; one that no rank used keeps `grad is None`.
    - Parameters that are unfrozen or added later are taken in; on all ranks alike.
    - Several optimizers may be used at once, each with parameters of its own. A pass of backward() that
      reaches several of them on one rank does so on all, whichever parameters of each. Wrapping parameters
      again, in a new optimizer, takes them from the old one.
    - Sparse gradients (`nn.Embedding(sparse=True)`) are reduced as they are: the rows of all ranks are
      gathered, and added up. A gradient that is sparse on some ranks and dense on others is dense on all, if
      that is so the first time.
    - A rank that has called `join` counts as zeros. Its parameters are no longer those of the others; give
      them to it, after join, by `broadcast_parameters(model.state_dict(), root_rank=hvd.join())`.
    - On one rank (of a job whose ranks do not change), and on ranks outside the process set, it is the plain
      optimizer, and nothing is sent.

    Clipping, and a GradScaler, as with any optimizer:

        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    With op=Adasum each rank makes the optimizer's step for itself, on the gradients of its own batch, and
    what that changes in a parameter (a delta) is combined over the ranks: parameter = old + Adasum(delta of
    every rank). Adasum(a, b) is (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b, for each parameter by itself:
    the sum of deltas that are orthogonal, the mean of those that are alike. It is applied in a binary tree
    over the ranks in their order; for a number of ranks that is no power of two the odd one out goes up
    unchanged. Gradients and the optimizer's state stay those of each rank. The learning rate need not grow
    with the number of ranks. `groups` and `sparse_as_dense` have no effect there.

    Args:
        optimizer: any of torch.optim's, or one like them; float16, bfloat16, float32 or float64 parameters,
            on the CPU or a GPU (one for each rank), or some here and some there.
        named_parameters: `model.named_parameters()`; errors then name parameters. The same on all ranks.
        compression: one of Compression: what gradients look like on the wire; or a class with
            `compress(tensor)`, which returns (tensor to be reduced, context), and `decompress(tensor,
            context)`. A class that users wrote is not applied to sparse gradients.
        backward_passes_per_step: how many passes of backward() add up before gradients are reduced.
        op: Average, Sum or Adasum.
        gradient_predivide_factor: divides by it before the sum, multiplies after it. Needs op=Average.
        num_groups: deprecated, use `groups`.
        groups: gradients that are to be reduced together, or not at all: lists of parameters, or into how
            many parts of nearly equal length all parameters are to be divided. Those in no list go alone; so
            do sparse ones.
        sparse_as_dense: sparse gradients are made dense to be reduced, and sparse again: faster if most rows
            are used.
        process_set: the ranks over which gradients are reduced.
        check_finite: whether `gradients_finite()` is wanted.

    Raises:
        HoraArgumentError (a ValueError): an argument is out of range; names are missing or not unique; a
            parameter is in two groups, or something in them is no parameter; the process set is not
            registered.
        HoraUsageError (an AssertionError), by backward(): a gradient requires a gradient itself
            (create_graph=True).
        HoraInternalError (a RuntimeError), by backward() and step(): the ranks disagree; the text names the
            parameter.
        HoraBackwardError (a HoraInternalError), by backward() and step(): backward() failed on a rank; the
            text says why.

    Warns:
        DeprecationWarning: `num_groups` is given.
    """
    _check_optimizer(optimizer)
    reduction = checked_reduction(Reduction, op, gradient_predivide_factor, process_set, compression)
    if num_groups != 0:
        warnings.warn("num_groups= is deprecated; use groups=", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    passes = _checked_passes(backward_passes_per_step)
    names = names_of(optimizer, named_parameters)
    check_groups(groups)
    adasum = op == ops.Adasum
    if is_alone(process_set):
        reducer = Rounds(optimizer, passes, process_set)
        adasum = False
    elif adasum:
        reducer = DeltaReducer(optimizer, names, reduction, passes)
    else:
        reducer = GradientReducer(optimizer, names, reduction, passes, groups, sparse_as_dense, check_finite)
    former = optimizer.__class__
    optimizer.__class__ = type(
        former.__name__,
        (_AdasumOptimizer if adasum else _DistributedOptimizer, former),
        {"__doc__": former.__doc__},
    )
    optimizer.__dict__.pop(
        "step", None
    )  # a scheduler's wrapper around the former class's step would hide the new one
    wrapped: Any = optimizer
    wrapped._reducer = reducer
    wrapped._reduction = reduction
    wrapped._groups = groups
    wrapped._check_finite = check_finite
    wrapped._parameter_names = {
        parameter: names[id(parameter)]
        for options in optimizer.param_groups
        for parameter in options["params"]
    }
    wrapped.sparse_as_dense = sparse_as_dense
    return wrapped
