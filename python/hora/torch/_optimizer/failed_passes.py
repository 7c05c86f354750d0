# SPDX-License-Identifier: Apache-2.0
"""Passes of backward() that fail on this rank. The other ranks wait for its gradients, and are to hear why
there are none.

Autograd tells nobody that a pass has failed: hooks and callbacks only run while all is well. So the one
function through which torch runs a pass is wrapped. Then the graph says which optimizers the failed pass
would have reached, also those whose hooks have not run yet. Where torch has no such function, the next call
to the optimizer finds that a pass has begun and not ended.

A pass may run others within it, as reentrant checkpointing does. The graph of the outermost one does not show
their parameters, so an exception collects what the passes that it leaves would have reached. Rounds are told
once, by the outermost one.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from hora._ending import described as in_words
from hora._ending import sayable
from hora._traces import where
from hora.torch._untraced import untraced

if TYPE_CHECKING:
    from hora.torch._optimizer.rounds import Rounds

# attributes of an exception on its way out of backward()
_ENDED = "_hora_has_ended_the_pass"
_REACHED = "_hora_reached"


_watched: weakref.WeakSet[Rounds] = weakref.WeakSet()


def watch_passes(one: Rounds) -> None:
    """Its state is told of passes that fail. Rounds that are due are made before the next pass."""
    _watched.add(one)
    module: Any = torch.autograd
    if _torch_runs_backward is not None:
        module._engine_run_backward = _run_backward


def described(error: BaseException) -> str:
    """ "ValueError: bad batch (train.py:31)". The line is the innermost one of the program, which may be the
    call of backward()."""
    outwards = list(traceback.walk_stack(sys._getframe(1)))
    return in_words(error) + sayable(where([*reversed(outwards), *traceback.walk_tb(error.__traceback__)]))


@contextlib.contextmanager
def ended_pass() -> Iterator[None]:
    """In it, the pass has ended well on this rank, and what is raised comes from the round after it."""
    try:
        yield
    except BaseException as error:
        setattr(error, _ENDED, True)
        raise


_torch_runs_backward = getattr(torch.autograd, "_engine_run_backward", None)


@untraced
def _run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
    assert _torch_runs_backward is not None
    if not kwargs.get("accumulate_grad"):
        return _torch_runs_backward(outputs, *args, **kwargs)
    outermost = torch._C._current_graph_task_id() == -1
    due = [one for one in list(_watched) if one.state.is_due]
    if due and outermost:
        due[0].make_up(due)
    try:
        return _torch_runs_backward(outputs, *args, **kwargs)
    except BaseException as error:
        inputs = args[3] if len(args) > 3 else ()
        reached = error.__dict__.setdefault(_REACHED, _Reached())
        reached.add(inputs, outputs)
        if outermost and not error.__dict__.pop(_ENDED, False):
            _tell(reached, f"backward() failed: {described(error)}")
        raise


class _Reached:
    """Where a failed pass, and those within it that failed, would have added to gradients."""

    def __init__(self) -> None:
        self.leaves: set[int] = set()  # their ids
        self.runs_others = (
            False  # a function of a user's takes part, and such a function may run passes that nobody sees
        )

    def add(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.leaves |= {id(each) for each in inputs}
        if not inputs:
            self._walk(outputs)

    def _walk(self, outputs: Sequence[Any]) -> None:
        self.leaves |= {
            id(each) for each in outputs if isinstance(each, torch.Tensor) and each.grad_fn is None
        }
        nodes = [each.grad_fn if isinstance(each, torch.Tensor) else each.node for each in outputs]
        seen: set[Any] = set()
        while nodes:
            node = nodes.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            self.runs_others = self.runs_others or isinstance(node, torch.autograd.function.BackwardCFunction)
            if hasattr(node, "variable"):
                self.leaves.add(id(node.variable))
            nodes += [following for following, _ in node.next_functions]

    def has(self, one: Rounds) -> bool:
        optimizer = one.optimizer()
        return optimizer is not None and any(
            id(each) in self.leaves for group in optimizer.param_groups for each in group["params"]
        )


def _tell(reached: _Reached, why: str) -> None:
    everybody = list(_watched)
    told = [one for one in everybody if reached.has(one)]
    if not told and reached.runs_others and len(everybody) == 1:
        told = everybody
    for one in told:
        one.state.fail(why)
