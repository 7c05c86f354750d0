# SPDX-License-Identifier: Apache-2.0
"""The gradients of well-known networks, from the definitions of their layers: how many elements each has,
first layer first."""


def _convolution(out: int, into: int, size: int) -> list[int]:
    return [out * into * size * size]


def _norm(width: int) -> list[int]:
    return [width, width]


def _linear(out: int, into: int) -> list[int]:
    return [out * into, out]


def resnet50() -> list[int]:
    counts = _convolution(64, 3, 7) + _norm(64)
    into = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            counts += _convolution(width, into, 1) + _norm(width)
            counts += _convolution(width, width, 3) + _norm(width)
            counts += _convolution(4 * width, width, 1) + _norm(4 * width)
            if block == 0:
                counts += _convolution(4 * width, into, 1) + _norm(4 * width)
            into = 4 * width
    return counts + _linear(1000, 2048)


def vgg16() -> list[int]:
    counts = []
    into = 3
    for width, layers in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(layers):
            counts += [*_convolution(width, into, 3), width]
            into = width
    return counts + _linear(4096, 25088) + _linear(4096, 4096) + _linear(1000, 4096)


def _bert(width: int, layers: int) -> list[int]:
    counts = [30522 * width, 512 * width, 2 * width, *_norm(width)]
    for _ in range(layers):
        counts += 4 * _linear(width, width) + _norm(width)
        counts += _linear(4 * width, width) + _linear(width, 4 * width) + _norm(width)
    return counts + _linear(width, width)


def bert_base() -> list[int]:
    return _bert(768, 12)


def bert_large() -> list[int]:
    return _bert(1024, 24)


def gpt2() -> list[int]:
    counts = [50257 * 768, 1024 * 768]
    for _ in range(12):
        counts += (
            _norm(768)
            + _linear(3 * 768, 768)
            + _linear(768, 768)
            + _norm(768)
            + _linear(4 * 768, 768)
            + _linear(768, 4 * 768)
        )
    return counts + _norm(768)


MODELS = {
    "ResNet-50": resnet50,
    "VGG16": vgg16,
    "BERT-base": bert_base,
    "GPT-2": gpt2,
    "BERT-large": bert_large,
}
KNOWN = {
    "ResNet-50": (161, 25_557_032),
    "VGG16": (32, 138_357_544),
    "BERT-base": (199, 109_482_240),
    "GPT-2": (148, 124_439_808),
    "BERT-large": (391, 335_141_888),
}


def gradients(model: str) -> list[int]:
    """Checked against the published number of tensors and parameters."""
    counts = MODELS[model]()
    if (len(counts), sum(counts)) != KNOWN[model]:
        raise AssertionError(f"{model}: {len(counts)} tensors of {sum(counts)} elements, not {KNOWN[model]}")
    return counts
