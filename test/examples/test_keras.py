# SPDX-License-Identifier: Apache-2.0
"""hora.keras on its three backends, hora.tensorflow, the scripts of Horovod for both, and their examples."""

import importlib.util
import pathlib
import re
import sys
import textwrap

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from listed_output import check_output  # noqa: E402
from ranks import ROOT, hrun, run_python  # noqa: E402

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("keras") is None, reason="needs keras: ./dev test frameworks"
    ),
]

BACKENDS = ["tensorflow", "jax", "torch"]
LONGEST = 120.0


def environment(backend: str = "tensorflow") -> dict[str, str]:
    return {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}


def printed(program: str, *arguments: str, ranks: int = 2, backend: str = "tensorflow") -> list[list[str]]:
    """The lines of each rank."""
    return run_python(ranks, program, *arguments, seconds=LONGEST, environment=environment(backend))


def of_script(words: list[str], folder: pathlib.Path, program: str, backend: str = "tensorflow") -> str:
    """The output of a script under hrun, of two ranks."""
    script = folder / "train.py"
    script.write_text(textwrap.dedent(program))
    result = hrun(
        "-np", "2", *words, sys.executable, str(script), seconds=LONGEST, environment=environment(backend)
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


# --- training ---

TRAINING = """
    import sys, numpy as np, keras, hora.keras as hvd

    hvd.init()
    rank, size, batch = hvd.rank(), hvd.size(), 16
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(64, 8)).astype("float32")
    y = numbers.integers(0, 3, 64)
    own = np.arange(64).reshape(-1, size, batch // size)[:, rank].ravel()  # a part of each batch

    def fit(model, epochs, *callbacks):
        return model.fit(
            x[own], y[own], batch_size=batch // size, epochs=epochs, shuffle=False, verbose=0,
            callbacks=[
                hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                hvd.callbacks.MetricAverageCallback(),
                *callbacks,
            ],
        ).history["loss"]

    def compiled(optimizer):
        keras.utils.set_random_seed(1 + rank)  # each rank begins elsewhere
        model = keras.Sequential(
            [keras.layers.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss=loss, metrics=["accuracy"])
        return model

    def check_equal(model):
        variables = [*model.weights, *model.optimizer.variables]
        bits = [keras.ops.convert_to_numpy(each).tobytes() for each in variables]
        assert hvd.allgather_object(bits) == [bits] * size
"""


def losses(lines: list[str]) -> list[float]:
    return [float(number) for line in lines if line.startswith("losses") for number in line.split()[1:]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_ranks_train_as_one_with_the_whole_batch_does(backend: str, tmp_path: pathlib.Path):
    """Also with a LossScaleOptimizer, and from a saved model, which is one of plain Keras. Sums over parts
    of a batch round differently. Afterwards two ranks reduce arrays of the backend."""
    program = f"""{TRAINING}
    for make in (
        lambda: keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=0.5),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
    ):
        optimizer = make()
        kind = type(optimizer)
        assert hvd.DistributedOptimizer(optimizer) is optimizer and isinstance(optimizer, kind)
        model = compiled(optimizer)
        print("losses", *fit(model, 2))
        check_equal(model)
        path = f"{{sys.argv[1]}}/of {{rank}} of {{size}}.keras"
        model.save(path)
        plain = keras.models.load_model(path)
        assert type(plain.optimizer) is kind
        loaded = hvd.load_model(path)
        assert type(loaded.optimizer) is not kind and int(loaded.optimizer.iterations) == 8
        print("losses", *fit(loaded, 1))
        check_equal(loaded)
    """
    arrays = """
    mine = keras.ops.full((2, 1), 1.0 + rank)
    assert hvd.allreduce(mine).tolist() == [[1.5], [1.5]] and hvd.allreduce(rank, average=False) == 1
    assert hvd.allgather(mine).tolist() == [[1], [1], [2], [2]] and hvd.broadcast(mine, 1).tolist() == [[2], [2]]
    metrics = {"x": keras.ops.convert_to_tensor(1.0 * rank), "y": keras.Variable(2.0)}
    assert hvd.average_metrics(metrics) == {"x": 0.5, "y": 2}
    """
    one, (first, second) = (
        printed(text, str(tmp_path), ranks=ranks, backend=backend)
        for ranks, text in ((1, program), (2, program + arrays))
    )
    assert losses(first) == losses(second) == pytest.approx(losses(one[0]), rel=2e-6)
    assert len(losses(first)) == 6


CLASSICAL = """
    import numpy as np
    import keras
    MODULE

    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    images = np.random.rand(256, 28, 28, 1).astype("float32")
    labels = (images.mean((1, 2, 3)) > 0.5).astype("int64")
    model = keras.Sequential([
        keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Dropout(0.25),
        keras.layers.Flatten(),
        keras.layers.Dense(2, activation="softmax"),
    ])
    scaled = 0.001 * hvd.size()
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.Adam(scaled), backward_passes_per_step=1, average_aggregated_gradients=True,
        compression=hvd.Compression.fp16,
    )
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(), optimizer=optimizer, metrics=["accuracy"])
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled, warmup_epochs=2, verbose=hvd.rank() == 0),
        hvd.callbacks.LearningRateScheduleCallback(initial_lr=scaled, multiplier=0.1, start_epoch=3),
    ]
    history = model.fit(images, labels, batch_size=32, epochs=4, callbacks=callbacks, verbose=0).history
    print("lr", *(f"{rate:.6f}" for rate in history["lr"]))
    weights = np.concatenate([each.ravel() for each in model.get_weights()])
    print("equal", bool((hvd.allgather(weights).reshape(2, -1) == weights).all()))
"""


@pytest.mark.parametrize(
    ("module", "backend"), [("horovod.keras", "torch"), ("horovod.tensorflow.keras", "tensorflow")]
)
def test_a_script_for_horovod_keras_runs_unchanged(module: str, backend: str, tmp_path: pathlib.Path):
    program = CLASSICAL.replace("MODULE", f"import {module} as hvd")
    text = of_script(["--horovod"], tmp_path, program, backend)
    assert text.count("] equal True") == 2
    assert text.count("] lr 0.001500 0.002000 0.002000 0.000200") == 2
    assert text.count("Epoch 2: the learning rate has grown to 0.002.") == 1


def test_a_script_for_horovod_tensorflow_runs_unchanged(tmp_path: pathlib.Path):
    text = of_script(
        ["--horovod"],
        tmp_path,
        """
        import tensorflow as tf
        import horovod.tensorflow as hvd
        from horovod.tensorflow.keras.callbacks import MetricAverageCallback

        hvd.init()
        tf.random.set_seed(hvd.rank())
        model = tf.keras.Sequential([tf.keras.layers.Embedding(50, 4), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
        loss = tf.losses.MeanSquaredError()
        optimizer = tf.optimizers.Adam(0.01 * hvd.size())
        data = tf.data.Dataset.from_tensors((tf.random.uniform([64, 3], 0, 50, tf.int64), tf.random.normal([64, 1])))

        @tf.function
        def training_step(words, targets, first_batch):
            with tf.GradientTape() as tape:
                value = loss(targets, model(words, training=True))
            tape = hvd.DistributedGradientTape(tape)
            gradients = tape.gradient(value, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            if first_batch:
                hvd.broadcast_variables(model.variables, root_rank=0)
                hvd.broadcast_variables(optimizer.variables, root_rank=0)
            return value

        for number, (words, targets) in enumerate(data.repeat().take(20)):
            value = training_step(words, targets, number == 0)
        for each in model.variables:
            everywhere = hvd.allgather(tf.reshape(each, [1, -1]))
            tf.debugging.assert_equal(everywhere[0], everywhere[1])
        print("trained", float(value) < 1.5)
        """,
    )
    assert text.count("] trained True") == 2


# --- hora.tensorflow ---

WITH_TENSORFLOW = """
    import numpy as np, tensorflow as tf, hora.tensorflow as hvd

    tf.get_logger().setLevel("ERROR")

    def both(function):
        "Eagerly, and as a graph."
        return function, tf.function(function)
"""


def test_operations_of_tensorflow_and_their_gradients():
    printed(
        f"""{WITH_TENSORFLOW}
    hvd.init()
    rank = hvd.rank()
    other = 1 - rank

    def check(function, value, expected, of_gradient, shape=None):
        "The loss is the sum of the result, times rank + 1."
        for each in both(function):
            x = tf.Variable(value)
            with tf.GradientTape() as tape:
                result = each(x)
                loss = tf.reduce_sum(result * (rank + 1))
            assert result.dtype == x.dtype and np.array_equal(result, expected), (result, expected)
            found = tape.gradient(loss, x)
            assert np.array_equal(found, of_gradient), (found, of_gradient)

    mine = tf.fill([2, 3], rank + 1.0)
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
        x = tf.cast(mine, dtype)
        check(lambda x: hvd.allreduce(x, op=hvd.Sum), x, tf.fill([2, 3], 3.0), tf.fill([2, 3], 3.0))
    for dtype in (tf.uint8, tf.int32, tf.int64, tf.complex64):
        for each in both(lambda x: hvd.allreduce(x, op=hvd.Sum)):
            result = each(tf.cast(mine, dtype))
            assert result.dtype == dtype and np.array_equal(result, np.full([2, 3], 3))
    check(hvd.allreduce, 1.0 * rank, 0.5, 1.5)
    check(lambda x: hvd.allreduce(x, prescale_factor=2.0, compression=hvd.Compression.fp16), mine, mine * 0 + 3, mine * 0 + 3)
    check(lambda x: hvd.grouped_allreduce([x, tf.ones(1)])[0], mine, mine * 0 + 1.5, mine * 0 + 1.5)
    check(lambda x: hvd.allgather(x), tf.fill([rank + 1, 2], 1.0 * rank), [[0, 0], [1, 1], [1, 1]], tf.fill([rank + 1, 2], 3.0))
    check(lambda x: hvd.broadcast(x, 1), mine, mine * 0 + 2, mine * 0 + 3 * rank)
    check(lambda x: hvd.reducescatter(x, op=hvd.Sum), tf.ones([3, 1]), tf.fill([2 - rank, 1], 2.0), [[1], [1], [2]])
    check(lambda x: hvd.alltoall(x), [[1.0 + rank], [3.0 + rank]], [[1.0 + 2 * rank], [2.0 + 2 * rank]], [[1], [2]])
    check(lambda x: hvd.alltoall(x, splits=[1, 2])[0], tf.ones([4, 1]), tf.ones([2 + 2 * rank, 1]), [[1], [2], [2], [0]])
    received = hvd.alltoall(tf.ones([3, 1]), splits=[1, 2])[1]
    assert received.dtype == tf.int32 and received.numpy().tolist() == [1 + rank] * 2

    traced = tf.function(lambda x: hvd.allreduce(x)).get_concrete_function(tf.TensorSpec([None, 3]))
    assert traced.outputs[0].shape.as_list() == [None, 3]
    gathered = tf.function(lambda x: hvd.allgather(x)).get_concrete_function(tf.TensorSpec([2, 3]))
    assert gathered.outputs[0].shape.as_list() == [None, 3]

    class Halved:
        compress = staticmethod(lambda tensor: (tensor / 2, None))
        decompress = staticmethod(lambda tensor, context: tensor * 2)

    slices = tf.IndexedSlices(tf.ones([rank + 1, 2]), tf.range(rank + 1), tf.constant([4, 2]))
    for each in both(lambda: hvd.grouped_allreduce([slices, mine], compression=Halved)):
        sparse, dense = each()
        assert np.array_equal(sparse.values, np.full([3, 2], 0.5)) and sparse.indices.numpy().tolist() == [0, 0, 1]
        assert np.array_equal(dense, np.full([2, 3], 1.5))

    table, factor, unused = tf.Variable(tf.ones([4, 2])), tf.Variable([1.0]), tf.Variable(1.0)
    def step(**options):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [rank, 2]) * factor) * (rank + 1)
        return hvd.DistributedGradientTape(tape, **options).gradient(loss, {{"a": table, "b": factor, "c": unused}})
    for options in ({{}}, {{"sparse_as_dense": True}}, {{"op": hvd.Sum}}, {{"gradient_predivide_factor": 2.0}}):
        times = 2 if "op" in options else 1
        for each in both(lambda: step(**options)):
            found = each()
            assert found["c"] is None and isinstance(found["a"], tf.Tensor) == ("sparse_as_dense" in options)
            assert np.array_equal(tf.convert_to_tensor(found["a"]), np.array([[0.5] * 2, [1] * 2, [1.5] * 2, [0] * 2]) * times)
            assert found["b"].numpy() == 6 * times

    wide = tf.Variable(mine)
    for each in both(lambda: hvd.allgather(wide)), both(lambda: hvd.broadcast(wide, 0)):  # their gradients are rows
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(each[0](), [0, 1]))
        assert np.array_equal(tf.convert_to_tensor(tape.gradient(loss, wide)), mine * 0 + (0 if rank else 2))

    many = [tf.Variable(tf.fill([1000], rank + 1.0)) for _ in range(24)]
    function = tf.function(lambda: [hvd.allreduce(each * (i + 1.0), op=hvd.Sum) for i, each in enumerate(many)])
    for _ in range(5):  # the gradients of a function, which TensorFlow runs in any order
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(each * each) for each in function()])
        for i, found in enumerate(tape.gradient(loss, many)):
            assert np.array_equal(found, np.full(1000, 12.0 * (i + 1) ** 2)), (i, found)

    for broadcast in both(lambda: hvd.broadcast_variables(variables, root_rank=1)):
        variables = [tf.Variable([1.0 * rank]), tf.Variable(rank + 5), tf.Variable(tf.cast(rank, tf.bfloat16))]
        broadcast()
        assert [np.asarray(each.numpy(), float).item() for each in variables] == [1, 6, 1]
    assert hvd.average_metrics({{"loss": tf.constant(1.0 * rank), "x": tf.Variable(2)}}) == {{"loss": 0.5, "x": 2}}
    """
    )


OF_TENSORFLOW = [  # what is wrong, and a part of the text; with tf.function, too
    ("hvd.allreduce(tf.ones(2), op=77)", "op=77 is no reduction"),
    ("hvd.allreduce(tf.constant('a'))", "tensors of string cannot be sent"),
    ("hvd.allreduce(tf.ones(2), compression=3)", "compression=3 is none of"),
    ("hvd.allreduce(slices, op=hvd.Max)", "IndexedSlices are reduced by op=Average or op=Sum"),
    ("hvd.allreduce(tf.constant([True]))", "bool"),
    ("hvd.grouped_allreduce([])", "a group needs one array or tensor at least"),
    ("hvd.grouped_allreduce(tf.ones(2))", "expected a list of arrays or tensors"),
    ("hvd.allgather(tf.constant(1.0))", "has no first dimension"),
    ("hvd.broadcast(tf.ones(2), 7)", "there is no root rank 7: ranks are 0 to 1"),
    ("hvd.broadcast_variables([tf.Variable(1.0)] if eager else [variable], 7)", "there is no root rank 7"),
    ("hvd.alltoall(tf.ones(3))", "evenly"),
    ("hvd.reducescatter(tf.ones(2), op=hvd.Adasum)", "reducescatter does not take op=Adasum"),
    ("hvd.DistributedGradientTape(3)", "expected a tf.GradientTape, not int"),
    (
        "hvd.DistributedGradientTape(hvd.DistributedGradientTape(tape))",
        "already is a DistributedGradientTape",
    ),
    ("hvd.DistributedGradientTape(tape, op=hvd.Max)", "gradients are reduced by op=Average"),
    ("hvd.DistributedGradientTape(tape, process_set=[0])", "process_set must be a ProcessSet"),
    ("gradient_of(lambda x: hvd.allreduce(x, op=hvd.Max))", "op=4 has no gradient"),
    ("hvd.allreduce(tf.ones(2 + hvd.rank()), name='x')", "float32[2] on rank 0, float32[3] on rank 1"),
]


def test_wrong_calls_of_tensorflow_are_errors_with_a_sentence_and_the_job_goes_on():
    lines = printed(
        f"""{WITH_TENSORFLOW}
    for each in both(lambda: hvd.allreduce(tf.ones(2))):
        try:
            each()
            raise AssertionError
        except hvd.HoraNotInitializedError as error:
            assert "call init() first" in str(error)
    hvd.init()
    slices = tf.IndexedSlices(tf.ones([1, 2]), [0], tf.constant([4, 2]))
    variable = tf.Variable(1.0)

    def gradient_of(function):
        x = tf.ones(2)
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        return tape.gradient(result, x)

    for wrong, text in {OF_TENSORFLOW!r}:
        for eager in (True, False):
            with tf.GradientTape() as tape:
                pass
            def call():
                return eval(wrong)
            try:
                (call if eager else tf.function(call))()
                print("no error:", wrong)
            except (hvd.HoraError, tf.errors.OpError) as error:
                if text not in str(error) or eager and not isinstance(error, hvd.HoraError):
                    print(wrong, type(error), error)
            assert hvd.allreduce(1.0 * hvd.rank(), name="afterwards").numpy() == 0.5
    print("done")
    """
    )
    assert lines == [["done"]] * 2


def test_xla_is_switched_off_by_the_callback_and_otherwise_an_error_says_how():
    lines = printed(
        f"""{TRAINING}
    import tensorflow as tf, hora.tensorflow

    def with_xla():
        model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
        model.jit_compile = True  # Keras's default on a GPU
        return model

    for wrong in (
        tf.function(lambda: hora.tensorflow.allreduce(tf.ones(2)), jit_compile=True),
        lambda: with_xla().fit(x, y, verbose=0),
    ):
        try:
            wrong()
        except tf.errors.InvalidArgumentError as error:
            assert "Hora_cannot_run_inside_XLA.set_jit_compile_False" in str(error), error
        else:
            raise AssertionError
    model = with_xla()
    fit(model, 1)
    assert not model.jit_compile
    check_equal(model)
    print("done")
    """
    )
    assert lines == [["done"]] * 2


# --- hora.keras ---

OF_KERAS = [  # what is wrong, and a part of the text
    ("hvd.DistributedOptimizer('sgd')", "expected an optimizer, such as keras.optimizers.SGD(0.1), not str"),
    ("hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd()))", "already is a DistributedOptimizer"),
    ("hvd.DistributedOptimizer(sgd(), op=hvd.Max)", "gradients are reduced by op=Average"),
    ("hvd.DistributedOptimizer(sgd(), compression='fp16')", "compression='fp16' is none of"),
    ("hvd.DistributedOptimizer(sgd(), backward_passes_per_step=2)", "give gradient_accumulation_steps="),
    ("hvd.DistributedOptimizer(sgd(), process_set=hvd.ProcessSet([0]))", "has not been registered"),
    (
        "keras.optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(sgd()))",
        "write DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))",
    ),
    ("hvd.broadcast_global_variables(0)", "write broadcast_global_variables(0, model)"),
    ("hvd.broadcast_global_variables(0, keras.Sequential([keras.layers.Dense(1)]))", "has no variables yet"),
    ("hvd.broadcast_global_variables(7, compiled(sgd()))", "there is no root rank 7"),
    ("hvd.callbacks.LearningRateWarmupCallback('0.1')", "initial_lr must be a number"),
    (
        "hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=0)",
        "warmup_epochs must be positive, not 0",
    ),
    ("unknown_steps()", "LearningRateWarmupCallback: Keras does not know how many batches an epoch has"),
    ("hvd.allreduce(1.0, op=77)", "op=77 is no reduction"),
]


@pytest.mark.parametrize("backend", BACKENDS)
def test_copies_of_an_optimizer_reduce_gradients_and_a_loss_scale_around_one_is_refused(backend: str):
    lines = printed(
        f"""{TRAINING}
    import copy, pickle, warnings
    sgd = lambda: hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    for make in (copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
        optimizer = make(sgd())
        weight = keras.Variable([0.0])
        gradient = keras.ops.convert_to_tensor([float(rank)])
        optimizer.apply([gradient], [weight])
        np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), [-0.05], rtol=1e-6)
    plain = type(sgd()).from_config(sgd().get_config())
    assert np.isclose(float(plain.learning_rate), 0.1) and not hasattr(plain, "_hora_reducer")
    try:
        keras.optimizers.LossScaleOptimizer(sgd())
        print("no error")
    except hvd.HoraUsageError as error:
        print(error)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit(compiled(keras.optimizers.SGD(0.1)), 1, hvd.callbacks.BroadcastGlobalVariablesCallback(0))
    print(*[each.message for each in told if "DistributedOptimizer" in str(each.message)])
    """,
        backend=backend,
    )
    for [refused, warned] in lines:
        assert "write DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))" in refused
        assert "is no DistributedOptimizer, so each rank trains alone" in warned


def test_wrong_calls_of_keras_are_errors_with_a_sentence():
    lines = printed(
        f"""{TRAINING.replace("hvd.init()", "")}
    sgd = lambda: keras.optimizers.SGD(0.1)

    def unknown_steps():
        def batches():
            yield x[:4], y[:4]
        compiled(sgd()).fit(batches(), verbose=0, callbacks=[hvd.callbacks.LearningRateWarmupCallback(0.1)])

    for wrong, text in {OF_KERAS!r}:
        try:
            eval(wrong)
            print("no error:", wrong)
        except hvd.HoraArgumentError as error:
            if text not in str(error):
                print(wrong, error)
    print("done")
    """.replace("    rank, size", "    import hora; hora.init()\n    rank, size"),
        backend="torch",
    )
    assert lines == [["done"]] * 2


RATES = [  # a callback for an initial rate of 1 and 4 steps, and the rates of 3 epochs of 4 steps
    (
        "LearningRateWarmupCallback(1.0, warmup_epochs=2)",
        [0.5625, 0.625, 0.6875, 0.75, 0.8125, 0.875, 0.9375, 1, 1, 1, 1, 1],
    ),
    ("LearningRateScheduleCallback(1.0, 0.5, start_epoch=1, end_epoch=2)", [2] * 4 + [0.5] * 8),
    ("LearningRateScheduleCallback(1.0, lambda epoch: 1 / (1 + epoch))", [1] * 4 + [1 / 2] * 4 + [1 / 3] * 4),
    (
        "LearningRateScheduleCallback(1.0, lambda epoch: epoch, staircase=False)",
        [step / 4 for step in range(12)],
    ),
    (
        "LearningRateScheduleCallback(1.0, lambda epoch: epoch, staircase=False, steps_per_epoch=8)",
        [epoch + step / 8 for epoch in range(3) for step in range(4)],
    ),
]


def test_callbacks_change_the_learning_rate_and_the_momentum_with_it():
    """The velocity of SGD is that of a training which has the rate outside of it. On PyTorch a variable that
    one rank leaves unused counts as zeros."""
    printed(
        f"""{TRAINING}
    class Seen(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.rates = []
        def on_train_batch_end(self, batch, logs=None):
            self.rates.append(float(self.model.optimizer.learning_rate))

    for text, expected in {RATES!r}:
        seen, callback = Seen(), eval(f"hvd.callbacks.{{text}}")
        model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(2.0)))
        history = model.fit(
            x[own], y[own], batch_size=8, epochs=3, verbose=0, callbacks=[callback, seen]
        ).history
        assert np.allclose(seen.rates, expected), (text, seen.rates)
        assert np.allclose(history["lr"], expected[3::4])

    for corrected in (True, False):
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model = keras.Sequential([keras.layers.Input((1,)), layer])
        rates = [0.5, 0.25, 0.125]
        callback = hvd.callbacks.LearningRateScheduleCallback(0.5, lambda epoch: 0.5**epoch, momentum_correction=corrected)
        model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.5, momentum=0.5)), loss=lambda y, found: found)
        model.fit(np.ones((2, 1)), np.zeros((2, 1)), batch_size=2, epochs=3, verbose=0, callbacks=[callback])
        velocity = weight = 0.0  # the gradient is 1
        for rate in rates:
            velocity = 0.5 * velocity - (1 if corrected else rate)
            weight += velocity * (rate if corrected else 1)
        assert float(layer.kernel.value.item()) == weight

    import torch
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    variables = [keras.Variable([0.0]) for _ in range(3)]
    with torch.no_grad():
        optimizer.apply([torch.ones(1), None if rank else torch.ones(1), None], variables)
    assert [each.value.item() for each in variables] == [-1, -0.5, 0]
    """,
        backend="torch",
    )


# --- the examples, and the page ---


@pytest.mark.parametrize(
    ("name", "backend"), [*(("keras_digits", each) for each in BACKENDS), ("tensorflow_digits", "tensorflow")]
)
def test_an_example_prints_what_it_says(name: str, backend: str):
    path = ROOT / f"examples/frameworks/{name}.py"
    result = hrun("-np", "2", sys.executable, str(path), seconds=LONGEST, environment=environment(backend))
    assert result.returncode == 0, result.stdout + result.stderr
    check_output(path, re.sub(r"^\[0\] ", "", result.stdout, flags=re.MULTILINE))


def test_the_first_program_of_the_page_runs(tmp_path: pathlib.Path):
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/keras.md").read_text(), re.DOTALL)[:1]
    assert "loss" in of_script([], tmp_path, program)
