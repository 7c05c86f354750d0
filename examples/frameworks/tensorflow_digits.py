# SPDX-License-Identifier: Apache-2.0
"""A training loop of TensorFlow with hora.tensorflow: DistributedGradientTape within tf.function.

    hrun -np 2 python examples/frameworks/tensorflow_digits.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 2  loss 0...
    test accuracy 0...
    the parameters are equal on 2 ranks
"""

import pathlib

import hora.tensorflow as hvd
import numpy as np
import tensorflow as tf

hvd.init()
table = np.loadtxt(
    pathlib.Path(__file__).resolve().parents[1] / "data/digits.csv", delimiter=",", dtype=np.int64
)
pixels, labels = (table[:, :64] / 16).astype("float32"), table[:, 64]
own = slice(hvd.rank(), 1436, hvd.size())  # the rows of this rank; the last 361 are for the test
batches = tf.data.Dataset.from_tensor_slices((pixels[own], labels[own])).shuffle(1000).batch(16)

tf.random.set_seed(hvd.rank())
weights = [tf.Variable(tf.random.normal(shape, stddev=0.1)) for shape in ([64, 32], [32], [32, 10], [10])]
hvd.broadcast_variables(weights, root_rank=0)


def scores(x: tf.Tensor) -> tf.Tensor:
    hidden = tf.nn.relu(x @ weights[0] + weights[1])
    return hidden @ weights[2] + weights[3]


@tf.function
def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, scores(x)))
    tape = hvd.DistributedGradientTape(tape)
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        weight.assign_sub(0.5 * gradient)
    return loss


for epoch in range(6):
    own_loss = np.mean([step(x, y).numpy() for x, y in batches])
    average = hvd.average_metrics({"loss": own_loss})
    if hvd.rank() == 0:
        print(f"epoch {epoch}  loss {average['loss']:.6f}", flush=True)

accuracy = np.mean(tf.argmax(scores(pixels[1436:]), axis=1).numpy() == labels[1436:])
flat = tf.concat([tf.reshape(each, [-1]) for each in weights], axis=0)
equal = np.array_equal(hvd.broadcast(flat, root_rank=0), flat)
if all(hvd.allgather_object(equal)) and hvd.rank() == 0:
    print(f"test accuracy {accuracy:.3f}")
    print(f"the parameters are equal on {hvd.size()} ranks")
