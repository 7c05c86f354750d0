# SPDX-License-Identifier: Apache-2.0
"""Sparse gradients of a DistributedOptimizer, against one process with the batches of all ranks."""

from typing import Any

from ready_ranks import run_ready

SETUP = """
    import itertools, torch, hora.torch as hvd
    from torch.nn import functional
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    def same_everywhere(tensor):
        everybodys = hvd.allgather(tensor.detach().unsqueeze(0))
        return all(torch.equal(everybodys[0], other) for other in everybodys)
"""


def test_rows_of_all_ranks_are_added_up_whichever_rows_each_rank_has():
    run_ready(
        3,
        SETUP
        + """
    # which words each rank looks up, step by step: the same, others, several times, none, and not at all
    steps = [[[1, 2], [3], [1, 1, 5]], [[0], None, [0]], [None, None, None], [[], [2, 2], []], [[4], [4], [4]]]
    kinds = itertools.product((hvd.Average, hvd.Sum), (False, True), (1.0, 4.0), (hvd.Compression.none, hvd.Compression.bf16), (None, 1))
    for op, as_dense, predivide, compression, groups in kinds:
        if predivide != 1.0 and op != hvd.Average:
            continue
        torch.manual_seed(0)
        table = torch.nn.Embedding(6, 2, sparse=True).double()
        table.weight.data = torch.arange(12, dtype=torch.float64).reshape(6, 2)
        last = torch.nn.Linear(2, 1).double()
        reference = table.weight.detach().clone().requires_grad_()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([*table.parameters(), *last.parameters()], 0.25), op=op, sparse_as_dense=as_dense,
                                             gradient_predivide_factor=predivide, compression=compression, groups=groups)
        single = torch.optim.SGD([reference], 0.25)
        for step, everybodys in enumerate(steps):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            single.zero_grad()
            words = everybodys[rank]
            if words is not None:
                table(torch.tensor(words, dtype=torch.int64)).sum().backward()
            share = size if op == hvd.Average else 1
            for other in everybodys:
                if other is not None:
                    (functional.embedding(torch.tensor(other, dtype=torch.int64), reference).sum() / share).backward()
            optimizer.step()
            single.step()
            if everybodys == [None] * 3:
                assert table.weight.grad is None
            else:
                assert table.weight.grad.layout == torch.sparse_coo, (step, as_dense)
            tolerance = 1e-12 if compression is hvd.Compression.none else 4e-3
            assert torch.allclose(table.weight, reference, rtol=0, atol=tolerance), (op, as_dense, predivide, step)
            assert same_everywhere(table.weight)
            assert last.weight.grad is None
    """,
    )


def test_gradients_that_are_sparse_on_some_ranks_and_dense_on_others_are_reduced_alike(
    overlap: dict[str, Any],
):
    run_ready(
        3,
        SETUP
        + """
    def run(first, later, expected):
        weight = torch.nn.Parameter(torch.zeros(4, 2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], 1.0), [("w", weight)], op=hvd.Sum)
        for kinds in (first, later, later):
            optimizer.zero_grad()
            kind = kinds[rank]
            if kind == "sparse":
                functional.embedding(torch.tensor([rank]), weight, sparse=True).sum().backward()
            elif kind == "dense":
                functional.embedding(torch.tensor([rank]), weight).sum().backward()
            optimizer.step()
            want = torch.zeros(4, 2)
            for other in range(3):
                want[other] += kinds[other] is not None
            got = weight.grad.to_dense()
            assert torch.equal(got, want), (kinds, got)
            assert weight.grad.layout == expected, kinds
    run(["sparse", "dense", None], ["sparse", None, "sparse"], torch.strided)
    run(["sparse", None, None], ["sparse", "dense", "sparse"], torch.sparse_coo)
    run([None, None, "sparse"], [None, "dense", "dense"], torch.sparse_coo)
    run([None, None, "dense"], ["sparse", "sparse", None], torch.strided)
    """,
        **overlap,
    )


def test_sparse_gradients_accumulate_over_passes_and_equal_one_process(overlap: dict[str, Any]):
    run_ready(
        2,
        SETUP
        + """
    for mode in ("no_sync", "passes", "twice", "partial"):
        torch.manual_seed(1)
        net = torch.nn.Embedding(10, 3, sparse=True).double()
        whole = torch.nn.Embedding.from_pretrained(net.weight.detach().clone(), freeze=False)
        optimizer = hvd.DistributedOptimizer(torch.optim.Adagrad(net.parameters(), 0.1), net.named_parameters(), op=hvd.Sum,
                                             backward_passes_per_step={"passes": 2, "partial": 3}.get(mode, 1))
        single = torch.optim.Adagrad(whole.parameters(), 0.1)
        generator = torch.Generator().manual_seed(5)
        for step in range(4):
            optimizer.zero_grad()
            single.zero_grad()
            for part in range(2):
                words = torch.randint(0, 10, (2, 4), generator=generator)
                loss = (net(words[rank]) ** 2).sum()
                if mode == "no_sync" and part == 0:
                    with optimizer.no_sync():
                        loss.backward()
                else:
                    loss.backward()
                (whole(words) ** 2).sum().backward()
            optimizer.step()
            single.step()
            assert torch.allclose(net.weight, whole.weight, rtol=1e-12), (mode, step)
            assert same_everywhere(net.weight)
    """,
        **overlap,
    )


def test_sparse_adam_trains_as_in_one_process_and_a_grad_scaler_skips_alike():
    run_ready(
        2,
        SETUP
        + """
    torch.manual_seed(1)
    net = torch.nn.Embedding(10, 3, sparse=True)
    reference = torch.nn.Embedding.from_pretrained(net.weight.detach().clone(), freeze=False, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(net.parameters(), 0.1), net.named_parameters(), op=hvd.Sum)
    single = torch.optim.SparseAdam(reference.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    steps = 0
    for step in range(6):
        optimizer.zero_grad()
        single.zero_grad()
        bad = step == 2
        factor = float("inf") if bad and rank == 1 else 1.0
        scaler.scale((net(torch.tensor([step, rank])) * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        if not bad:
            reference(torch.tensor([step, 0, step, 1])).sum().backward()
            single.step()
        assert torch.allclose(net.weight, reference.weight, atol=1e-6), step
        assert same_everywhere(net.weight)
    assert scaler.get_scale() == 128.0
    """,
    )
