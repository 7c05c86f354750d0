# SPDX-License-Identifier: Apache-2.0
raise ImportError(
    "horovod.tensorflow is not part of Hora, which serves PyTorch (horovod.torch) and NumPy (hora)",
    name=__name__,
)
