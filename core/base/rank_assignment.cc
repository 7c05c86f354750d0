// SPDX-License-Identifier: Apache-2.0
#include "core/base/rank_assignment.h"

#include "core/base/node_list.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace hora {
namespace {

constexpr int kPorts = 8;
constexpr std::uint64_t kFirstPort = 20'000;
constexpr std::uint64_t kPortsToChooseFrom = 12'000;     // below 32768, where Linux's own choice begins
constexpr std::int64_t kFirstSpecialStep = 0xffff'fff0;  // a batch script, an interactive shell: no tasks

/// Reads one launcher's variables.
class Launcher {
 public:
  Launcher(const LookUp& variables, const char* launcher) : variables_(variables), name_(launcher) {}

  [[nodiscard]] std::string text(const char* name) const { return variables_(name).value_or(""); }
  [[nodiscard]] bool has(const char* name) const { return variables_(name).has_value(); }

  /// A whole number from `least` to `most`.
  [[nodiscard]] int number(const char* name, int least, int most) const {
    const std::string value = text(name);
    int result = 0;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (value.empty() || error != std::errc() || stop != value.data() + value.size() || result < least ||
        result > most) {
      refuse(name, value,
             fmt::format("gives each of its processes a whole number from {} to {}", least, most));
    }
    return result;
  }

  [[noreturn]] void refuse(const char* name, const std::string& value, const std::string& why) const {
    throw Error(Code::invalid_argument,
                fmt::format("{}='{}': {} {}; to say it yourself, set HORA_RANK and HORA_SIZE", name, value,
                            name_, why));
  }

  /// An assignment with the world's rank and size.
  [[nodiscard]] RankAssignment assignment(const char* rank, const char* size) const {
    RankAssignment result;
    result.launcher = name_;
    result.size = number(size, 1, kMostRanks);
    result.rank = number(rank, 0, result.size - 1);
    return result;
  }

  /// Adds the place among the ranks of this host, and what follows from it.
  void set_local(RankAssignment& assignment, const char* rank, const char* size) const {
    assignment.local_size = number(size, 1, assignment.size);
    assignment.local_rank = number(rank, 0, assignment.local_size - 1);
    settle_cross(assignment);
  }

  /// One host, or one rank on each: then it is clear which host this is. Otherwise ranks may lie in any
  /// order.
  static void settle_cross(RankAssignment& assignment) {
    if (assignment.local_size == assignment.size) assignment.cross_size = 1;
    if (assignment.local_size == 1) {
      assignment.cross_rank = assignment.rank;
      assignment.cross_size = assignment.size;
    }
  }

  /// The values of variables, those that are set, as one name.
  [[nodiscard]] std::string name(std::initializer_list<const char*> names) const {
    std::string result;
    for (const char* each : names) {
      if (has(each)) result += fmt::format("{}={} ", each, text(each));
    }
    return result;
  }

