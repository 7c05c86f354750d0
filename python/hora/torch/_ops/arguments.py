# SPDX-License-Identifier: Apache-2.0
"""The documentation of the arguments that operations on tensors have in common."""

from hora._arguments import documents

documented = documents(
    average="deprecated; True means op=Average, False op=Sum.",
    compression="one of Compression: how floats travel; or a class with\ncompress() and decompress().",
)
