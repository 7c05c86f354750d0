# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer in random programs, against the same steps computed from what every rank does."""

import pytest
from ready_ranks import run_ready


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3])
def test_whatever_parameters_ranks_use_in_whichever_pass_gradients_are_those_of_all(ranks: int):
    run_ready(
        ranks,
        """
        import random, sys, torch, hora.torch as hvd
        from torch.nn import functional
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        ROWS = 4

        def contribution(parameter, kind, word, factor):
            if kind == "dense":
                return (parameter * factor).sum()
            return (functional.embedding(torch.tensor([word, (word + 1) % ROWS]), parameter, sparse=kind == "sparse") * factor).sum()

        def by_hand(kind, word, factor):
            gradient = torch.zeros(ROWS, 2)
            if kind == "dense":
                return gradient + factor
            gradient[[word, (word + 1) % ROWS]] = factor
            return gradient

        def run(seed):
            rng = random.Random(seed)  # the same on all ranks: everybody knows what everybody does
            count = rng.randint(1, 6)
            parameters = [torch.nn.Parameter(torch.zeros(ROWS, 2)) for _ in range(count)]
            usual = [rng.choice(["dense", "dense", "rows", "sparse"]) for _ in range(count)]
            fickle = rng.random() < 0.3  # gradients change between sparse and dense
            op, predivide = rng.choice([(hvd.Sum, 1.0), (hvd.Average, 1.0), (hvd.Average, 2.0)])
            passes = rng.choice([1, 1, 2, 3])
            cut = rng.randint(0, count)
            optimizers = []
            for part in (parameters[:cut], parameters[cut:]):
                if part:
                    shuffled = rng.sample(part, len(part))
                    groups = rng.choice([None, 1, 2, [shuffled[: len(part) // 2], shuffled[len(part) // 2 :]]])
                    optimizers.append(hvd.DistributedOptimizer(torch.optim.SGD(part, 0.0), op=op, groups=groups, backward_passes_per_step=passes,
                                                               gradient_predivide_factor=predivide, sparse_as_dense=rng.random() < 0.3))
            joining = rng.random() < 0.4
            keep_size = rng.random() < 0.5  # averages divide by the number of all ranks
            for epoch in range(2 if joining else 1):
                batches = [rng.randint(0, 4) for _ in range(size)] if joining else [4] * size
                run_epoch(random.Random(rng.random()), batches, parameters, usual, fickle, optimizers, op, passes, keep_size)
                if joining:
                    assert batches[hvd.join(divide_by_initial_world_size=keep_size)] == max(batches)

        def run_epoch(rng, batches, parameters, usual, fickle, optimizers, op, passes, keep_size):
            count = len(parameters)
            for step in range(batches[rank]):
                present = [who for who in range(size) if step < batches[who]]
                share = 1 if op == hvd.Sum else size if keep_size else len(present)
                for each in optimizers:
                    each.zero_grad(set_to_none=rng.random() < 0.7)
                expected = [torch.zeros(ROWS, 2) for _ in parameters]
                touched = [False] * count
                several = rng.choice([passes, passes, 1, passes + 1, 2 * passes])
                for _ in range(several):
                    loss = torch.zeros((), requires_grad=True) * 1
                    for who in present:
                        used = [rng.random() < 0.5 for _ in range(count)]
                        if len(optimizers) > 1 or several > passes:  # then all ranks use something of each
                            used[0] = used[-1] = True
                        for number, parameter in enumerate(parameters):
                            if used[number]:
                                kind = rng.choice(["dense", "rows", "sparse"]) if fickle else usual[number]
                                word, factor = rng.randrange(ROWS), rng.choice([-2.0, 2.0, 4.0, 6.0]) * 3
                                expected[number] += by_hand(kind, word, factor) / share
                                touched[number] = True
                                if who == rank:
                                    loss = loss + contribution(parameter, kind, word, factor)
                    loss.backward()
                for each in rng.sample(optimizers, len(optimizers)):
                    each.step()
                for number, parameter in enumerate(parameters):
                    if parameter.grad is None:
                        assert not touched[number], (number, step)
                        continue
                    got = parameter.grad.to_dense()
                    assert torch.allclose(got, expected[number], rtol=1e-6), (number, step, got, expected[number])

        for seed in range(100):
            try:
                run(seed)
            except Exception:
                print(f"seed {seed}, {size} ranks", file=sys.stderr)
                raise
    """,
        seconds=120,
    )
