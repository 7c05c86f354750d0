# SPDX-License-Identifier: Apache-2.0
"""One tensor of an optimizer on its way through the ranks: what is submitted, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from hora import _job, _native, ops
from hora._errors import HoraError
from hora.compression import in_transfer
from hora.process_sets import ProcessSet, number_of
from hora.torch._ops import devices
from hora.torch._ops.lending import native_dtype, received
from hora.torch._ops.reduction import Reduction


def submit(transfers: list[Transfer]) -> None:
    """Submits transfers; several of them as a group, which is reduced as a whole or not at all."""
    if len(transfers) == 1:
        transfers[0].start(_job.runtime().submit(entry) for entry in transfers[0].entries)
        return
    handles = iter(
        _job.runtime().submit_group([entry for transfer in transfers for entry in transfer.entries])
    )
    for transfer in transfers:
        transfer.start(handles)


def start_on_host(
    tensor: torch.Tensor, name: str, op: _native.ReduceOp, process_set: ProcessSet, failed_with: str
) -> _native.Handle:
    """Starts an allreduce in place of a tensor that is not the user's, in the host's memory."""
    address = tensor.data_ptr()
    entry = _native.Entry(
        _native.Operation.allreduce,
        name,
        native_dtype(tensor, name),
        list(tensor.shape),
        input=address,
        output=address,
        op=op,
        process_set=number_of(process_set, name),
        failed_with=failed_with,
    )
    return _job.runtime().submit(entry).keep(tensor)


def _wait(handles: list[_job.UnderWay]) -> list[_native.Outcome]:
    """How all have ended. Raises what the first failed with, once all have ended: until then, memory is
    lent."""
    outcomes = []
    first: HoraError | None = None
    for handle in handles:
        try:
            outcomes.append(handle.wait())
        except HoraError as error:
            first = first or error
    if first is not None:
        raise first
    return outcomes


class DenseTransfer:
    """A dense tensor, reduced where it lies; `absent` if this rank brings nothing, and with `failed_with` if
    it cannot."""

    def __init__(
        self,
        place: torch.Tensor,
        name: str,
        reduction: Reduction,
        absent: bool = False,
        check_finite: bool = False,
        failed_with: str = "",
    ) -> None:
        self._place = place
        self._written_by_runtime = in_transfer(reduction.compression)
        if self._written_by_runtime:
            self._sent = place
        else:
            sent, self._decompressed = reduction.compressed(torch.zeros_like(place) if absent else place)
            self._sent = sent.contiguous()
        self._where = devices.place_of(self._sent)
        self.handles: list[_job.UnderWay] = []
        self.entries = [
            _native.Entry(
                _native.Operation.allreduce,
                name,
                native_dtype(self._sent, name),
                list(self._sent.shape),
                input=self._where.address,
                output=self._where.address,
                absent=absent,
                process_set=number_of(reduction.process_set, name),
                check_finite=check_finite,
                padded=self._written_by_runtime,  # places begin with cache lines
                failed_with=failed_with,
                strides=[] if self._sent.is_contiguous() else list(self._sent.stride()),
                **devices.arguments(self._where),
                **reduction.arguments(),
            )
        ]

    def start(self, handles: Iterator[_native.Handle]) -> None:
        """Takes that of its entry."""
        self.handles = [devices.under_way(next(handles), self._where, self._sent)]

    def finish(self) -> torch.Tensor | None:
        """The tensor itself, with the reduced values."""
        (outcome,) = _wait(self.handles)
        if not outcome.contributed:
            return None
        if not self._written_by_runtime:
            with torch.no_grad():
                self._place.copy_(self._decompressed(self._sent))
        return self._place


class SparseTransfer:
    """A sparse tensor (None: this rank brings nothing), by gathering the indices and values of all ranks.

    On a GPU they stay there; the two numbers for which the host waits are its own.

    It also finds out the number that divides the sum in a mean, as ranks that have joined may count or not.
    And it finds out whether any rank brings a tensor, which may have no values.
    """

    def __init__(
        self,
        tensor: torch.Tensor | None,
        like: torch.Tensor,
        sparse_dims: int,
        name: str,
        reduction: Reduction,
        failed_with: str = "",
    ) -> None:
        self._shape = like.shape
        self._reduction = reduction
        self._dtype = like.dtype
        if tensor is None:
            self._indices = torch.empty((0, sparse_dims), dtype=torch.int64, device=like.device)
            values = torch.empty((0, *like.shape[sparse_dims:]), dtype=like.dtype, device=like.device)
        else:
            whole = tensor.detach().coalesce()
            self._indices = whole.indices().t().contiguous()
            values = whole.values()
        if reduction.prescale != 1.0:
            values = values * reduction.prescale
        if in_transfer(
            reduction.compression
        ):  # what users write need not work on rows that others have added
            values, _ = reduction.compression.compress(values)
        self._values = values.contiguous()
        self._counts = torch.tensor([1.0, tensor is not None], dtype=torch.float64)
        self._share = torch.ones(1, dtype=torch.float64)
        self._process_set = number_of(reduction.process_set, name)
        self._places: list[devices.Place] = []
        self._failed_with = failed_with
        self.handles: list[_job.UnderWay] = []
        self.entries = [
            self._entry(_native.Operation.allgather, self._indices, f"{name}.indices"),
            self._entry(_native.Operation.allgather, self._values, f"{name}.values"),
            self._entry(_native.Operation.allreduce, self._counts, f"{name}.counts", _native.ReduceOp.sum),
            self._entry(_native.Operation.allreduce, self._share, f"{name}.share", ops.native(reduction.op)),
        ]

    def _entry(
        self,
        operation: _native.Operation,
        tensor: torch.Tensor,
        name: str,
        op: _native.ReduceOp = _native.ReduceOp.sum,
    ) -> _native.Entry:
        """An allreduce is done in place."""
        place = devices.place_of(tensor)
        self._places.append(place)
        output = place.address if operation == _native.Operation.allreduce else 0
        dtype = native_dtype(tensor, name)
        return _native.Entry(
            operation,
            name,
            dtype,
            list(tensor.shape),
            input=place.address,
            output=output,
            op=op,
            process_set=self._process_set,
            failed_with=self._failed_with,
            **devices.arguments(place),
        )

    def start(self, handles: Iterator[_native.Handle]) -> None:
        """Takes those of its entries."""
        lent = (self._indices, self._values, self._counts, self._share)
        self.handles = [
            devices.under_way(next(handles), place, tensor)
            for place, tensor in zip(self._places, lent, strict=True)
        ]

    def finish(self) -> torch.Tensor | None:
        """A new coalesced tensor, the same on all ranks."""
        indices, values, _, _ = _wait(self.handles)
        present, brought = self._counts.tolist()
        if brought == 0:
            return None
        divisor = round(
            present / self._share.item()
        )  # 1 for a sum: of ones, that is how many ranks are present
        wide = (
            torch.float32 if self._dtype.itemsize == 2 else self._dtype
        )  # as dense 16-bit floats are summed
        rows = devices.on_current_stream(received(values, self._values.dtype), self._places[1]).to(wide)
        where = devices.on_current_stream(received(indices, torch.int64), self._places[0])
        whole = torch.sparse_coo_tensor(where.t(), rows * (self._reduction.postscale / divisor), self._shape)
        return whole.coalesce().to(self._dtype)


# `entries` are to be submitted, and their handles given to `start`. `finish` waits, and returns the reduced
# tensor, or None if no rank had one. After Ctrl-C it may be called again.
Transfer = DenseTransfer | SparseTransfer
