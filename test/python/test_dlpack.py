# SPDX-License-Identifier: Apache-2.0
"""DLPack, which Hora's memory goes out by and arrays on GPUs come in by; here with memory of the host."""

import hora
import numpy as np
import pytest
import torch
from hora import _native
from hora._loans import lend
from ready_ranks import run_ready

DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
]


def test_memory_goes_out_without_a_copy_and_lives_as_long_as_anybody_has_it():
    run_ready(
        1,
        """
        import gc, torch, hora
        from hora import _job, _native
        hora.init()
        memory = _job.runtime().allocate(128)
        assert memory.device is None and len(memory) == 128
        for name in ("uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool"):
            seen = torch.from_dlpack(memory.dlpack(getattr(_native.DType, name), [2, 3], 64))
            assert str(seen.dtype) == f"torch.{name}" and seen.shape == (2, 3) and seen.data_ptr() == memory.address + 64
        seen = torch.from_dlpack(memory.dlpack(_native.DType.float32, [4], 16))
        torch.frombuffer(memory, dtype=torch.float32)[4:8] = torch.arange(4.0)
        assert torch.equal(seen, torch.arange(4.0))
        assert torch.from_dlpack(memory.dlpack(_native.DType.float32, [0, 3])).shape == (0, 3)
        memory.dlpack(_native.DType.float32, [32])  # a capsule that nobody takes
        for shape, offset in (([33], 0), ([1], 128), ([1], 126)):
            try:
                memory.dlpack(_native.DType.float32, shape, offset)
                assert False, shape
            except hora.HoraArgumentError as error:
                assert "so many elements" in str(error)
        del memory
        gc.collect()
        hora.shutdown()
        assert torch.equal(seen, torch.arange(4.0))
    """,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_in_with_their_elements_and_shape(dtype: torch.dtype):
    tensor = torch.ones(2, 3, dtype=dtype)
    lent = _native.LentArray(tensor.__dlpack__())
    assert (lent.address, lent.shape, lent.contiguous, lent.device) == (tensor.data_ptr(), [2, 3], True, None)
    assert f"torch.{lent.dtype.name}" == str(dtype)


def test_arrays_come_in_by_both_versions_of_the_protocol():
    array = np.arange(6.0).reshape(2, 3)[:, 1:]
    for capsule in (array.__dlpack__(), array.__dlpack__(max_version=(1, 0))):
        lent = _native.LentArray(capsule)
        assert (lent.address, lent.shape, lent.contiguous) == (array.ctypes.data, [2, 2], False)
        with pytest.raises(hora.HoraArgumentError, match="nobody has used"):
            _native.LentArray(capsule)


def test_what_hora_does_not_know_is_refused_in_a_sentence():
    with pytest.raises(hora.HoraArgumentError, match="cannot be sent; convert"):
        _native.LentArray(torch.ones(2, dtype=torch.complex32).__dlpack__())

    class OnGpu:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

        def __dlpack__(self, stream: int) -> object:
            assert stream == 1
            raise BufferError("it has a gradient")

    with pytest.raises(
        hora.HoraArgumentError, match="'x': OnGpu on cuda:1 cannot be sent: it has a gradient"
    ):
        lend(OnGpu(), "x")

    class Strided(OnGpu):
        def __dlpack__(self, stream: int) -> object:
            return np.ones((3, 3))[:, 1:].__dlpack__()

    with pytest.raises(hora.HoraArgumentError, match="do not lie side by side"):
        lend(Strided(), "x")


def test_capabilities_are_told_without_a_gpu_too():
    assert isinstance(hora.cuda_built(), bool)
    assert hora.nccl_built() == 0 or hora.nccl_built() > 20000
    with pytest.raises(hora.HoraNotInitializedError):
        hora.memory_report()
