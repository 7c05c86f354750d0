# SPDX-License-Identifier: Apache-2.0
"""The group of processes that `init_process_group("hora")` and `new_group` make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import hora.torch as hvd
from hora import _synchronization
from hora._errors import HoraArgumentError
from hora.torch.distributed import tensors
from hora.torch.distributed.checks import member, one_for_each
from hora.torch.distributed.monitored import MonitoredBarrier
from hora.torch.distributed.reducing import Reducing
from hora.torch.distributed.started import Started, together
from hora.torch.distributed.starting import Tensors
from hora.torch.distributed.work import Work


class ProcessGroup(Reducing):
    """Ranks of torch.distributed on Hora: its operations by the names that PyTorch 2.11 and 2.15 call.

    C++ calls these methods, too: DDP's reducer and the functional collectives.
    """

    def broadcast(self, given: Tensors, opts: Any) -> Work:
        """The tensor of the root goes to all ranks."""

        def start() -> Started:
            root = member("broadcast", self.ranks, opts.rootRank)
            each = given[opts.rootTensor]
            out = tensors.target(each)
            sent = tensors.flat(each) if out is None else out
            handle = hvd.broadcast_async_(sent, root, process_set=self.members)
            return Started([handle], [each], tensors.filling([each], out))

        return self.run("broadcast", opts, start)

    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Work:
        """The tensors of all ranks, one after the other."""
        return self.all_gather_single_coalesced([output], [given], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, given: Tensors, opts: Any = None) -> Work:
        """The same, of several tensors."""
        return self.run(
            "all_gather",
            opts,
            lambda: together(
                [
                    self._gather_all([output], tensors.apart(each, output), tensors.target(output))
                    for output, each in zip(outputs, given, strict=True)
                ]
            ),
        )

    def allgather(self, outputs: Sequence[Tensors], given: Tensors, opts: Any = None) -> Work:
        """The tensors of all ranks, each by itself: lists of them, one for each tensor that is given."""

        def start() -> Started:
            for each in outputs:
                one_for_each("all_gather", "output", each, self.size())
            return together([self._gather_all(out, each) for out, each in zip(outputs, given, strict=True)])

        return self.run("all_gather", opts, start)

    def allgather_coalesced(self, outputs: Sequence[Tensors], given: Tensors, opts: Any = None) -> Work:
        """The same, where the lists are one for each rank."""
        one_for_each("all_gather", "output", outputs, self.size())
        return self.allgather(list(zip(*outputs, strict=True)), given, opts)

    def _gather_all(self, outputs: Tensors, given: torch.Tensor, out: torch.Tensor | None = None) -> Started:
        handle = hvd.allgather_async(tensors.flat(given), process_set=self.members, out=out)
        return Started([handle], list(outputs), tensors.filling(outputs, out), [given])

    def gather(self, outputs: Sequence[Tensors], given: Tensors, opts: Any) -> Work:
        """The tensors of all ranks, each by itself, on the root."""

        def start() -> Started:
            root = member("gather", self.ranks, opts.rootRank)
            if outputs:
                one_for_each("gather", "output", outputs[0], self.size())
            handle = hvd.gather_async(tensors.flat(given[0]), root, process_set=self.members)
            into = list(outputs[0]) if outputs else []
            return Started([handle], into, tensors.filling(into, None), list(given))

        return self.run("gather", opts, start)

    def gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any) -> Work:
        """The tensors of all ranks, one after the other, on the root."""
        parts = [output.chunk(self.size())] if self.rank() == opts.rootRank else []
        return self.gather(parts, [given], opts)

    gather_into_tensor = gather_single

    def scatter(self, outputs: Tensors, given: Sequence[Tensors], opts: Any) -> Work:
        """Each rank gets the root's tensor of its place in the list."""

        def start() -> Started:
            root, output = member("scatter", self.ranks, opts.rootRank), outputs[0]
            if given:
                one_for_each("scatter", "input", given[0], self.size())
            parts = given[0] if given else [output[:0]] if output.dim() else [output.reshape(1)[:0]]
            splits = [tensors.flat_size(part) for part in parts] if given else None
            handle = hvd.scatter_async(
                tensors.joined(parts), root_rank=root, splits=splits, process_set=self.members
            )
            return Started([handle], [output], tensors.filling([output], None), parts if given else [])

        return self.run("scatter", opts, start)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        given: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
    ) -> Work:
        """Each rank gets rows of each other."""

        def start() -> Started:
            whole = tensors.flat(given)
            rows = given.shape[0] if given.dim() else 1
            each = whole.numel() // max(rows, 1)
            counts = self._splits(input_splits, rows, "input")
            self._splits(output_splits, output.shape[0] if output.dim() else 1, "output")
            out = tensors.target(output, whole)
            handle = hvd.alltoall_async(
                whole, [count * each for count in counts], process_set=self.members, out=out
            )
            return Started(
                [handle], [output], lambda results: tensors.filling([output], out)([results[0][0]]), [given]
            )

        return self.run("all_to_all", opts, start)

    def _splits(self, splits: Sequence[int], rows: int, which: str) -> list[int]:
        """How many rows are each rank's. Raises HoraArgumentError."""
        if not splits and rows % self.size() == 0:
            return [rows // self.size()] * self.size()
        if len(splits) != self.size() or sum(splits) != rows:
            raise HoraArgumentError(
                f"'all_to_all': the {which} has {rows} rows for {self.size()} ranks, and {which}_split_sizes "
                f"is {list(splits)}: give one number for each rank, {rows} in sum"
            )
        return list(splits)

    def alltoall(self, outputs: Tensors, given: Tensors, opts: Any = None) -> Work:
        """Each rank gets one tensor of each other."""

        def start() -> Started:
            one_for_each("all_to_all", "input", given, self.size())
            one_for_each("all_to_all", "output", outputs, self.size())
            splits = [tensors.flat_size(part) for part in given]
            handle = hvd.alltoall_async(tensors.joined(given), splits, process_set=self.members)
            return Started(
                [handle], list(outputs), lambda results: tensors.fill(outputs, results[0][0]), list(given)
            )

        return self.run("all_to_all", opts, start)

    # --- messages and barriers ---

    def send(self, given: Tensors, destination: int, tag: int) -> Work:
        """Sends a tensor to a rank of the group."""
        peer = member("send", self.ranks, destination)
        return self.run(
            "send",
            None,
            lambda: Started([hvd.isend(tensors.flat(given[0]), peer, tag, self.members)], list(given)),
            peers=f"{self.rank()}->{destination}",
        )

    def recv(self, given: Tensors, source: int, tag: int) -> Work:
        """Receives a tensor from a rank of the group."""
        return self._receive(given, member("recv", self.ranks, source), tag, f"{self.rank()}<-{source}")

    def recv_anysource(self, given: Tensors, tag: int) -> Work:
        """Receives a tensor from any rank of the group."""
        return self._receive(given, hvd.ANY_SOURCE, tag, f"{self.rank()}<-?")

    def _receive(self, given: Tensors, source: int, tag: int, peers: str) -> Work:
        out = tensors.target(given[0])
        memory = torch.empty_like(tensors.flat(given[0])) if out is None else out
        work: Work

        def finish(results: list[Any]) -> None:
            work.source = self.ranks.index(results[0].source)
            tensors.filling(given, out)([results[0].value])

        work = self.run(
            "recv",
            None,
            lambda: Started(
                [hvd.irecv(memory, source=source, tag=tag, process_set=self.members)], list(given), finish
            ),
            peers,
        )
        return work

    def barrier(self, opts: Any = None, timeout: Any = None) -> Work:
        """Ends when all ranks have called it."""
        return self.run(
            "barrier", timeout or opts, lambda: Started([_synchronization.start_barrier(self.members)], [])
        )

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """As `barrier`, but names all ranks that have not come when the time is over. PyTorch 2.15 calls it;
        older ones refuse it for every backend but Gloo.

        Raises:
            HoraTimeoutError (a RuntimeError): ranks are missing; the job goes on.
        """
        self.check_open("monitored_barrier")
        if self._monitored is None:
            self._monitored = MonitoredBarrier(self.members, self.ranks, self.rank())
        self._monitored.wait(timeout or self.timeout)

    # The names of PyTorch up to 2.14.
    _allgather_base = all_gather_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
