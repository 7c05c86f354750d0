# SPDX-License-Identifier: Apache-2.0
"""The documentation of the arguments that operations on tensors have in common."""

from hora._arguments import documents

documented = documents(
    average="deprecated; True means op=Average, False op=Sum.",
    compression="Compression.none, fp16 or bf16: how float32 and float64 elements travel; or a class with\n"
    "compress() and decompress().",
)
