# SPDX-License-Identifier: Apache-2.0
"""One rank dies in the middle of a collective. The others get an exception in time, are not killed
themselves, and can write a checkpoint of what is on their GPU.

    hrun --grace 20 -np N killed.py FOLDER"""

import os
import pathlib
import signal
import sys
import threading
import time

import gpu
import torch
from gpu import DEVICE, hvd

DEADLINE = 10.0  # HORA_HEARTBEAT_TIMEOUT, seconds
MARGIN = 5.0


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    gpu.start()
    rank, size = hvd.rank(), hvd.size()
    torch.manual_seed(0)
    net = torch.nn.Linear(256, 256).to(DEVICE)
    before = net.weight.detach().cpu().clone()
    count = 8 << 20 if not gpu.FAKE else 1 << 14
    hvd.allreduce(torch.ones(count, device=DEVICE), op=hvd.Sum, name="first")
    gpu.finish()
    hvd.barrier()
    death = time.monotonic() + 1.0
    if rank == size - 1:
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    try:
        step = 0
        while time.monotonic() < death + 60:
            handles = [
                hvd.allreduce_async(torch.ones(count, device=DEVICE), op=hvd.Sum, name=f"{step % 2}.{i}")
                for i in range(4)
            ]
            for handle in handles:
                hvd.synchronize(handle)
            gpu.finish()
            step += 1
        gpu.say(
            "CHECK",
            name="a rank killed in mid-collective: an exception",
            ok=False,
            text=f"none within 60 s on rank {rank}",
        )
        os._exit(1)
    except hvd.HorovodInternalError as error:
        late = time.monotonic() - death
        text = f"rank {rank}, {late:.2f} s after the death, in step {step}: {str(error)[:300]}"
        gpu.say(
            "CHECK",
            name=f"a rank killed in mid-collective: an exception, {size} ranks",
            ok=late <= DEADLINE + MARGIN,
            text=text,
        )
        if rank == 0:
            gpu.say(
                "FIGURE",
                name=f"exception after a rank was killed, {size} ranks",
                value=late,
                unit="s",
                lower=True,
                most=DEADLINE + MARGIN,
            )
    path = folder / f"checkpoint-{size}-{rank}.pt"
    torch.save({name: parameter.detach().cpu() for name, parameter in net.named_parameters()}, path)
    saved = torch.load(path)
    gpu.say(
        "CHECK",
        name=f"a checkpoint can be written after it, {size} ranks",
        ok=torch.equal(saved["weight"], before),
        text=f"rank {rank}",
    )
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