 private:
  const LookUp& variables_;
  const char* name_;
};

/// No attempt's number is in the job's name: agents of several hosts count attempts for themselves, and the
/// ranks of the former one are dead when the next one starts.
RankAssignment torchrun(const LookUp& variables) {
  const Launcher in(variables, "torchrun");
  RankAssignment assignment = in.assignment("RANK", "WORLD_SIZE");
  in.set_local(assignment, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  if (assignment.cross_size == 0 && in.has("GROUP_WORLD_SIZE")) {
    assignment.cross_size = in.number("GROUP_WORLD_SIZE", 1, assignment.size);
    assignment.cross_rank = in.number("GROUP_RANK", 0, assignment.cross_size - 1);
  }
  assignment.job = in.name({kTorchrunJob, "MASTER_ADDR", "MASTER_PORT"});
  assignment.first_host = in.text("MASTER_ADDR");
  return assignment;
}

/// The first host on which jsrun starts processes: LSB_MCPU_HOSTS is "batch 1 a 42 b 42", and a batch host
/// with one slot before larger ones runs the script alone.
std::string first_host_of_lsf(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::pair<std::string, int>> hosts;
  for (std::string host; in >> host;) {
    int slots = 0;
    if (!(in >> slots)) return {};
    hosts.emplace_back(host, slots);
  }
  if (hosts.empty()) return {};
  const bool batch = hosts.size() > 1 && hosts[0].second == 1 && hosts[1].second > 1;
  return hosts[batch ? 1 : 0].first;
}

/// LSF with IBM's job step manager.
RankAssignment jsrun(const LookUp& variables) {
  const Launcher in(variables, "jsrun");
  RankAssignment assignment = in.assignment("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE");
  if (in.has("JSM_NAMESPACE_LOCAL_SIZE"))
    in.set_local(assignment, "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE");
  assignment.job = in.name({"LSB_JOBID", "LSB_JOBINDEX", "PMIX_NAMESPACE"});
  assignment.first_host = first_host_of_lsf(in.text("LSB_MCPU_HOSTS"));
  return assignment;
}

RankAssignment open_mpi(const LookUp& variables) {
  const Launcher in(variables, "Open MPI");
  RankAssignment assignment = in.assignment("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  in.set_local(assignment, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  assignment.job =
      in.name({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"});
  return assignment;
}

/// MPICH and Intel MPI, or Cray's PALS.
RankAssignment pmi(const LookUp& variables) {
  const Launcher in(variables, "PMI");
  RankAssignment assignment = in.assignment("PMI_RANK", "PMI_SIZE");
  if (in.has("MPI_LOCALNRANKS")) in.set_local(assignment, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  if (in.has("PMI_LOCAL_SIZE")) in.set_local(assignment, "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE");
  assignment.job = in.name({"PMI_JOBID", "PALS_APID"});
  return assignment;
}

RankAssignment flux(const LookUp& variables) {
  const Launcher in(variables, "Flux");
  RankAssignment assignment = in.assignment("FLUX_TASK_RANK", "FLUX_JOB_SIZE");
  const int hosts = in.number("FLUX_JOB_NNODES", 1, assignment.size);
  if (hosts == 1) assignment.local_size = assignment.size;
  if (hosts == assignment.size) assignment.local_size = 1;
  if (assignment.local_size != 0)
    assignment.local_rank = in.number("FLUX_TASK_LOCAL_ID", 0, assignment.local_size - 1);
  Launcher::settle_cross(assignment);
  assignment.job = in.name({"FLUX_JOB_ID", "FLUX_URI"});
  return assignment;
}

/// The shares of a step's hosts: tasks may be spread unevenly, and in any order.
RankAssignment slurm(const LookUp& variables) {
  const Launcher in(variables, "Slurm");
  RankAssignment assignment = in.assignment("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  const auto counts = expand_task_counts(in.text("SLURM_STEP_TASKS_PER_NODE"));
  const int node = in.number("SLURM_NODEID", 0, static_cast<int>(counts.size()) - 1);
  assignment.local_size = counts[static_cast<std::size_t>(node)];
  assignment.local_rank = in.number("SLURM_LOCALID", 0, assignment.local_size - 1);
  const auto has_one = [&](int tasks) { return tasks > assignment.local_rank; };
  assignment.cross_size = static_cast<int>(std::count_if(counts.begin(), counts.end(), has_one));
  assignment.cross_rank = static_cast<int>(std::count_if(counts.begin(), counts.begin() + node, has_one));
  assignment.job = in.name({"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"});
  assignment.first_host = expand_node_list(in.text("SLURM_STEP_NODELIST")).front();
  return assignment;
}

RankAssignment pmix(const LookUp& variables) {
  const Launcher in(variables, "PMIx");
  if (!in.has("HORA_SIZE"))
    in.refuse("PMIX_RANK", in.text("PMIX_RANK"),
              "tells a process its rank, but not how many there are: set HORA_SIZE as well");
  RankAssignment assignment = in.assignment("PMIX_RANK", "HORA_SIZE");
  assignment.job = in.name({"PMIX_NAMESPACE"});
  return assignment;
}

RankAssignment kubernetes(const LookUp& variables) {
  return Launcher(variables, "Kubernetes").assignment("JOB_COMPLETION_INDEX", "HORA_SIZE");
}

RankAssignment pytorch(const LookUp& variables) {
  const Launcher in(variables, "PyTorch's environment");
  RankAssignment assignment = in.assignment("RANK", "WORLD_SIZE");
  assignment.job = in.name({"MASTER_ADDR", "MASTER_PORT"});
  assignment.first_host = in.text("MASTER_ADDR");
  if (in.has("LOCAL_WORLD_SIZE")) in.set_local(assignment, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  return assignment;
}

/// Whether jsrun's numbers count: they do unless an mpirun inside of its task has started this process.
bool is_jsrun(const LookUp& variables) {
  const auto rank = variables("JSM_NAMESPACE_RANK");
  const auto other = variables("OMPI_COMM_WORLD_RANK");
  return rank && variables("JSM_NAMESPACE_SIZE") && (!other || *other == *rank);
}

bool is_task_of_slurm(const LookUp& variables) {
  const auto step = variables("SLURM_STEP_ID");
  if (!step || !variables("SLURM_STEP_NUM_TASKS")) return false;
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(step->data(), step->data() + step->size(), number);
  return error == std::errc() && number >= 0 && number < kFirstSpecialStep;
}

/// Whether PMI's numbers count: they do unless Flux or Slurm, which tell more, say the same.
bool is_pmi(const LookUp& variables) {
  if (!variables("PMI_RANK") || !variables("PMI_SIZE")) return false;
  const auto says_the_same = [&](const char* rank, const char* size) {
    return variables(rank) == variables("PMI_RANK") && variables(size) == variables("PMI_SIZE");
  };
  return !says_the_same("FLUX_TASK_RANK", "FLUX_JOB_SIZE") &&
         !(is_task_of_slurm(variables) && says_the_same("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"));
}

/// Rank 0 of an unknown number may be alone, as a program that calls MPI_Init by itself is.
bool is_pmix(const LookUp& variables) {
  const auto rank = variables("PMIX_RANK");
  return rank && (*rank != "0" || variables("HORA_SIZE"));
}

bool have_all(const LookUp& variables, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(),
                     [&](const char* name) { return variables(name).has_value(); });
}

/// FNV-1a, then mixed: names and ports only have to differ; the secret decides which process may join.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  value = (value ^ (value >> 33)) * 0xff51'afd7'ed55'8ccd;
  return value ^ (value >> 33);
}

}  // namespace

std::optional<RankAssignment> find_rank_assignment(const LookUp& variables) {
  if (const auto job = variables(kTorchrunJob); job && !job->starts_with(kHrunsJob))
    return torchrun(variables);
  if (is_jsrun(variables)) return jsrun(variables);
  if (variables("OMPI_COMM_WORLD_RANK")) return open_mpi(variables);
  if (is_pmi(variables)) return pmi(variables);
  if (variables("FLUX_TASK_RANK")) return flux(variables);
  if (is_task_of_slurm(variables)) return slurm(variables);
  if (is_pmix(variables)) return pmix(variables);
  if (have_all(variables, {"JOB_COMPLETION_INDEX", "HORA_SIZE", "HORA_COORDINATOR"}))
    return kubernetes(variables);
  if (have_all(variables, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})) return pytorch(variables);
  return std::nullopt;
}

bool means_this_host(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string rendezvous_points(const std::string& host, const std::string& job) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  const std::string name = bare_ipv6 ? fmt::format("[{}]", host) : host;
  std::vector<std::uint64_t> ports;
  for (int attempt = 0; static_cast<int>(ports.size()) < kPorts; ++attempt) {
    const auto port = kFirstPort + hash(fmt::format("{}#{}", job, attempt)) % kPortsToChooseFrom;
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  }
  std::string points;
  for (const auto port : ports) points += fmt::format("{}{}:{}", points.empty() ? "" : ",", name, port);
  return points;
}

std::string meeting_place(const std::string& job, unsigned user) {
  return fmt::format("hora.{}.{:016x}{:016x}", user, hash(job), hash("again " + job));
}

}  // namespace hora
