// SPDX-License-Identifier: Apache-2.0
#include <hora/hora.h>

#include "core/backend/mpi_module.h"
#include "core/backend/nccl_module.h"
#include "core/base/log.h"
#include "core/join/find_membership.h"
#include "core/runtime/connect.h"
#include "core/runtime/elastic_generations.h"
#include "core/runtime/job.h"
#include "core/runtime/one_generation.h"
#include "core/runtime/process_job.h"
#include "core/watch/stack.h"

#include <fmt/format.h>

#include <exception>
#include <mutex>

namespace hora {
namespace {

constexpr std::chrono::hours kMostDelay{30 * 24};

double in_mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// The answer of a module; `otherwise` where there is none that can give one. A caller that wants to use the
/// module is told why not.
template <typename Answer, typename Ask>
Answer answer_or(Answer otherwise, const Ask& ask) {
  try {
    return ask();
  } catch (const Error&) {
    return otherwise;
  }
}

/// Warns of variables that mean nothing, and once a process of Horovod's.
void tell_of_environment() {
  for (const auto& name : Config::unknown_variables())
    log(LogLevel::warning,
        fmt::format("{} is set, but means nothing; hora/config.h has all variables", name));
  static std::once_flag told;
  std::call_once(told, [] {
    for (const auto& note : Config::horovod_notes()) log(LogLevel::warning, note);
  });
}

/// The generations of the job for which this process was started.
std::unique_ptr<Generations> generations_of(const Config& config) {
  if (config.member_fd) return make_elastic_generations(config, connect);
  return make_one_generation(config, [](Config& settings, TimePoint deadline) {
    return connect(find_membership(settings, deadline), settings, deadline);
  });
}

std::shared_ptr<Job> join_job(const Config& config) {
  set_log(config.log_level, config.rank);
  if (config.rank == 0) tell_of_environment();
  auto job = std::make_shared<Job>(config, generations_of(config));
  install_stack_signal();
  if (config.timeline.empty() || config.joins_late) return job;  // those that run already have written it
  try {
    job->session()->start_timeline(config.timeline, config.timeline_mark_cycles);
  } catch (const Error& error) {
    job->shutdown(error.what());
    throw;
  }
  return job;
}

}  // namespace

Runtime::Runtime(const Config& config) : job_(join_job(config)) {}

Runtime::Runtime(std::shared_ptr<Job> job) : job_(std::move(job)) {}

Runtime init(const std::function<Config()>& settings) {
  return Runtime(job_of_process([&] { return join_job(settings()); }));
}

Runtime::Runtime(World world, const Config& config) {
  const auto connected = std::make_shared<World>(std::move(world));
  job_ = std::make_shared<Job>(
      config, make_one_generation(config, [connected](Config&, TimePoint) { return std::move(*connected); }));
}

Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&& other) noexcept {
  const Runtime former(std::move(*this));  // leaves its job, if it has one
  job_ = std::move(other.job_);
  return *this;
}

Runtime::~Runtime() {
  if (!job_) return;
  // A forked child's copy: its thread does not exist, its sockets are not its own.
  // No mutex is taken: a thread of the parent may hold it.
  if (!job_->is_in_own_process())
    static_cast<void>(std::make_unique<std::shared_ptr<Job>>(std::move(job_)).release());
}

int Runtime::rank() const { return job_->session()->membership().rank; }
int Runtime::size() const { return job_->session()->membership().size; }
int Runtime::local_rank() const { return job_->session()->membership().local_rank; }
int Runtime::local_size() const { return job_->session()->membership().local_size; }
int Runtime::cross_rank() const { return job_->session()->membership().cross_rank; }
int Runtime::cross_size() const { return job_->session()->membership().cross_size; }
bool Runtime::uses_mpi() const {
  const auto session = job_->session();
  return session->config().mpi_communicator || session->config().cpu_operations == "mpi";
}
bool Runtime::can_overlap() const { return job_->session()->can_overlap(); }

Handle Runtime::submit(Entry entry) { return job_->session()->submit(std::move(entry)); }

Result Runtime::run(Entry entry) {
  const BlockingScope blocking;
  return submit(std::move(entry)).wait();
}

std::vector<Handle> Runtime::submit(std::vector<Entry> group) {
  return job_->session()->submit(std::move(group));
}

Handle Runtime::send(Message message) { return job_->session()->send(std::move(message)); }

Handle Runtime::receive(Message wanted) { return job_->session()->receive(std::move(wanted)); }

std::optional<Envelope> Runtime::probe(int source, int tag, int process_set) {
  return job_->session()->probe(source, tag, process_set);
}

int Runtime::add_process_set(const std::vector<int>& ranks, const std::string& name) {
  Entry entry;
  entry.operation = Operation::add_process_set;
  entry.ranks = ranks;
  entry.set_name = name;
  return run(std::move(entry)).process_set;
}

void Runtime::remove_process_set(int number) {
  Entry entry;
  entry.operation = Operation::remove_process_set;
  entry.process_set = number;
  run(std::move(entry));
}

std::map<int, ProcessSet> Runtime::process_sets() const { return job_->session()->sets().all(); }

