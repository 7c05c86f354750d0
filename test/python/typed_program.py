# SPDX-License-Identifier: Apache-2.0
"""Uses every name of hora.torch, as mypy --strict accepts it; test_names.py checks that. It is not meant to
be run."""

import hora
import hora.torch as hvd
import torch


def learn(state: hvd.elastic.TorchState, steps: int) -> float:
    with hvd.expect_delay("evaluation", seconds=60):
        return float(steps)


def exchange(x: torch.Tensor, words: list[str]) -> None:
    hvd.send(x, 1, tag=5)
    hvd.send_object(words, dest=1)
    started: list[int] = [hvd.isend(x, 1), hvd.irecv(x, source=1), hvd.irecv(tag=5)]
    seen: hvd.Envelope[torch.dtype] | None = hvd.probe(hvd.ANY_SOURCE, hvd.ANY_TAG)
    if seen is not None and seen.dtype is not None:
        x = torch.empty(seen.shape, dtype=seen.dtype)
    got: hvd.Received[torch.Tensor] = hvd.recv(x, source=1)
    tensor, rank, tag = hvd.recv()
    print(started, got.value + tensor, got.source + rank, got.tag + tag, hvd.recv_object(1).value)


def meet() -> hvd.ProcessSet:
    evens = hvd.ProcessSet(range(0, 4, 2))
    hvd.init(comm=None, process_sets=[evens])
    listener = hvd.JobListener()
    where: str = listener.coordinator
    secret: bytes = listener.secret
    hvd.init(rank=0, size=1, coordinator=where, secret=secret, local_rank=0, local_size=1)
    under_way: hvd.Handle = hvd.allreduce_async(torch.ones(1))
    under_way.then(hvd.synchronize)
    return evens


def main() -> None:
    evens: hvd.ProcessSet = meet()
    odds: hvd.ProcessSet = hvd.add_process_set([1, 3])
    everyone: hvd.ProcessSet = hvd.global_process_set
    removed: bool = hvd.remove_process_set(odds)
    where: tuple[int, ...] = (
        hvd.rank(),
        hvd.size(),
        hvd.local_rank(),
        hvd.local_size(),
        hvd.cross_rank(),
        hvd.cross_size(),
    )
    truths: list[bool] = [
        removed,
        hvd.is_initialized(),
        hvd.is_homogeneous(),
        hvd.mpi_built(),
        hvd.mpi_enabled(),
        hvd.mpi_threads_supported(),
        hvd.gloo_built(),
        hvd.gloo_enabled(),
        hvd.ddl_built(),
        hvd.ccl_built(),
        hvd.cuda_built(),
        hvd.rocm_built(),
    ]
    nccl: int = hvd.nccl_built()
    ops: list[int] = [
        *(hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product),
        *(hvd.BitAnd, hvd.BitOr, hvd.BitXor, hvd.LogicalAnd, hvd.LogicalOr),
    ]
    print(where, truths, nccl, ops, hvd.memory_report().splitlines())

    x = torch.ones(4, 2)
    tensor: torch.Tensor = hvd.allreduce(
        x,
        name="x",
        compression=hvd.Compression.fp16,
        op=hvd.Sum,
        prescale_factor=0.5,
        postscale_factor=2.0,
        process_set=everyone,
    )
    tensor = hvd.allreduce_(x, op=hvd.Min)
    tensor = hvd.allgather(x, name="rows", process_set=evens)
    tensor = hvd.broadcast(x, 0)
    tensor = hvd.broadcast_(x, root_rank=0, name="x")
    tensor = hvd.reducescatter(x, op=hvd.Average)
    print(tensor, hvd.alltoall(x, splits=[1, 1, 1, 1]), hvd.alltoall(x))
    handles: list[int] = [
        hvd.allreduce_async(x, compression=hvd.Compression.mxfp8_e4m3),
        hvd.allreduce_async(x, compression=hvd.Compression.mxfp8_e5m2),
        hvd.allreduce_async_(x),
        hvd.grouped_allreduce_async([x, x]),
        hvd.grouped_allreduce_async_([x, x]),
        hvd.allgather_async(x, out=x),
        hvd.grouped_allgather_async([x]),
        hvd.broadcast_async(x, 0),
        hvd.broadcast_async_(x, 0),
        hvd.alltoall_async(x, torch.ones(4, dtype=torch.int32)),
        hvd.reducescatter_async(x),
        hvd.grouped_reducescatter_async([x]),
        hvd.gather_async(x, 0),
        hvd.scatter_async(x, 0),
        hvd.reduce_async(x, 0),
        hvd.scan_async(x),
    ]
    print([hvd.synchronize(handle) for handle in handles if hvd.poll(handle)])
    several: list[torch.Tensor] = [
        *hvd.grouped_allreduce([x]),
        *hvd.grouped_allreduce_([x]),
        *hvd.grouped_allgather([x]),
        *hvd.grouped_reducescatter([x]),
    ]
    tensor = hvd.sparse_allreduce_async(x.to_sparse(), name="sparse", op=hvd.Average)()
    hvd.barrier(evens)
    last: int = hvd.join()
    word: str = hvd.broadcast_object("word", root_rank=0)
    words: list[str] = hvd.allgather_object(word)
    averages: dict[str, float] = hvd.average_metrics({"loss": 0.5})
    tensor = hvd.scan(hvd.scatter(x, 0, splits=[2, 2]), op=hvd.Max)
    at_root: list[torch.Tensor | None] = [hvd.gather(tensor, 0), hvd.reduce(tensor, root_rank=0, op=hvd.Sum)]
    words_at_root: list[str] | None = hvd.gather_object(word, root_rank=0)
    print(at_root, words_at_root, hvd.scatter_object(words, root_rank=0).upper())
    print(several, last, words, averages)

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), hvd.SyncBatchNorm(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        named_parameters=model.named_parameters(),
        backward_passes_per_step=2,
        op=hvd.Average,
        check_finite=True,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    state = hvd.elastic.TorchState(
        model=model, optimizer=optimizer, sampler=hvd.elastic.ElasticSampler(range(10)), epoch=0
    )
    loss: float = hvd.elastic.run(learn)(state, 3) + len(dir(hvd.check_replicas(model, optimizer, every=100)))

    hvd.start_timeline("trace.json", mark_cycles=True)
    hvd.stop_timeline()
    try:
        hvd.shutdown()
    except (
        hvd.HoraTimeoutError,
        hvd.HoraNotInitializedError,
        hvd.HoraProcessSetError,
        hvd.HoraBackwardError,
        hvd.HoraRanksChangedError,
        hvd.HoraReplicaError,
        hvd.HoraShapeError,
        hvd.HoraUnavailableError,
        hvd.HoraUnsupportedError,
        hvd.HoraUsageError,
    ) as error:
        print(error)
    except hvd.HoraArgumentError as error:
        print(error)
    except (hvd.HorovodInternalError, hvd.HoraInternalError) as error:
        print(error)
    except hvd.HoraError as error:
        print(error, loss)


def on_two_ranks(scale: float) -> float:
    return scale


if __name__ == "__main__":
    losses: list[float] = hora.run(on_two_ranks, (0.1,), np=2)
    hora.install_as_horovod()
    main()
    exchange(torch.ones(4, 2), ["word"])
