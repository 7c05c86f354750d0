# SPDX-License-Identifier: Apache-2.0
"""hora.torch, against PyTorch alone."""

import pathlib
from typing import Any

import pytest
from ranks import hrun
from ready_ranks import ready_python, run_ready


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_operations_agree_with_torch(ranks: int):
    run_ready(
        ranks,
        """
        import torch, hora.torch as hvd
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
            x = torch.arange(20).reshape(4, 5).to(dtype) % 4 + rank
            total = sum(torch.arange(20).reshape(4, 5) % 4 + r for r in range(size)).to(dtype)
            assert torch.equal(hvd.allreduce(x, op=hvd.Sum), total), dtype
            assert torch.equal(hvd.broadcast(x, size - 1), torch.arange(20).reshape(4, 5).to(dtype) % 4 + size - 1)
            rows = torch.full((rank, 2), rank).to(dtype)
            assert torch.equal(hvd.allgather(rows), torch.cat([torch.full((r, 2), r).to(dtype) for r in range(size)]))
            y = x.clone()
            assert hvd.allreduce_(y, op=hvd.Max) is y and torch.equal(y, torch.arange(20).reshape(4, 5).to(dtype) % 4 + size - 1)
        assert torch.equal(hvd.allreduce(torch.tensor([rank == 0, False]), op=hvd.Sum), torch.tensor([True, False]))
        assert hvd.allreduce(torch.tensor(float(rank))).item() == (size - 1) / 2
    """,
    )


def test_gradients_flow_through_operations():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        x = torch.full((3,), float(hvd.rank()), requires_grad=True)
        (hvd.allreduce(x, op=hvd.Sum) * (hvd.rank() + 1)).sum().backward()
        assert torch.equal(x.grad, torch.full((3,), 3.0))
        x.grad = None
        (hvd.broadcast(x, 1) * (hvd.rank() + 1)).sum().backward()
        assert torch.equal(x.grad, torch.full((3,), 1.5 * hvd.rank()))
        y = torch.ones(hvd.rank() + 1, 2, requires_grad=True)
        (hvd.allgather(y) * torch.arange(3.0)[:, None]).sum().backward()
        assert torch.equal(y.grad, torch.arange(3.0)[:, None].expand(3, 2)[hvd.rank() : 2 * hvd.rank() + 1])
    """,
    )


def test_refusals_name_the_tensor_and_the_remedy():
    lines = run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        for tensor in (torch.zeros(2, dtype=torch.complex32), torch.eye(2).to_sparse_csr(), torch.zeros(2, device="meta")):
            try:
                hvd.allreduce(tensor, name="x")
            except ValueError as error:
                print(error)
        assert hvd.allreduce(torch.ones(1)).item() == 1
    """,
    )
    for rank in lines:
        assert [".to()" in rank[0], ".to_sparse_coo()" in rank[1], "no elements" in rank[2]] == [True] * 3
        assert all(line.startswith("'allreduce.x': ") for line in rank)


TRAIN = """
    import sys, torch, hora.torch as hvd
    from torch import nn
    hvd.init()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    whole = torch.randn(12, 8, dtype=torch.float64)
    target = torch.randint(0, 3, (12,))
    mine = slice(hvd.rank(), None, hvd.size())
"""


def test_accumulation_clipping_and_set_to_none_equal_one_process(overlap: dict[str, Any]):
    run_ready(
        2,
        TRAIN
        + """
    import copy
    for mode in ("plain", "no_sync", "passes", "twice", "clip", "zeros"):
        own, reference = copy.deepcopy(net), copy.deepcopy(net)
        passes = 2 if mode == "passes" else 1
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.parameters(), 0.1, momentum=0.9), own.named_parameters(),
                                             backward_passes_per_step=passes)
        single = torch.optim.SGD(reference.parameters(), 0.1, momentum=0.9)
        loss = lambda model, part: nn.functional.cross_entropy(model(whole[part]), target[part])
        for step in range(5):
            optimizer.zero_grad(set_to_none=mode != "zeros")
            single.zero_grad()
            if mode == "no_sync":
                with optimizer.no_sync():
                    loss(own, mine).backward()
                loss(reference, slice(None)).backward()
            if mode in ("passes", "twice"):
                loss(own, mine).backward()
                loss(reference, slice(None)).backward()
            loss(own, mine).backward()
            loss(reference, slice(None)).backward()
            if mode == "clip":
                optimizer.synchronize()
                optimizer.synchronize()
                nn.utils.clip_grad_norm_(own.parameters(), 0.1)
                nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
            optimizer.step()
            single.step()
            for a, b in zip(own.parameters(), reference.parameters()):
                assert torch.allclose(a, b, rtol=1e-12, atol=1e-14), (mode, step)
        assert isinstance(optimizer, torch.optim.SGD)
    """,
        **overlap,
    )


