# SPDX-License-Identifier: Apache-2.0
"""G7: an allreduce of GPU tensors by way of the host's memory (HORA_GPU_OPERATIONS=staged), against
torch.distributed over Gloo, and against the copies to the host and back alone, which both ranks make at the
same time."""

import gpu
import torch
import torch.distributed as dist
from gpu import DEVICE, check, figure, hvd
from peers import all_ranks, enter_torch_distributed

SIZES = {"1 MiB": 1 << 18, "16 MiB": 4 << 20, "100 MiB": 25 << 20}


def main() -> None:
    gpu.start()
    there = gpu.attempt("torch.distributed over Gloo", lambda: enter_torch_distributed("gloo") or True)
    there = all_ranks(bool(there))
    for name, elements in SIZES.items():
        count = elements if not gpu.FAKE else min(elements, 1 << 14)
        x, y = torch.randn(count, device=DEVICE), torch.randn(count, device=DEVICE)
        pinned = torch.empty(count, pin_memory=not gpu.FAKE)

        def copies(x: torch.Tensor = x, pinned: torch.Tensor = pinned) -> None:
            pinned.copy_(x, non_blocking=True)
            x.copy_(pinned, non_blocking=True)

        contenders = {
            "Hora": lambda x=x, name=name: hvd.allreduce_(x, op=hvd.Max, name=name),
            "copies": copies,
        }
        if there:
            contenders["Gloo"] = lambda y=y: dist.all_reduce(y, op=dist.ReduceOp.MAX)
        taken = gpu.in_turn(contenders, repeat=8, inner=1, warm_up=2)
        if "Hora" in taken:
            times = ", ".join(f"{contender} {time:.0f}" for contender, (time, _) in taken.items())
            more = (
                {"peer": taken["Gloo"][0] / 1e3, "peer_is": "Gloo", "of_peer": 3.0} if "Gloo" in taken else {}
            )
            aim = {"of_limit": 0.8} if count >= 4 << 20 else {}
            figure(
                f"G7 staged allreduce, {name}",
                taken["Hora"][0] / 1e3, "ms", lower=True, spread=taken["Hora"][1],
                limit=taken["copies"][0] / 1e3, limit_is="copies alone", note=f"{times} us", **aim, **more,
            )  # fmt: skip
        z = torch.full((count,), float(hvd.rank() + 1), device=DEVICE)
        hvd.allreduce_(z, op=hvd.Sum, name=f"right.{name}")
        check(
            f"G7 {name}: the sum is right",
            torch.equal(z.cpu(), torch.full((count,), float(sum(range(1, hvd.size() + 1))))),
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
