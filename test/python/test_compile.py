# SPDX-License-Identifier: Apache-2.0
"""hora.torch under torch.compile: graphs end where ranks meet, without a warning, and results are the
same."""

import pytest
from ranks import run_python
from ready_ranks import run_ready


def test_a_program_that_does_not_compile_does_not_pay_for_the_compiler():
    run_python(1, "import sys, hora.torch as hvd; hvd.init(); assert 'torch._dynamo' not in sys.modules")


@pytest.mark.long
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_models_and_functions_that_are_compiled_give_what_they_give_uncompiled(backend: str):
    run_ready(
        2,
        """
        import copy, sys, warnings
        warnings.filterwarnings("error", "Dynamo does not know")
        import torch, hora.torch as hvd
        hvd.init()
        rank, backend = hvd.rank(), sys.argv[1]

        def together(x):
            y = hvd.allreduce(x * 2, op=hvd.Sum, name="a")
            handle = hvd.allreduce_async(y + 1, op=hvd.Sum, name="b")
            return hvd.synchronize(handle) * hvd.size()
        x = torch.arange(4.0) + rank
        assert torch.equal(torch.compile(together, backend=backend)(x), together(x))

        def loss_of(x):
            return (hvd.allreduce(x * 2, op=hvd.Sum) * (rank + 1)).sum()
        gradients = []
        for function in (loss_of, torch.compile(loss_of, backend=backend)):
            leaf = x.clone().requires_grad_()
            function(leaf).backward()
            gradients.append(leaf.grad)
        assert torch.equal(*gradients)

        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), hvd.SyncBatchNorm(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        batches = [torch.randn(6, 4) for _ in range(3)]
        def train(compiled):
            own = copy.deepcopy(net)
            model = torch.compile(own, backend=backend) if compiled else own
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.parameters(), 0.1), own.named_parameters())
            for batch in batches:
                optimizer.zero_grad()
                model(batch[rank::2]).square().sum().backward()
                optimizer.step()
            return [parameter.detach() for parameter in own.parameters()]
        for a, b in zip(train(False), train(True)):
            assert torch.equal(a, b)
    """,
        backend,
        seconds=300,
    )


@pytest.mark.long
def test_a_whole_step_that_is_compiled_gives_what_it_gives_uncompiled():
    run_ready(
        2,
        """
        import copy, torch, hora.torch as hvd
        hvd.init()
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2)
        batches = [torch.randn(6, 4) for _ in range(3)]
        def train(wrap):
            own = copy.deepcopy(net)
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.parameters(), 0.1), own.named_parameters())
            def step(batch):
                optimizer.zero_grad()
                own(batch).square().sum().backward()
                optimizer.step()
            step = wrap(step)
            for batch in batches:
                step(batch[hvd.rank() :: 2])
            return [parameter.detach() for parameter in own.parameters()]
        for a, b in zip(train(lambda step: step), train(lambda step: torch.compile(step, backend="aot_eager"))):
            assert torch.equal(a, b)
    """,
        seconds=300,
    )
