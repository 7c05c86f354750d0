// SPDX-License-Identifier: Apache-2.0
#include "runner/command_line/build_report.h"

#include "core/backend/nccl_module.h"
#include "core/device/kernels.h"
#include "core/runtime/backends.h"
#include "runner/launch/environment.h"

#include <hora/hora.h>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
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

bool can_read_own_memory() {
  int from = 1;
  int to = 0;
  const iovec local{&to, sizeof to};
  const iovec remote{&from, sizeof from};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == sizeof to;
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

BackendStatus look_at_nccl() {
  try {
    return {true, fmt::format("GPUs: {}; {}; by {}", gpus(), found_nccl(), nccl_module_path())};
  } catch (const Error& error) {
    return {false, error.what()};
  }
}

std::string line(std::string_view name, const BackendStatus& status) {
  return fmt::format("  [{}] {:<8} {}\n", status.available ? 'x' : ' ', name, status.text);
}

std::string backend_lines() {
  std::string lines = line("local", {true, "ranks as threads, and jobs of one rank"});
  for (const Backend& backend : backends()) lines += line(backend.name, backend.look());
  return lines +
         line("peers", {can_read_own_memory(),
                        "private buffers of other ranks (process_vm_readv); whether ranks may is "
                        "tried at start"}) +
         line("nccl", look_at_nccl());
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
      "{}\n"
      "launchers\n"
      "  [x] this machine\n"
      "  {} ssh: other hosts (-H, --hostfile)\n"
      "  {} slurm: srun, in an allocation\n"
      "  {} mpi: mpirun (--mpi, --launcher mpi)\n",
      version(), library_path(), kernels::target(), cores(), backend_lines(), mark(is_in_path("ssh")),
      mark(is_in_path("srun")), mark(is_in_path("mpirun")));
}

}  // namespace hora::hrun
