# SPDX-License-Identifier: Apache-2.0
"""G4: the time that an allreduce of Hora's takes more than a bare ncclAllReduce, and than torch.distributed
over NCCL. Two ranks share a GPU, so the times themselves say nothing about NCCL's bandwidth."""

import gpu
import torch
import torch.distributed as dist
from gpu import DEVICE, check, figure, hvd
from peers import BareNccl, all_ranks, enter_torch_distributed

SIZES = {"4 KiB": 1 << 10, "256 KiB": 1 << 16, "4 MiB": 1 << 20, "32 MiB": 8 << 20}
IN_A_ROW = 16


def added(what: str, taken: dict[str, tuple[float, float]]) -> None:
    """A figure of Hora's time less the bare call's."""
    if "Hora" not in taken:
        return
    ours, spread = taken["Hora"]
    others = ", ".join(f"{name} {time:.1f}" for name, (time, _) in taken.items())
    if "bare NCCL" not in taken:
        figure(f"G4 {what}", ours, "us", lower=True, spread=spread, note=others)
        return
    bare = taken["bare NCCL"][0]
    peer = (
        {"peer": taken["torch.distributed"][0] - bare, "peer_is": "torch.distributed"}
        if "torch.distributed" in taken
        else {}
    )
    figure(
        f"G4 added to ncclAllReduce, {what}",
        ours - bare,
        "us",
        lower=True,
        most=max(10.0, 0.05 * bare),
        spread=spread,
        note=f"{others} us",
        **peer,
    )


def main() -> None:
    gpu.start()
    bare = None if gpu.FAKE else gpu.attempt("bare NCCL", BareNccl)
    bare = bare if all_ranks(bare is not None) else None
    there = not gpu.FAKE and gpu.attempt("torch.distributed", lambda: enter_torch_distributed("nccl") or True)
    there = all_ranks(bool(there))
    for name, elements in SIZES.items():
        count = elements if not gpu.FAKE else min(elements, 1 << 12)
        tensors = [torch.randn(count, device=DEVICE) for _ in range(IN_A_ROW)]

        def one(tensor: torch.Tensor = tensors[0], name: str = name) -> None:
            hvd.allreduce_(tensor, op=hvd.Max, name=f"one.{name}")

        def row(tensors: list[torch.Tensor] = tensors, name: str = name) -> None:
            handles = [
                hvd.allreduce_async_(tensor, op=hvd.Max, name=f"row.{name}.{i}")
                for i, tensor in enumerate(tensors)
            ]
            for handle in handles:
                hvd.synchronize(handle)

        single, several = {"Hora": one}, {"Hora": row}
        if bare is not None:
            single["bare NCCL"] = lambda tensor=tensors[0]: bare.all_reduce(tensor)
            several["bare NCCL"] = lambda tensors=tensors: [bare.all_reduce(tensor) for tensor in tensors]
        if there:
            single["torch.distributed"] = lambda tensor=tensors[0]: dist.all_reduce(
                tensor, op=dist.ReduceOp.MAX
            )
            several["torch.distributed"] = lambda tensors=tensors: [
                dist.all_reduce(tensor, op=dist.ReduceOp.MAX) for tensor in tensors
            ]
        long = count >= 1 << 20
        added(f"{name}, one at a time", gpu.in_turn(single, repeat=10 if long else 30, inner=1, warm_up=4))
        added(
            f"{IN_A_ROW} of {name} in a row",
            gpu.in_turn(several, repeat=4 if long else 12, inner=1, warm_up=2),
        )
        x = torch.full((count,), float(hvd.rank() + 1), device=DEVICE)
        hvd.allreduce_(x, op=hvd.Sum, name=f"right.{name}")
        check(
            f"G4 {name}: the sum is right",
            torch.equal(x.cpu(), torch.full((count,), float(sum(range(1, hvd.size() + 1))))),
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
