// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace hora {

/// No job has more ranks; a variable that says so is wrong.
inline constexpr int kMostRanks = 1 << 20;

/// A process's place in its job, as a launcher other than hrun tells it in the environment. A value.
struct RankAssignment {
  std::string launcher;  ///< for messages: "torchrun", "Open MPI", ...
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 0;  ///< 0: neither this nor the local rank is told
  int cross_rank = 0;
  int cross_size = 0;      ///< 0: neither this nor the cross rank is told
  std::string job;         ///< tells this job from others; the same on all ranks; empty: not told
  std::string first_host;  ///< where rank 0 is; empty: not told
};

/// torchrun's name of its job. hrun sets it, too, with `kHrunsJob` before the name: the variables of torchrun
/// are then hrun's, and say nothing about a process that another launcher has started inside of its ranks.
inline constexpr const char* kTorchrunJob = "TORCHELASTIC_RUN_ID";
inline constexpr const char* kHrunsJob = "hrun:";

/// The value of a variable of the environment, if it is set and not empty.
using LookUp = std::function<std::optional<std::string>(const char* name)>;

// Several launchers may have left their variables. The innermost one counts, because the outer ones'
// variables are those of the processes that they started, not of the ranks. Hence this order:
//
//   torchrun    starts nothing but ranks, so nothing is inside it; one runs on each host, often under srun.
//   jsrun       LSF's, which speaks Open MPI's words, too: an mpirun inside of a task says something else.
//   Open MPI    mpirun starts its daemons by srun in a Slurm allocation: its ranks inherit from them.
//   PMI         MPICH's, Intel's and Cray's mpiexec do the same. But Flux and srun --mpi=pmi2 speak PMI, too:
//               where their own numbers say the same, they count, because they tell more.
//   Flux        starts its brokers by srun.
//   Slurm       a task of srun; not a batch script, nor the shell of salloc.
//   PMIx        tells the rank, but not the size: that is HORA_SIZE.
//   Kubernetes  an indexed job, with HORA_SIZE and HORA_COORDINATOR.
//   PyTorch     RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, set by hand or by an operator. Last, because
//               scripts set them beside a launcher.

/// This process's assignment; none if no launcher has left its variables. Throws Error(invalid_argument) that
/// names a variable that is missing or makes no sense, and its launcher.
[[nodiscard]] std::optional<RankAssignment> find_rank_assignment(const LookUp& variables);

/// How many ranks the environment says that there are (HORA_SIZE, as hrun sets it); 1 if it says nothing.
/// Throws Error(invalid_argument) that names the variable. In config.cc, which reads the environment.
[[nodiscard]] int size_in_environment();

/// Whether an address or name means the host itself: 127.0.0.0/8, ::1, localhost.
[[nodiscard]] bool means_this_host(const std::string& host);

/// The points where the ranks of a job look for rank 0, which takes the first port that is free. They are the
/// host with a handful of ports that follow from the job's name, in HORA_COORDINATOR's form. The ports lie
/// below those that systems give to outgoing connections.
[[nodiscard]] std::string rendezvous_points(const std::string& host, const std::string& job);

/// The name of the local socket at which ranks of one host meet: of this job and this user.
[[nodiscard]] std::string meeting_place(const std::string& job, unsigned user);

}  // namespace hora