int Runtime::join(bool divide_by_initial_size) {
  Entry entry;
  entry.operation = Operation::join;
  entry.divide_by_initial_size = divide_by_initial_size;
  return run(std::move(entry)).last_rank;
}

bool Runtime::is_elastic() const { return job_->is_elastic(); }
std::uint64_t Runtime::generation() const { return job_->session()->membership().generation; }
int Runtime::state_root() const { return job_->state_root(); }
int Runtime::hot_spares() const { return job_->hot_spares(); }
void Runtime::ask_to_leave() { job_->ask_to_leave(); }
void Runtime::leave_on_sigterm() { job_->leave_on_sigterm(); }
bool Runtime::has_left() const { return job_->has_left(); }
bool Runtime::generation_has_ended() const { return job_->generation_has_ended(); }
bool Runtime::change_is_due() const { return job_->change_is_due(); }
void Runtime::set_takes_in(bool takes_in) { job_->set_takes_in(takes_in); }
bool Runtime::commit(bool has_state) { return job_->commit(has_state); }
std::uint64_t Runtime::next_generation() { return job_->next_generation(); }

ExpectedDelay Runtime::expect_delay(const std::string& name, std::chrono::milliseconds time) {
  job_->session()->check_process();
  if (time.count() <= 0 || time > kMostDelay) {
    throw Error(
        Code::invalid_argument,
        fmt::format("expect_delay('{}') takes a time of more than 0 and up to {} s, not {:g} s", name,
                    std::chrono::seconds(kMostDelay).count(), std::chrono::duration<double>(time).count()));
  }
  const auto& delays = job_->lasting().delays;
  const auto number = delays->open(name, time, Clock::now());
  return ExpectedDelay([delays, number] { delays->close(number); });
}

std::uint64_t Runtime::next_number(int process_set) { return job_->session()->next_number(process_set); }

void Runtime::return_number(std::uint64_t number, int process_set) {
  job_->session()->return_number(number, process_set);
}

std::shared_ptr<std::byte> Runtime::allocate(std::size_t bytes, Device device) {
  const auto session = job_->session();
  if (device.kind == DeviceKind::host) return session->allocate(bytes);
  session->check_process();
  OwnGpu& own = job_->lasting().gpu;
  const auto gpu = own.open(device.index);
  const NcclModule& module = own.module();
  const Config& config = session->config();
  const auto nccl =
      answer_or(NcclLibrary{}, [&] { return module.library(config.nccl_library, config.packaged_nccl); });
  return nccl.path.empty() ? gpu->allocate(bytes) : module.allocate(gpu, bytes);
}

void Runtime::copy_for_later(void* to, const void* from, std::size_t bytes) {
  job_->copy_for_later(to, from, bytes);
}

std::shared_ptr<std::byte> Runtime::allocate_on(void* stream, std::size_t bytes, Device device) {
  job_->session()->check_process();
  return job_->lasting().gpu.open(device.index)->allocate_on(stream, bytes);
}

void Runtime::start_timeline(const std::string& path, bool mark_cycles) {
  job_->session()->start_timeline(path, mark_cycles);
}

void Runtime::stop_timeline() { job_->session()->stop_timeline(); }

void Runtime::shutdown(const std::string& reason) { job_->shutdown(reason); }
bool Runtime::was_shut_down() const { return job_->was_left(); }

std::string Runtime::memory_report() const {
  const auto gpu = job_->lasting().gpu.opened();
  if (!gpu) return "no GPU has been used";
  const GpuMemory memory = gpu->memory();
  return fmt::format(
      "{} ({}): {:.1f} MiB by Hora (fusion buffers, gradients that live there), {:.1f} MiB by NCCL\n"
      "host: {:.1f} MiB pinned for copies to and from {}",
      name({DeviceKind::cuda, gpu->index()}), gpu->name(), in_mebibytes(memory.taken),
      in_mebibytes(memory.nccl), in_mebibytes(memory.pinned), name({DeviceKind::cuda, gpu->index()}));
}

std::vector<std::int64_t> scattered_rows(std::int64_t rows, int ranks) {
  std::vector<std::int64_t> shares(static_cast<std::size_t>(ranks), rows / ranks);
  for (std::int64_t i = 0; i < rows % ranks; ++i) ++shares[static_cast<std::size_t>(i)];
  return shares;
}

std::string mpi_library() {
  return answer_or(std::string(), [] { return load_mpi().library(); });
}

bool mpi_threads() {
  return answer_or(false, [] { return load_mpi().any_thread(); });
}

NcclFound nccl_library(const std::string& packaged) {
  const NcclLibrary found = answer_or(
      NcclLibrary{}, [&] { return load_nccl().library(Config::nccl_library_of_environment(), packaged); });
  return {found.path, found.path.empty() ? "" : nccl_version(found.version)};
}

bool gpu_support() {
  return answer_or(false, [] {
    static_cast<void>(load_nccl());
    return true;
  });
}

int gpus() {
  return answer_or(0, [] { return load_nccl().gpus(); });
}

const char* version() { return HORA_VERSION; }

}  // namespace hora
