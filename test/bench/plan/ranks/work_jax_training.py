# SPDX-License-Identifier: Apache-2.0
"""Steps of training with JAX and optax: six layers of 1024, 25 MB of gradients. A step is one program, which
gets the memory of the parameters."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .jax_libraries import JaxLibrary
from .timing import Turn, time_calls

LAYERS, WIDTH, BATCH = 6, 1024, 16
RATE = 1e-2
CLOSE = 1e-5


def loss(layers: list[dict[str, jax.Array]], inputs: jax.Array, labels: jax.Array) -> jax.Array:
    for layer in layers:
        inputs = jax.nn.relu(inputs @ layer["weights"] + layer["biases"])
    return jnp.mean((inputs - labels) ** 2)


def work(library: JaxLibrary, case: str, iterations: int) -> dict[str, Any]:
    random = np.random.default_rng(1)
    scale = (2 / WIDTH) ** 0.5
    brought = [
        {
            "weights": random.normal(0, scale, (WIDTH, WIDTH)).astype(np.float32),
            "biases": np.zeros(WIDTH, np.float32),
        }
        for _ in range(LAYERS)
    ]
    batches = random.normal(size=(2, library.size, BATCH, WIDTH)).astype(np.float32)
    inputs, labels = map(library.own, batches[:, library.rank])
    optimizer = library.optimizer(optax.sgd(RATE))

    def step(layers: Any, inputs: jax.Array, labels: jax.Array) -> Any:
        gradients = jax.grad(loss)(layers, inputs, labels)
        updates, _ = optimizer.update(gradients, optimizer.init(layers), layers)
        return optax.apply_updates(layers, updates)

    program = library.compiled(step, 1, donate_argnums=0)
    trained = program(jax.tree.map(library.shared, brought), inputs, labels)
    wrong = _unlike(trained, _step_of_all(brought, *batches.reshape(2, -1, WIDTH)))

    def call() -> None:
        nonlocal trained
        trained = jax.block_until_ready(program(trained, inputs, labels))

    times = time_calls(library, Turn(lambda _: None, call, lambda _: 0), iterations)
    return {case: {**times, "wrong": wrong}}


def _step_of_all(layers: Any, inputs: np.ndarray, labels: np.ndarray) -> Any:
    """The parameters after the first step, with the batches of all ranks together."""
    gradients = jax.jit(jax.grad(loss))(layers, inputs, labels)
    return jax.tree.map(lambda one, slope: one - RATE * np.asarray(slope), layers, gradients)


def _unlike(trained: Any, expected: Any) -> int:
    """How many parameters are not as expected."""
    pairs = zip(jax.tree.leaves(trained), jax.tree.leaves(expected), strict=True)
    return sum(
        int((np.abs(np.asarray(one.addressable_data(0)) - other) > CLOSE).sum()) for one, other in pairs
    )
