# SPDX-License-Identifier: Apache-2.0
raise ImportError(
    "horovod.mxnet is not part of Hora, which serves PyTorch, Keras, TensorFlow and NumPy", name=__name__
)
