# SPDX-License-Identifier: Apache-2.0
"""Two ranks that share a GPU and say so: NCCL does not let them, and Hora goes by way of the host's memory,
or says why not.

hrun -np 2 shared_gpu.py auto|nccl"""

import os
import sys

os.environ["HORA_GPU_OPERATIONS"] = sys.argv[1]
os.environ["TEST_SHARED_GPU"] = "1"
RANK = os.environ.pop("HORA_RANK", None)  # `gpu` must not give this rank a host of its own

import gpu  # noqa: E402

if RANK is not None:
    os.environ["HORA_RANK"] = RANK

import hora  # noqa: E402
import torch  # noqa: E402
from gpu import DEVICE, check, checking, hvd  # noqa: E402


def main() -> None:
    gpu.start()
    wish, size = sys.argv[1], hvd.size()
    x = torch.full((1000,), float(hvd.rank()), device=DEVICE)
    if wish == "auto":
        with checking("ranks that share a GPU go by way of the host's memory"):
            assert torch.equal(
                hvd.allreduce(x, op=hvd.Sum).cpu(), torch.full((1000,), float(sum(range(size))))
            )
    else:
        try:
            hvd.allreduce(x, op=hvd.Sum)
            check("NCCL for ranks that share a GPU is refused", False, "it was not")
        except hora.HoraError as error:
            check("NCCL for ranks that share a GPU is refused", "share one GPU" in str(error), str(error))
    hvd.shutdown()


if __name__ == "__main__":
    main()
