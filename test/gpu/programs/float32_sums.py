# SPDX-License-Identifier: Apache-2.0
"""Sums of 16-bit floats that are added in float32, which HORA_FLOAT32_SUMS asks for: as the CPU has them, bit
for bit."""

import gpu
import torch
from gpu import DEVICE, checking, hvd, on_cpu


def main() -> None:
    gpu.start()
    rank, size = hvd.rank(), hvd.size()
    for dtype in (torch.float16, torch.bfloat16):
        for count in (1, 7, 1000, 3_000_001 if not gpu.FAKE else 30_001):
            with checking(f"float32 sums of {count} {str(dtype).removeprefix('torch.')}, {size} ranks"):
                x = torch.randn(count, generator=torch.Generator().manual_seed(rank)).to(dtype)
                with on_cpu():
                    expected = hvd.allreduce(x, op=hvd.Sum, name="cpu")
                got = hvd.allreduce(x.to(DEVICE), op=hvd.Sum, name="gpu").cpu()
                assert torch.equal(got, expected), (
                    f"{(got != expected).sum().item()} of {count} elements differ"
                )
    with checking(f"float32 gradients that travel as 16 bits, {size} ranks"):
        x = torch.randn(100_000, generator=torch.Generator().manual_seed(rank))
        with on_cpu():
            expected = hvd.allreduce(x, op=hvd.Sum, name="cpu", compression=hvd.Compression.bf16)
        got = hvd.allreduce(x.to(DEVICE), op=hvd.Sum, name="gpu", compression=hvd.Compression.bf16).cpu()
        assert torch.equal(got, expected), f"{(got != expected).sum().item()} elements differ"
    hvd.shutdown()


if __name__ == "__main__":
    main()