def test_a_reduced_gradient_that_was_added_to_and_cleared_does_not_come_back(overlap: dict[str, Any]):
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        weight = torch.nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], 1.0), [("weight", weight)])
        (weight * 5).sum().backward()
        with optimizer.no_sync():
            (weight * 7).sum().backward()
        optimizer.zero_grad()
        (weight * (hvd.rank() + 1)).sum().backward()
        assert weight.grad.tolist() == [1.5, 1.5], weight.grad
    """,
        **overlap,
    )


def test_unused_parameters_count_as_zeros_and_stay_without_gradient_if_nobody_used_them(
    overlap: dict[str, Any],
):
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        a, b, c = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b, c], 1.0), [("a", a), ("b", b), ("c", c)])
        for step in range(3):
            optimizer.zero_grad()
            (a.sum() + (b.sum() * 4 if hvd.rank() == 0 else 0)).backward()
            optimizer.step()
            assert torch.equal(a.grad, torch.ones(2))
            assert torch.equal(b.grad, torch.full((2,), 2.0))
            assert c.grad is None
    """,
        **overlap,
    )


def test_sum_and_several_optimizers_at_once():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        a, b = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
        first = hvd.DistributedOptimizer(torch.optim.SGD([a], 1.0), [("w", a)], op=hvd.Sum)
        second = hvd.DistributedOptimizer(torch.optim.Adam([b], 0.1), [("w", b)])
        (a.sum() + b.sum()).backward()
        a.sum().backward()
        first.step()
        second.step()
        assert torch.equal(a.grad, torch.full((3,), 4.0)), a.grad
        assert torch.equal(b.grad, torch.ones(3))
    """,
    )


def test_passes_of_one_step_are_reduced_each_for_itself_whichever_parameters_a_rank_uses(
    overlap: dict[str, Any],
):
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        for op, share in ((hvd.Average, 1.0), (hvd.Sum, 2.0)):
            a, b, c = (torch.nn.Parameter(torch.zeros(3)) for _ in range(3))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b, c], 1.0), [("a", a), ("b", b), ("c", c)], op=op)
            for step in range(3):
                optimizer.zero_grad()
                (a.sum() + (2 * b.sum() if hvd.rank() == 0 else 0)).backward()
                (4 * b.sum() + (6 * c.sum() if hvd.rank() == 1 else 0)).backward()
                optimizer.step()
                for gradient, expected in ((a.grad, 1), (b.grad, 5), (c.grad, 3)):
                    assert torch.equal(gradient, torch.full((3,), share * expected)), (op, step, gradient)
    """,
        **overlap,
    )


def test_a_grad_scaler_sees_reduced_gradients_and_skips_the_same_steps_on_all_ranks():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        w = torch.nn.Parameter(torch.zeros(1 << 18))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), [("w", w)])
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for step in range(6):
            optimizer.zero_grad()
            overflow = step % 2 == 1 and hvd.rank() == 1
            scaler.scale((w * (float("inf") if overflow else hvd.rank() + 1)).sum()).backward()
            if step >= 2:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_([w], 1e9)
            scaler.step(optimizer)
            scaler.update()
        assert torch.equal(w.data, torch.full_like(w.data, -1.5 * 3)), w
        assert scaler.get_scale() == 128.0
    """,
    )


def test_checkpointed_segments_and_grad_do_not_disturb_reductions(overlap: dict[str, Any]):
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        from torch.utils.checkpoint import checkpoint
        hvd.init()
        for reentrant, groups in ((False, None), (True, None), (False, 1), (True, 1)):
            torch.manual_seed(0)
            tied, last = torch.nn.Linear(3, 3).double(), torch.nn.Linear(3, 1).double()
            parameters = [*tied.parameters(), *last.parameters()]
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, 0.1), groups=groups)
            data = torch.randn(4, 3, dtype=torch.float64)
            mine = data[hvd.rank() :: 2].requires_grad_()
            def forward(x):
                return last(checkpoint(tied, checkpoint(tied, x, use_reentrant=reentrant), use_reentrant=reentrant)).mean()
            for step in range(3):
                optimizer.zero_grad()
                forward(mine).backward()
                expected = torch.autograd.grad(last(tied(tied(data))).mean(), parameters)
                for parameter, gradient in zip(parameters, expected):
                    assert torch.allclose(parameter.grad, gradient, rtol=1e-12), (reentrant, step)
                optimizer.step()
    """,
        **overlap,
    )


