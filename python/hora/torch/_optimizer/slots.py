# SPDX-License-Identifier: Apache-2.0
"""The state of each parameter of a DistributedOptimizer, and the memory of gradients while they are
reduced."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import torch

from hora import _job, _native
from hora._errors import HoraArgumentError
from hora.torch._ops import devices
from hora.torch._optimizer.transfers import Transfer

_LINE = 64
_LARGE = 64 * 1024  # bytes of a gradient for whose copy caches matter

UNKNOWN = (
    _native.UNKNOWN_KIND
)  # of a gradient that no rank has had yet; a sparse one has the number of its sparse dimensions
DENSE = _native.DENSE_KIND


def kind_of(gradient: torch.Tensor | None) -> int:
    """UNKNOWN, DENSE, or how many dimensions are sparse."""
    if gradient is None:
        return UNKNOWN
    return gradient.sparse_dim() if gradient.layout == torch.sparse_coo else DENSE


@dataclasses.dataclass(eq=False)
class Slot:
    """One parameter, and the tensors of its gradient."""

    number: int  # of the parameter in the native ReducerState
    name: str
    parameter: torch.Tensor
    like: torch.Tensor  # on the meta device: the parameter as it was when it was taken
    device: torch.device  # on which it was then
    gpu: int | None  # the number of that, if it is one
    place: torch.Tensor | None = None  # where its gradient lies while it is reduced, if that is dense
    gathered: torch.Tensor | None = None  # the last reduced gradient, if that is sparse
    pending: Transfer | None = None
    base: torch.Tensor | None = None  # what was reduced before and is to be added to
    version: int = 0  # of the gradient, when the last step ended
    accumulate: Any = None  # autograd's node that adds to the gradient; alive, so that its hook is
    looked_at: list[_job.UnderWay] = dataclasses.field(
        default_factory=list
    )  # what has made the gradient, and tells whether it is finite
    unseen: torch.Tensor | None = None  # the gradient, if more has been done to it after that
    made: dict[Any, Transfer] = dataclasses.field(
        default_factory=dict
    )  # transfers of the place, to be used again
    hooks: list[Any] = dataclasses.field(default_factory=list)
    released: bool = False  # to another DistributedOptimizer

    def release(self) -> None:
        """Another one has taken the parameter."""
        for hook in self.hooks:
            hook.remove()
        self.released = True

    def in_place(self) -> bool:
        """Whether the gradient lies where it is reduced."""
        gradient = self.parameter.grad
        return (
            gradient is not None
            and self.place is not None
            and gradient.layout == torch.strided
            and gradient.data_ptr() == self.place.data_ptr()
        )

    def is_unchanged(self) -> bool:
        """Whether nobody has written to a reduced gradient since the last step."""
        gradient = self.parameter.grad
        return (
            gradient is not None
            and gradient._version == self.version
            and (gradient is self.gathered or self.in_place())
        )

    def set_aside(self) -> None:
        """Keeps the gradient as the base, where a reduction does not overwrite it."""
        gradient = self.parameter.grad
        self.base = gradient.clone() if gradient is not None and self.in_place() else gradient

    def check(self, gradient: torch.Tensor) -> None:
        """Raises HoraArgumentError if the gradient cannot lie as the parameter did."""
        like = self.like
        if gradient.device != self.device or gradient.dtype != like.dtype or gradient.shape != like.shape:
            raise HoraArgumentError(
                f"'{self.name}': the gradient is {gradient.dtype} {list(gradient.shape)} on "
                f"{gradient.device}, the parameter was {like.dtype} {list(like.shape)} on {self.device} when "
                "its DistributedOptimizer was made; make that after converting the model"
            )

    def put_in_place(self, gradient: torch.Tensor, for_later: bool, is_dense: bool) -> None:
        """Brings a gradient to where it is reduced. `for_later`: other gradients come before that. Unless it
        `is_dense` to the user, the user's gradient stays what it is."""
        if self.in_place():
            return
        place = self.place
        assert place is not None
        same_bytes = (
            gradient.layout == torch.strided
            and gradient.stride() == place.stride()
            and not (gradient.is_neg() or gradient.is_conj())
        )
        if for_later and self.gpu is None and place.nbytes >= _LARGE and same_bytes:
            _job.runtime().copy_for_later(place.data_ptr(), gradient.data_ptr(), place.nbytes)
        else:
            whole = gradient.detach() if gradient.requires_grad else gradient
            place.copy_(whole if whole.layout == torch.strided else whole.to_dense())
        if is_dense:
            self.parameter.grad = place

    def look_at(self, handles: list[_job.UnderWay]) -> None:
        """Notes who will know whether the gradient is finite: what is added to one that was reduced before
        counts with it."""
        if self.base is None:
            self.looked_at, self.unseen = [], None
        self.looked_at = self.looked_at + handles

    def end_step(self) -> None:
        """Gradients from now on belong to the next step."""
        self.looked_at, self.unseen, self.base = [], None, None
        gradient = self.parameter.grad
        self.version = 0 if gradient is None else gradient._version


# Of every parameter, by id: the last slot that took it. A slot keeps its parameter, so that no other gets
# that id.
_slots: weakref.WeakValueDictionary[int, Slot] = weakref.WeakValueDictionary()


def take(slot: Slot) -> None:
    """Makes this the slot of its parameter, instead of another optimizer's."""
    former = _slots.get(id(slot.parameter))
    if former is not None:
        former.release()
    _slots[id(slot.parameter)] = slot


def check_not_taken(slots: list[Slot]) -> None:
    """Raises HoraArgumentError if another optimizer has taken one of these parameters."""
    taken = next((slot.name for slot in slots if slot.released), None)
    if taken is not None:
        raise HoraArgumentError(
            f"'{taken}' belongs to a DistributedOptimizer that was made later; use that one"
        )


def new_slot(number: int, name: str, parameter: torch.Tensor) -> Slot:
    """A slot whose gradient is to lie as the parameter does."""
    like = torch.empty_like(
        parameter, device="meta", requires_grad=False
    )  # has the parameter's strides, if those leave no gaps
    return Slot(number, name, parameter, like, parameter.device, devices.gpu_of(parameter))


def _whole_lines(size: int) -> int:
    return (size + _LINE - 1) // _LINE * _LINE


def give_places(slots: list[Slot], kinds: list[int], units: _native.Units) -> None:
    """Gives those slots a place whose gradients are reduced as dense ones and have none."""
    dense = [
        slot
        for slot, kind in zip(slots, kinds, strict=True)
        if slot.place is None and units.travels_dense(kind)
    ]
    for slot, place in zip(dense, places(dense), strict=True):
        slot.place = place


def places(slots: list[Slot]) -> list[torch.Tensor]:
    """Places for the gradients of these, side by side in memory that ranks exchange fastest: which those of a
    host share, or of a GPU, which NCCL knows. One block for each dtype and device; each place keeps its block
    alive.

    Neighbours begin one behind the other's last cache line, so what is reduced together is one piece for the
    core."""
    sizes: dict[tuple[torch.dtype, int | None], int] = {}
    begins = []
    for slot in slots:
        block = slot.like.dtype, slot.gpu
        begins.append((block, sizes.get(block, 0)))
        sizes[block] = begins[-1][1] + _whole_lines(slot.like.nbytes)
    blocks = {block: _job.runtime().allocate(max(size, 1), block[1]) for block, size in sizes.items()}
    return [
        devices.tensor_in(blocks[block], slot.like.dtype, slot.like.numel(), begin).as_strided(
            slot.like.shape, slot.like.stride()
        )
        for slot, (block, begin) in zip(slots, begins, strict=True)
    ]
