# SPDX-License-Identifier: Apache-2.0
"""Elements of each parameter of well-known models, in the order of the model, from the definitions of their
layers."""

from collections.abc import Callable

List = list[int]


def resnet50() -> List:
    """He et al., 2016: bottlenecks of 3, 4, 6 and 3 blocks."""
    sizes: List = []

    def convolution(inputs: int, outputs: int, kernel: int) -> None:
        sizes.extend([inputs * outputs * kernel * kernel, outputs, outputs])  # and its batch norm

    convolution(3, 64, 7)
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            convolution(inputs, width, 1)
            convolution(width, width, 3)
            convolution(width, 4 * width, 1)
            if block == 0:
                convolution(inputs, 4 * width, 1)
            inputs = 4 * width
    return [*sizes, inputs * 1000, 1000]


def vgg16() -> List:
    """Simonyan and Zisserman, 2015, configuration D."""
    sizes: List = []
    inputs = 3
    for outputs in (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512):
        sizes += [inputs * outputs * 9, outputs]
        inputs = outputs
    for inputs, outputs in ((512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)):
        sizes += [inputs * outputs, outputs]
    return sizes


def _linear(inputs: int, outputs: int) -> List:
    return [inputs * outputs, outputs]


def _bert(width: int, layers: int) -> List:
    """Devlin et al., 2019, with the pooler."""
    norm = [width, width]
    embeddings = [30522 * width, 512 * width, 2 * width, *norm]
    layer = [
        *(4 * _linear(width, width)),
        *norm,
        *_linear(width, 4 * width),
        *_linear(4 * width, width),
        *norm,
    ]
    return [*embeddings, *(layers * layer), *_linear(width, width)]


def bert_base() -> List:
    return _bert(768, 12)


def bert_large() -> List:
    return _bert(1024, 24)


def gpt2() -> List:
    """Radford et al., 2019, the small one."""
    width = 768
    norm = [width, width]
    layer = [
        *norm,
        *_linear(width, 3 * width),
        *_linear(width, width),
        *norm,
        *_linear(width, 4 * width),
        *_linear(4 * width, width),
    ]
    return [50257 * width, 1024 * width, *(12 * layer), *norm]


MODELS: dict[str, Callable[[], List]] = {
    "ResNet-50": resnet50,
    "BERT-base": bert_base,
    "BERT-large": bert_large,
    "GPT-2": gpt2,
    "VGG16": vgg16,
}
