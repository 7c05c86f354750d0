// SPDX-License-Identifier: Apache-2.0
#include "runner/command_line/build_report.h"

#include "core/backend/mpi_module.h"
#include "core/backend/nccl_module.h"
#include "core/device/kernels.h"
#include "runner/launch/environment.h"

#include <hora/hora.h>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <filesystem>

namespace hora::hrun {
namespace {

std::string library_path() {
  Dl_info found{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&version), &found) != 0;
  if (!known || found.dli_fname == nullptr) return "linked in";
  std::error_code trouble;
  const auto path = std::filesystem::canonical(found.dli_fname, trouble);
  return trouble ? found.dli_fname : path.string();
}

bool can_share_memory() {
  const int fd = ::memfd_create("hora-check", MFD_CLOEXEC);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

bool can_read_own_memory() {
  int from = 1;
  int to = 0;
  const iovec local{&to, sizeof to};
  const iovec remote{&from, sizeof from};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == sizeof to;
}

std::string mpi_line() {
  try {
    return fmt::format("[x] mpi      {}, by {}", load_mpi().library(), mpi_module_path());
  } catch (const Error& error) {
    return fmt::format("[ ] mpi      {}", error.what());
  }
}

/// The NCCL that a process without a framework finds; one that imports PyTorch uses that one's.
std::string found_nccl() {
  const NcclFound found = nccl_library();
  if (!found.path.empty()) return fmt::format("NCCL {}, {}", found.version, found.path);
  try {
    static_cast<void>(load_nccl().library(Config::nccl_library_of_environment(), {}));
  } catch (const Error& error) {
    return error.what();
  }
  return "no NCCL";
}

std::string nccl_line() {
  try {
    return fmt::format("[x] nccl     GPUs: {}; {}; by {}", gpus(), found_nccl(), nccl_module_path());
  } catch (const Error& error) {
    return fmt::format("[ ] nccl     {}", error.what());
  }
}

bool is_in_path(const char* program) {
  try {
    return !find_program(program).empty();
  } catch (const Error&) {
    return false;
  }
}

int cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

std::string build_report() {
  const auto mark = [](bool yes) { return yes ? "[x]" : "[ ]"; };
  return fmt::format(
      "Hora {}\n"
      "  library      {}\n"
      "  instructions {} (chosen at run time)\n"
      "  cores        {} usable\n\n"
      "backends\n"
      "  [x] local    ranks as threads, and jobs of one rank\n"
      "  {} shm      shared memory between the ranks of a host (memfd_create)\n"
      "  {} peers    private buffers of other ranks (process_vm_readv); whether ranks may is tried at "
      "start\n"
      "  [x] tcp      control, and data where memory cannot be shared\n"
      "  {}\n"
      "  {}\n\n"
      "launchers\n"
      "  [x] this machine\n"
      "  {} ssh: other hosts (-H, --hostfile)\n"
      "  {} slurm: srun, in an allocation\n"
      "  {} mpi: mpirun (--mpi, --launcher mpi)\n",
      version(), library_path(), kernels::target(), cores(), mark(can_share_memory()),
      mark(can_read_own_memory()), mpi_line(), nccl_line(), mark(is_in_path("ssh")), mark(is_in_path("srun")),
      mark(is_in_path("mpirun")));
}

}  // namespace hora::hrun
