# SPDX-License-Identifier: Apache-2.0
"""average_metrics: what it averages, and what it refuses."""

import pytest
from ready_ranks import run_ready

BEGINNING = """
    import decimal, fractions
    import numpy as np, torch, hora.torch as hvd
    hvd.init()
    rank = hvd.rank()
"""

# An expression of each rank's metrics, and the averages of 3 ranks.
AVERAGED = [
    ("{'loss': 1.0 + rank, 'accuracy': 0.5}", {"loss": 2.0, "accuracy": 0.5}),
    ("{'a': rank, 'b': 3} if rank else {'b': 3, 'a': rank}", {"a": 1.0, "b": 3.0}),
    ("{'x': np.float32(rank)}", {"x": 1.0}),
    ("{'x': np.array(rank, np.float16)}", {"x": 1.0}),
    ("{'x': torch.tensor(rank, dtype=torch.bfloat16, requires_grad=False)}", {"x": 1.0}),
    ("{'x': torch.tensor(float(rank), requires_grad=True)}", {"x": 1.0}),
    ("{'x': rank if rank < 1 else torch.tensor(rank)}", {"x": 1.0}),
    ("{'x': 1 + rank * 2.0 ** -40}", {"x": 1 + 2.0**-40}),
    ("{'x': 2 ** 60 + rank * 2 ** 10}", {"x": 2.0**60 + 2**10}),
    ("{'x': rank == 2, 'y': fractions.Fraction(rank, 2)}", {"x": 1 / 3, "y": 0.5}),
    ("{'x': float('inf') if rank == 1 else 0.0}", {"x": float("inf")}),
    ("{'ä b\\n': rank}", {"ä b\n": 1.0}),
    ("{}", {}),
]

# An expression of rank 1's metrics, and a part of the error.
REFUSED = [
    ("[1.0]", "metrics must be a dict of names and numbers, not list"),
    ("{1: 1.0}", "the name of a metric must be a string, not 1"),
    ("{'loss': np.ones(1)}", "metric 'loss' has the shape (1,), and a metric is one number"),
    ("{'loss': torch.ones(2, 3)}", "metric 'loss' has the shape (2, 3), and a metric is one number"),
    ("{'loss': '1.0'}", "metric 'loss' is '1.0', and a metric is a real number"),
    ("{'loss': None}", "metric 'loss' is None, and a metric is a real number"),
    ("{'loss': 1j}", "metric 'loss' is 1j, and a metric is a real number"),
    ("{'loss': np.complex64(1)}", "metric 'loss' is (1+0j), and a metric is a real number"),
    ("{'loss': [1.0]}", "metric 'loss' is [1.0], and a metric is a real number"),
    ("{'loss': 10 ** 400}", "metric 'loss' is too large for float64"),
]


def test_averages_are_those_of_all_ranks_in_float64():
    cases = "".join(
        f"""
    averages = hvd.average_metrics({metrics})
    assert averages == {str(expected).replace("inf", "float('inf')")}, averages
    assert list(averages) == list({metrics}) and all(type(value) is float for value in averages.values())
"""
        for metrics, expected in AVERAGED
    )
    run_ready(3, BEGINNING + cases)


def test_the_bits_are_the_same_on_all_ranks_and_names_and_sets_count():
    lines = run_ready(
        3,
        BEGINNING
        + """
    print(hvd.average_metrics({"x": 0.1 * (rank + 1), "y": 1e300 / (rank + 3)}, name="epoch"))
    pair = hvd.add_process_set([0, 2])
    if rank != 1:
        print(hvd.average_metrics({"x": rank}, process_set=pair))
    else:
        try:
            hvd.average_metrics({"x": rank}, process_set=pair)
        except ValueError as error:
            assert "'average_metrics'" in str(error), error
            print({"x": 1.0})
    """,
    )
    assert lines[0] == lines[1] == lines[2]
    assert lines[0][1] == "{'x': 1.0}"


def test_ranks_that_have_joined_do_not_count():
    run_ready(
        3,
        BEGINNING
        + """
    if rank:
        assert hvd.average_metrics({"x": rank}) == {"x": 1.5}
    hvd.join()
    """,
    )


@pytest.mark.parametrize(
    ("of_rank_1", "said"),
    [
        ("{'loss': 1.0, 'lr': 1.0}", "only rank 0 has ['accuracy'], and only rank 1 has ['lr']"),
        ("{'loss': 1.0}", "only rank 0 has ['accuracy'], and only rank 1 has []"),
        ("{}", "only rank 0 has ['accuracy', 'loss'], and only rank 1 has []"),
    ],
)
def test_different_names_are_an_error_on_all_ranks_and_the_job_goes_on(of_rank_1: str, said: str):
    lines = run_ready(
        3,
        BEGINNING
        + f"""
    try:
        hvd.average_metrics({of_rank_1} if rank == 1 else {{"accuracy": 1.0, "loss": 1.0}}, name="epoch")
    except hvd.HoraInternalError as error:
        print(error)
    assert hvd.average_metrics({{"x": rank}}) == {{"x": 1.0}}
    """,
    )
    text = (
        f"'average_metrics.epoch': the ranks have different metrics: {said}; give the same names on all ranks"
    )
    assert lines == [[text]] * 3


def test_wrong_values_are_refused_with_the_name_of_the_metric_and_the_job_goes_on():
    cases = "".join(
        f"""
    if rank == 1:
        try:
            hvd.average_metrics({metrics})
            raise AssertionError({metrics!r})
        except ValueError as error:
            assert {text!r} in str(error), error
    assert hvd.average_metrics({{"x": rank}}) == {{"x": 0.5}}
"""
        for metrics, text in REFUSED
    )
    run_ready(2, BEGINNING + cases)


def test_before_init_it_says_so():
    run_ready(
        1,
        """
    import hora
    try:
        hora.average_metrics({"x": 1.0})
        raise AssertionError
    except hora.HoraNotInitializedError as error:
        assert "call init() first" in str(error)
    """,
    )
