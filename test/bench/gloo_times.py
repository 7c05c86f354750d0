# SPDX-License-Identifier: Apache-2.0
"""Times Gloo's allreduce (torch.distributed) as hora_bench times its contenders; rank 0 prints one line of JSON."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist


def main() -> None:
    rank, ranks, address, iterations = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    sizes = [int(size) for size in sys.argv[5:]]
    dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=ranks)
    medians = {}
    for size in sizes:
        count = iterations if size > 1 << 16 else 20 * iterations
        times = []
        for _ in range(count + 2):
            data = torch.ones(size // 4)
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(data)
            slowest = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            times.append(slowest.item())
        medians[size] = statistics.median(times[2:]) * 1e6
    if rank == 0:
        print(json.dumps(medians))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