def test_gradients_of_ones_own_are_reduced_at_the_step(overlap: dict[str, Any]):
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        w = torch.nn.Parameter(torch.zeros(3))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), op=hvd.Sum)
        for step in range(1, 5):
            if step % 2:
                w.grad = torch.full((3,), float(step * (hvd.rank() + 1)))
            else:
                w.grad.fill_(step * (hvd.rank() + 1))
            optimizer.step()
            assert torch.equal(w.grad, torch.full((3,), 3.0 * step)), (step, w.grad)
        w.sum().backward()  # not cleared: added to what was reduced
        assert torch.equal(w.grad, torch.full((3,), 14.0)), w.grad
    """,
        **overlap,
    )


def test_a_rank_whose_backward_fails_may_go_on_with_the_next_batch(overlap: dict[str, Any]):
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        for groups in (None, 1):
            a, b = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], 1.0), groups=groups)
            for attempt in range(3):
                late = b * 2  # its gradient comes after that of a
                if hvd.rank() == 1:
                    def fail(gradient):
                        raise ArithmeticError("a bad batch")
                    late.register_hook(fail)
                try:
                    (late.sum() + a.sum()).backward()
                except ArithmeticError:
                    assert hvd.rank() == 1
                except hvd.HoraBackwardError:
                    assert hvd.rank() == 0
                else:
                    raise AssertionError
                optimizer.zero_grad()
                (a.sum() + b.sum() * (hvd.rank() + 1)).backward()
                optimizer.step()
                assert torch.equal(a.grad, torch.ones(2)) and torch.equal(b.grad, torch.full((2,), 1.5))
                optimizer.zero_grad()
    """,
        **overlap,
    )


def test_a_backward_that_fails_on_one_rank_fails_on_all_and_no_rank_steps(overlap: dict[str, Any]):
    lines = run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        a, b = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], 1.0), [("a", a), ("b", b)])
        for step in range(40):
            late = b * 2
            if hvd.rank() == 1 and step % 4 == 2:
                def fail(gradient):
                    raise ValueError("bad batch")
                late.register_hook(fail)
            try:
                (late.sum() * (hvd.rank() + 1) + a.sum()).backward()
                optimizer.step()
            except hvd.HoraBackwardError as error:
                assert hvd.rank() == 0 and "rank 1's backward() failed: ValueError: bad batch (" in str(error), error
                assert step % 4 == 2 and a.grad is None and b.grad is None
            except ValueError:
                assert hvd.rank() == 1
            else:
                assert step % 4 != 2
            optimizer.zero_grad()
        print(a.tolist(), b.tolist())
    """,
        **overlap,
    )
    assert lines == [["[-30.0, -30.0] [-90.0, -90.0]"]] * 2


def test_ctrl_c_in_a_step_lets_the_next_one_go_on(overlap: dict[str, Any]):
    lines = run_ready(
        2,
        """
        import os, signal, threading, torch, hora.torch as hvd
        signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background are started without it
        hvd.init()
        w = torch.nn.Parameter(torch.zeros(3))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), [("w", w)])
        if hvd.rank() == 0:
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                w.sum().backward()
            except KeyboardInterrupt:
                print("interrupted")
            hvd.barrier()
        else:
            hvd.barrier()  # rank 0 has been interrupted
            w.sum().backward()
        optimizer.step()
        print(w.tolist())
    """,
        **overlap,
    )
    assert lines == [["interrupted", "[-1.0, -1.0, -1.0]"], ["[-1.0, -1.0, -1.0]"]]


def test_a_newer_optimizer_takes_parameters_from_an_older_one():
    lines = run_ready(
        2,
        """
        import gc, torch, weakref, hora.torch as hvd
        hvd.init()
        w = torch.nn.Parameter(torch.zeros(3))
        old = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), [("w", w)])
        new = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), [("w", w)])
        w.sum().backward()
        new.step()
        assert torch.equal(w, torch.full((3,), -1.0))
        try:
            old.step()
        except ValueError as error:
            print(error)
        gone = weakref.ref(new._reducer)
        del old, new
        gc.collect()
        assert gone() is None
        w.grad = None
        (w.sum() * (hvd.rank() + 1)).backward()  # nobody reduces it any more
        assert torch.equal(w.grad, torch.full((3,), hvd.rank() + 1.0))
    """,
    )
    assert lines == [["'w' belongs to a DistributedOptimizer that was made later; use that one"]] * 2


def test_parameters_that_lie_differently_in_memory_are_an_error_on_all_ranks_and_the_job_goes_on(
    overlap: dict[str, Any],
):
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        torch.manual_seed(0)
        net = torch.nn.Conv2d(3, 2, 3)
        layout = torch.channels_last if hvd.rank() == 1 else torch.contiguous_format
        other = torch.nn.Conv2d(3, 2, 3).to(memory_format=layout)
        images = torch.rand(1, 3, 5, 5)
        for model in (other, net):
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0), model.named_parameters())
            try:
                model(images).sum().backward()
            except hvd.HoraInternalError as error:
                assert model is other and "memory_format" in str(error) and "strides (27, 1, 9, 3) on rank 1" in str(error), error
            else:
                assert model is net
    """,
        **overlap,
    )


