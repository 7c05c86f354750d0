# SPDX-License-Identifier: Apache-2.0
"""Process sets: operations among some of the ranks."""

from ready_ranks import run_ready


def test_sets_are_registered_at_init_and_later_and_tell_what_they_are():
    run_ready(
        4,
        """
        import pytest, torch, hora.torch as hvd
        assert hvd.global_process_set.ranks is None and hvd.global_process_set.included() is None
        with pytest.raises(ValueError, match="not initialised"):
            hvd.add_process_set([0])
        even = hvd.ProcessSet([2, 0])
        assert even.size() is None and even.rank() is None
        hvd.init(process_sets=[even, hvd.ProcessSet(range(1, 4, 2))])
        rank = hvd.rank()
        assert (even.process_set_id, even.ranks, even.size(), even.mpi_comm) == (1, [0, 2], 2, None)
        assert even.included() == (rank % 2 == 0)
        assert "process_set_id=1" in str(even) and "[0, 2]" in str(even)
        everyone = hvd.global_process_set
        assert (everyone.process_set_id, everyone.ranks, everyone.size(), everyone.rank(), everyone.included()) == (0, [0, 1, 2, 3], 4, rank, True)
        if even.included():
            assert even.rank() == rank // 2
        else:
            with pytest.raises(ValueError, match="not a member"):
                even.rank()
        last = hvd.add_process_set([3])
        assert last.process_set_id == 3
        for ranks in ([0, 2], [2, 0], [0, 1, 2, 3], [], [4], [-1], [1, 1], ["x"], 5):
            with pytest.raises(ValueError):
                hvd.add_process_set(ranks)
        for sets in ([hvd.ProcessSet([0, 1]), hvd.ProcessSet([1, 0])], [hvd.ProcessSet([0, 1, 2, 3])], [[0, 1]], "static"):
            with pytest.raises(ValueError):
                hvd.init(process_sets=sets)
        again = [hvd.ProcessSet([0, 2]), hvd.ProcessSet([0, 1])]
        hvd.init(process_sets=again)
        assert (again[0].process_set_id, again[1].process_set_id) == (1, 4)
        class Communicator:
            def Get_rank(self):
                return 0
        with pytest.raises(NotImplementedError, match="numbers of the ranks"):
            hvd.ProcessSet(Communicator())
        with pytest.raises(ValueError, match="a communicator of mpi4py"):
            hvd.init(comm=Communicator())
        with pytest.raises(ValueError, match="not registered|has not been registered"):
            hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0]))
        with pytest.raises(ValueError):
            hvd.allreduce(torch.ones(1), process_set=1)

        assert hvd.remove_process_set(last) and last.process_set_id is None and last.size() is None and last.ranks == [3]
        assert not hvd.remove_process_set(last) and not hvd.remove_process_set(hvd.global_process_set)
        with pytest.raises(ValueError, match="has not been registered"):
            hvd.allreduce(torch.ones(1), process_set=last)
        pair = hvd.add_process_set([0, 3])
        if rank == 0:
            unmet = hvd.allreduce_async(torch.ones(2), name="unmet", process_set=pair)
        assert hvd.remove_process_set(pair)
        if rank == 0:
            with pytest.raises(hvd.HorovodInternalError, match="allreduce.unmet.*was removed"):
                hvd.synchronize(unmet)
        assert hvd.add_process_set(last) is last and last.process_set_id is not None
        if last.included():
            assert hvd.allreduce(torch.ones(1), process_set=last).item() == 1
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 4
    """,
    )


def test_sets_that_overlap_are_used_at_once_from_one_thread():
    run_ready(
        4,
        """
        import itertools, pytest, random, torch, hora.torch as hvd
        hvd.init()
        rank = hvd.rank()
        sets = [hvd.global_process_set, *(hvd.add_process_set(list(ranks)) for count in (1, 2, 3) for ranks in itertools.combinations(range(4), count))]
        own = random.Random(rank)
        for round in range(20):
            mine = [s for s in sets if s.included()]
            own.shuffle(mine)
            handles = [(s, hvd.allreduce_async(torch.full((100,), 2.0**rank), name="same", op=hvd.Sum, process_set=s),
                        hvd.allgather_async(torch.tensor([rank]), process_set=s), hvd.broadcast_async(torch.tensor(rank), s.ranks[-1], process_set=s),
                        hvd.alltoall_async(torch.full((s.size(),), rank), process_set=s)) for s in mine]
            own.shuffle(handles)
            for s, total, gathered, last, exchanged in handles:
                assert hvd.synchronize(total)[99] == sum(2.0**r for r in s.ranks)
                assert hvd.synchronize(gathered).tolist() == s.ranks
                assert hvd.synchronize(last) == s.ranks[-1]
                assert hvd.synchronize(exchanged)[0].tolist() == s.ranks
        for s in sets:
            if s.included():
                hvd.barrier(s)
                assert hvd.allgather_object({"rank": rank}, process_set=s) == [{"rank": r} for r in s.ranks]
                assert hvd.broadcast_object([rank], s.ranks[-1], process_set=s) == [s.ranks[-1]]
                assert hvd.allreduce(torch.tensor(float(rank)), process_set=s) == sum(s.ranks) / len(s.ranks)
                outside = [r for r in range(4) if r not in s.ranks]
                if outside:
                    with pytest.raises(ValueError):
                        hvd.broadcast(torch.ones(1), outside[0], process_set=s)
            else:
                for operation in (hvd.allreduce, hvd.allgather, hvd.alltoall, hvd.reducescatter, hvd.allreduce_,
                                  lambda x, process_set: hvd.broadcast(x, s.ranks[0], process_set=s),
                                  lambda x, process_set: hvd.grouped_allreduce([x], process_set=s), lambda x, process_set: hvd.allgather_object(1, process_set=s),
                                  lambda x, process_set: hvd.barrier(s), lambda x, process_set: hvd.sparse_allreduce_async(x.to_sparse(), "x", hvd.Sum, s)):
                    with pytest.raises(ValueError, match="not a member"):
                        operation(torch.ones(4), process_set=s)
        hvd.barrier()
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 4
    """,
    )


