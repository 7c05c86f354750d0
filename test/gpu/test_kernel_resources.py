# SPDX-License-Identifier: Apache-2.0
"""The registers of the kernels, as nvcc's assembler counted them when it compiled them."""

import pathlib
import re

import pytest

RESOURCES = pathlib.Path(__file__).resolve().parents[2] / "build/default/core/backend/cuda/kernels.resources"
THREADS = 256  # of a block
REGISTERS = 65536  # of a multiprocessor
# Copy, moves, sums, and those of blocks in two formats, for small tables and for large ones.
KERNELS = 2 * (1 + 16 + 3 + 2 * (4 + 4 + 1))
# Conversions between the two types of 16 bits: three blocks instead of four (kFewerBlocks in kernels.cu).
FEWER_BLOCKS = {"hora_move_f16_bf16", "hora_move_bf16_f16"}
KERNEL = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for 'sm_(?P<architecture>\d+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers",
    re.DOTALL,
)


def test_kernels_are_the_same_from_compute_capability_8_on():
    """So the tests run them as they are compiled for 7.5 and for 9.0."""
    source = (pathlib.Path(__file__).resolve().parents[2] / "core/backend/cuda/kernels.cu").read_text()
    asked = re.findall(r"__CUDA_ARCH__.*", source)
    assert asked and set(asked) == {"__CUDA_ARCH__ >= 800"}


@pytest.mark.skipif(not RESOURCES.exists(), reason="this was built without nvcc")
def test_no_kernel_spills_registers_and_as_many_blocks_fit_as_planned():
    found = [match.groupdict() for match in KERNEL.finditer(RESOURCES.read_text())]
    architectures = {kernel["architecture"] for kernel in found}
    assert {"80", "90"} <= architectures
    assert len(found) == KERNELS * len(architectures)
    for kernel in found:
        blocks = 3 if kernel["name"].removesuffix("_large") in FEWER_BLOCKS else 4
        assert int(kernel["registers"]) * THREADS * blocks <= REGISTERS, kernel
        if int(kernel["architecture"]) >= 80:
            assert (kernel["stack"], kernel["stores"], kernel["loads"]) == ("0", "0", "0"), kernel