def test_a_model_that_is_converted_after_wrapping_is_refused(overlap: dict[str, Any]):
    lines = run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        net = torch.nn.Linear(2, 1)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 1.0), net.named_parameters())
        net.double()
        try:
            net(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
        except ValueError as error:
            print(error)
    """,
        **overlap,
    )
    for rank in lines:
        assert "the gradient is torch.float64" in rank[0]
        assert "make that after converting the model" in rank[0]


def test_parameters_that_are_unfrozen_or_added_later_are_reduced_too():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        a, b, c = (torch.nn.Parameter(torch.zeros(3), requires_grad=frozen) for frozen in (True, False, True))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], 1.0), [("a", a), ("b", b)])
        for step in range(4):
            optimizer.zero_grad()
            if step == 1:
                b.requires_grad_()
            if step == 2:
                optimizer.add_param_group({"params": [c]})
            loss = (a + b + c).sum() * (hvd.rank() + 1)
            loss.backward()
            used = [a, *([b] if step >= 1 else []), *([c] if step >= 2 else [])]
            for parameter in used:
                assert torch.equal(parameter.grad, torch.full((3,), 1.5)), (step, parameter.grad)
            c.grad = c.grad if step >= 2 else None
            optimizer.step()
    """,
    )


def test_a_line_search_sees_the_loss_of_all_ranks():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        w = torch.nn.Parameter(torch.ones(3))
        optimizer = hvd.DistributedOptimizer(torch.optim.LBFGS([w], max_iter=8, line_search_fn="strong_wolfe"))
        target = torch.arange(3.0) * (1 + 10 * hvd.rank())
        def closure():
            optimizer.zero_grad()
            loss = ((w - target) ** 4).sum() + (w.exp() * (hvd.rank() + 1)).sum()
            loss.backward()
            return loss
        for _ in range(3):
            optimizer.step(closure)
        everybodys = hvd.allgather(w.detach().unsqueeze(0))
        assert torch.equal(everybodys[0], everybodys[1]), everybodys
    """,
    )


def test_schedulers_made_before_or_after_wrapping_do_not_complain():
    run_ready(
        1,
        """
        import warnings, torch, hora.torch as hvd
        warnings.simplefilter("error")
        hvd.init()
        for early in (True, False):
            w = torch.nn.Parameter(torch.ones(3))
            optimizer = torch.optim.SGD([w], 1.0)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if early else None
            optimizer = hvd.DistributedOptimizer(optimizer)
            scheduler = scheduler or torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            for _ in range(3):
                w.sum().backward()
                optimizer.step()
                scheduler.step()
            assert scheduler.get_last_lr() == [0.125]
    """,
    )


def test_mistakes_with_arguments_are_named():
    lines = run_ready(
        1,
        """
        import numpy, torch, hora.torch as hvd
        hvd.init()
        t, net = torch.ones(2), torch.nn.Linear(2, 1)
        sgd = lambda: torch.optim.SGD(net.parameters(), 1.0)
        for wrong in (lambda: hvd.allreduce(t, hvd.Sum), lambda: hvd.broadcast(t, None, name="b"), lambda: hvd.broadcast(t, 1, name="b"),
                      lambda: hvd.allreduce(t, compression="fp16"), lambda: hvd.allgather(numpy.ones(3), name="g"),
                      lambda: hvd.DistributedOptimizer(net),
                      lambda: hvd.DistributedOptimizer(sgd(), compression="fp16"), lambda: hvd.DistributedOptimizer(sgd(), backward_passes_per_step="2"),
                      lambda: hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd())), lambda: hvd.DistributedOptimizer(sgd(), [("bias", net.bias)]),
                      lambda: hvd.broadcast_parameters(sgd().state_dict(), 0), lambda: hvd.broadcast_parameters(None, 0),
                      lambda: hvd.broadcast_optimizer_state(net, 0)):
            try:
                wrong()
            except ValueError as error:
                print(error)
        assert torch.equal(hvd.allreduce(t), t)
    """,
    )
    expected = [
        "average=1 is neither True nor False",
        "'broadcast.b': root_rank must be the number of a rank, not None",
        "no root rank 1",
        "compression='fp16' is none of",
        "'allgather.g': expected a torch.Tensor, not ndarray",
        "expected an optimizer, such as torch.optim.SGD(model.parameters(), 0.1), not Linear",
        "compression='fp16' is none of",
        "backward_passes_per_step must be a number from 1 up, not '2'",
        "this optimizer already is a DistributedOptimizer",
        "1 parameters of the optimizer have no name, the first is parameter 0 of group 0 [1, 2]",
        "for an optimizer use broadcast_optimizer_state",
        "invalid params: expected a state_dict(), named_parameters(), or a list of tensors",
        "for a model use broadcast_parameters",
    ]
    assert len(lines[0]) == len(expected)
    for line, part in zip(lines[0], expected, strict=True):
        assert part in line


def test_models_and_optimizers_can_be_saved_and_copied():
    run_ready(
        2,
        """
        import copy, io, torch, hora.torch as hvd
        hvd.init()
        net = torch.nn.Linear(2, 1)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.5, momentum=0.9), net.named_parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        scheduler.step()
        for thing in (net, optimizer, {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}):
            file = io.BytesIO()
            torch.save(thing, file)
            file.seek(0)
            loaded = torch.load(file, weights_only=False)
            copied = copy.deepcopy(thing)
            assert type(loaded) is type(copied)
        assert type(copy.deepcopy(optimizer)) is torch.optim.SGD
        assert copy.deepcopy(optimizer).param_groups[0]["lr"] == 0.25
    """,
    )


def test_only_some_ranks_may_want_the_gradient_of_an_allgather():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        rows = torch.full((hvd.rank() + 1, 2), float(hvd.rank()), requires_grad=hvd.rank() == 0)
        assert hvd.allgather(rows).shape == (3, 2)
        assert hvd.allreduce(torch.ones(1)).item() == 1
    """,
    )