def test_only_its_ranks_make_a_set_that_has_a_name():
    run_ready(
        4,
        """
        import pickle, pytest, torch, hora.torch as hvd
        hvd.init()
        rank = hvd.rank()
        whole = hvd.add_process_set([0, 1, 2, 3], name="whole")
        assert whole.ranks == [0, 1, 2, 3] and whole.name == "whole"
        if rank % 2:
            odd, same = hvd.add_process_set([3, 1], "odd"), hvd.add_process_set([1, 3], "same")
            assert odd.process_set_id != same.process_set_id
            with pytest.raises(ValueError, match="there is one of these ranks with the name 'odd' already"):
                hvd.add_process_set([1, 3], "odd")
            assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=same).item() == 2
            other = 4 - rank
            hvd.send(torch.tensor([rank]), other, 0)
            hvd.send(torch.tensor([10 * rank]), other, 0, same)
            hvd.send_object("of the set", other, process_set=odd)
            assert hvd.probe(process_set=whole) is None
            assert hvd.recv_object(process_set=odd).value == "of the set"
            assert hvd.recv(process_set=same).value.item() == 10 * other
            assert hvd.recv().value.item() == other
            assert pickle.loads(pickle.dumps(same)) is same
            assert hvd.remove_process_set(odd) and odd.process_set_id is None
        else:
            with pytest.raises(ValueError, match="rank . is not in it; only the ranks of a process set that has a name add it"):
                hvd.add_process_set([1, 3], name="odd")
            with pytest.raises(ValueError, match="one character or more"):
                hvd.add_process_set([0, 2], name="")
            with pytest.raises(ValueError, match="is registered already"):
                hvd.add_process_set(whole, name="again")
            even = hvd.add_process_set([0, 2], "odd")  # the name is free for other ranks
            assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=even).item() == 2
        if rank == 0:
            with pytest.raises(ValueError, match="is not a member"):
                hvd.send(torch.ones(1), 1, process_set=hvd.add_process_set([1, 3]))
        else:
            hvd.add_process_set([1, 3])
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=whole).item() == 4
    """,
    )


def test_numpy_arrays_have_them_too():
    run_ready(
        3,
        """
        import numpy as np, hora, pytest
        hora.init()
        rank = hora.rank()
        pair = hora.add_process_set([0, 2])
        if pair.included():
            assert hora.allreduce(np.ones(3), op=hora.Sum, process_set=pair).tolist() == [2, 2, 2]
            assert hora.allgather(np.full((pair.rank() + 1, 1), rank), process_set=pair).ravel().tolist() == [0, 2, 2]
            assert hora.broadcast(np.array(rank), 2, process_set=pair) == 2
            assert hora.reducescatter(np.arange(6).reshape(2, 3).T, op=hora.Sum, process_set=pair).tolist() == ([[0, 6], [2, 8]] if rank == 0 else [[4, 10]])
            output, received = hora.alltoall(np.arange(4) + 10 * rank, [3, 1] if rank == 0 else [0, 4], process_set=pair)
            assert (output.tolist(), received.tolist()) == (([0, 1, 2], [3, 0]) if rank == 0 else ([3, 20, 21, 22, 23], [1, 4]))
            hora.barrier(pair)
        else:
            with pytest.raises(ValueError, match="not a member"):
                hora.alltoall(np.ones(2), process_set=pair)
        assert hora.alltoall(np.arange(3) + 10 * rank).tolist() == [rank, 10 + rank, 20 + rank]
        assert hora.reducescatter(np.full((4, 2), rank, np.float32)).tolist() == [[1.0, 1.0]] * (2 if rank == 0 else 1)
        for wrong in (lambda: hora.alltoall(np.ones(4)), lambda: hora.alltoall(np.ones(3), [1, 1]), lambda: hora.alltoall(np.float32(1)),
                      lambda: hora.reducescatter(np.float32(1)), lambda: hora.reducescatter(np.ones(3), op=hora.Adasum)):
            with pytest.raises(ValueError):
                wrong()
        for batch in range(rank):
            hora.allreduce(np.ones(2), name="batch")
        assert hora.join() == 2
    """,
    )