def test_a_shape_that_differs_names_the_parameter():
    lines = run_ready(
        2,
        """
        import hora, torch, hora.torch as hvd
        hvd.init()
        w = torch.nn.Parameter(torch.zeros(3 + hvd.rank()))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), [("layer.weight", w)])
        try:
            w.sum().backward()
        except hora.HoraInternalError as error:
            print(error)
        assert hvd.allreduce(torch.ones(1)).item() == 1
    """,
    )
    assert lines[0] == lines[1]
    assert (
        "layer.weight': tensor differs between ranks: float32[3] on rank 0, float32[4] on rank 1"
        in lines[0][0]
    )


def test_names_are_checked():
    run_ready(
        1,
        """
        import torch, hora.torch as hvd
        hvd.init()
        w, v = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
        for named, kwargs in (([("a", w)], {}), ([("a", w), ("a", v)], {}), ([w, v], {}), (None, {"backward_passes_per_step": 0}), (None, {"op": hvd.Max})):
            try:
                hvd.DistributedOptimizer(torch.optim.SGD([w, v], 1.0), named, **kwargs)
            except ValueError:
                continue
            raise AssertionError(named)
    """,
    )


@pytest.mark.long
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_data_loader_workers_just_work(context: str, tmp_path: pathlib.Path):
    program = tmp_path / "load.py"  # spawn needs a file
    program.write_text("""
import sys, torch, hora.torch as hvd
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    hvd.init()
    loader = DataLoader(TensorDataset(torch.arange(32.0)), batch_size=4, num_workers=1, multiprocessing_context=sys.argv[1])
    for epoch in range(2):
        for (batch,) in loader:
            assert hvd.allreduce(batch, op=hvd.Sum)[0] == 2 * batch[0]
""")
    result = hrun("-np", "2", *ready_python(), str(program), context)
    assert result.returncode == 0, result.stdout + result.stderr
