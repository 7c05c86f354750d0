// SPDX-License-Identifier: Apache-2.0
#include <hora/hora.h>

#include "core/backend/mpi_module.h"
#include "core/backend/nccl_module.h"
#include "core/base/log.h"
#include "core/device/fastest_copy.h"
#include "core/gpu/own_gpu.h"
#include "core/launcher/answering.h"
#include "core/launcher/launcher_line.h"
#include "core/runtime/admission.h"
#include "core/runtime/connect.h"
#include "core/runtime/engine.h"
#include "core/runtime/loop.h"
#include "core/runtime/messages.h"
#include "core/runtime/on_failure.h"
#include "core/runtime/on_signal.h"
#include "core/watch/stack.h"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

namespace hora {
namespace {

constexpr std::chrono::hours kMostDelay{30 * 24};

LogLevel level_named(const std::string& name) {
  if (name == "error") return LogLevel::error;
  if (name == "info") return LogLevel::info;
  return name == "debug" ? LogLevel::debug : LogLevel::warning;
}

double in_mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Bytes text_as_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Of what a rank brings, which may make no sense.
std::size_t bytes_of(const Entry& entry) {
  std::size_t bytes = size_of(entry.dtype);
  for (const auto extent : entry.shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

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

}  // namespace

/// In the order in which each needs those above it.
struct Runtime::Parts {
  Parts(World connected, const Config& settings)
      : config(settings),
        world(std::move(connected)),
        table(lent),
        sets(world.control->size()),
        timeline(world.control->size()),
        copy(settings.streaming_stores),
        gpu(settings.local_rank, world.gpu_module),
        messages(*world.messenger, world.control->rank(), world.control->size(), lent),
        loop(world, config, table, sets, timeline, *delays, gpu, messages),
        engine(std::make_shared<Engine>(loop, world.rollcall != nullptr)),
        on_failure([this](const std::string& why) { fail(why); }),
        on_signal(settings.dump_signal,
                  [this] { loop.state().dump("a signal asks for it (HORA_DUMP_SIGNAL)"); }),
        answering(settings.question_fd, [this](const Question& question) { return answer(question); }) {
    table.helped_by(engine);
    engine->start();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() { engine->stop(); }

  /// On the thread of `answering`.
  Reply answer(const Question& question) {
    if (question.kind == QuestionKind::health) {
      if (world.control->rank() == 0) loop.inquire(question.number);
      return {question.number, ReplyKind::health, encode(loop.state().health())};
    }
    try {
      const std::string path = loop.state().write_dump("hrun dump asks for it");
      return {question.number, ReplyKind::dumped, text_as_bytes(std::filesystem::absolute(path).string())};
    } catch (const std::exception& error) {
      return {question.number, ReplyKind::failed, text_as_bytes(error.what())};
    }
  }

  /// Tells the other ranks why this process ends, and waits until this one has given everything up.
  void fail(const std::string& why) {
    report_reason(why);
    loop.leave(why);
    const std::lock_guard lock(shutdown_mutex);
    engine->join();
  }

  /// As `admit`; tensors on a GPU have a point before which they are not touched.
  Asked ask(const Entry& entry) {
    Asked asked = admit(entry, world.control->rank(), sets);
    if (entry.device.kind == DeviceKind::host) return asked;
    try {
      const auto opened = gpu.open(entry.device.index);
      engine->keep_to_own_thread();  // which CUDA and NCCL are used on
      if (entry.input != nullptr) opened->check(entry.input, "its input");
      if (entry.output != nullptr && entry.output != entry.input) opened->check(entry.output, "its output");
      asked.ready = gpu.mark(*opened, entry.stream);
      if (entry.input == entry.output) asked.request.slot = gpu.module().slot(opened, entry.input);
      asked.request.padded = entry.padded && asked.request.slot != 0;
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("'{}' on {}: {}", entry.name, name(entry.device), error.what()));
    }
    return asked;
  }

  Handle put(Entry&& entry) {
    engine->check_process();
    Asked asked = ask(entry);
    entry.name = asked.request.name;
    return table.put(std::move(entry), std::move(asked), Clock::now());
  }

  Config config;
  World world;
  std::shared_ptr<LentMemory> lent = std::make_shared<LentMemory>();
  TensorTable table;
  ProcessSets sets;
  Timeline timeline;
  std::shared_ptr<Delays> delays = std::make_shared<Delays>();  // a scope may outlive the runtime
  std::mutex copy_mutex;
  FastestCopy copy;  // under copy_mutex
  OwnGpu gpu;
  Messages messages;
  Loop loop;
  std::mutex shutdown_mutex;
  std::mutex numbers_mutex;
  std::map<int, std::uint64_t> numbers;  // by process set
  std::shared_ptr<Engine> engine;
  OnFailure on_failure;
  OnSignal on_signal;
  Answering answering;
};

Runtime::Runtime(const Config& config) {
  Config agreed = config;
  set_log(level_named(config.log_level), config.rank);
  if (config.rank == 0) {
    for (const auto& name : Config::unknown_variables())
      log(LogLevel::warning,
          fmt::format("{} is set, but means nothing; hora/config.h has all variables", name));
    static std::once_flag told;
    std::call_once(told, [] {
      for (const auto& note : Config::horovod_notes()) log(LogLevel::warning, note);
    });
  }
  World world = connect(agreed);
  set_log(level_named(agreed.log_level), agreed.rank);  // MPI may know another one
  parts_ = std::make_unique<Parts>(std::move(world), agreed);
  install_stack_signal();
  if (agreed.timeline.empty()) return;
  try {
    start_timeline(agreed.timeline, agreed.timeline_mark_cycles);
  } catch (const Error& error) {
    shutdown(error.what());
    throw;
  }
}

Runtime::Runtime(World world, const Config& config)
    : parts_(std::make_unique<Parts>(std::move(world), config)) {}

Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&& other) noexcept {
  const Runtime former(std::move(*this));  // leaves its job, if it has one
  parts_ = std::move(other.parts_);
  return *this;
}

Runtime::~Runtime() {
  if (!parts_) return;
  if (!parts_->engine->is_in_own_process()) {
    static_cast<void>(
        parts_.release());  // a forked child's copy: its thread does not exist, its sockets are not its own
    return;
  }
  try {
    shutdown(std::uncaught_exceptions() > 0 ? "an exception ended it" : "");
  } catch (const std::exception& error) {
    log(LogLevel::warning, error.what());
  }
}

int Runtime::rank() const { return parts_->world.control->rank(); }
int Runtime::size() const { return parts_->world.control->size(); }
int Runtime::local_rank() const { return parts_->config.local_rank; }
int Runtime::local_size() const { return parts_->config.local_size; }
int Runtime::cross_rank() const { return parts_->config.cross_rank; }
int Runtime::cross_size() const { return parts_->config.cross_size; }
bool Runtime::uses_mpi() const {
  const Config& config = parts_->config;
  return config.mpi_communicator || config.cpu_operations == "mpi";
}
bool Runtime::can_overlap() const {
  const auto& rollcall = parts_->world.rollcall;
  return size() == 1 || !rollcall || rollcall->cores_for_each() > 1;
}

Handle Runtime::submit(Entry entry) {
  const std::size_t bytes = bytes_of(entry);
  Handle handle = parts_->put(std::move(entry));
  parts_->engine->submitted(bytes);
  return handle;
}

Result Runtime::run(Entry entry) {
  const BlockingScope blocking;
  return submit(std::move(entry)).wait();
}

std::vector<Handle> Runtime::submit(std::vector<Entry> group) {
  parts_->engine->check_process();
  std::vector<Asked> asked;
  asked.reserve(group.size());
  std::size_t bytes = 0;
  for (auto& entry : group) {
    bytes += bytes_of(entry);
    asked.push_back(parts_->ask(entry));
    entry.name = asked.back().request.name;
    if (group.size() > 1) asked.back().request.bundle = asked.front().request.name;
    if (asked.back().group == asked.front().group) continue;
    throw Error(Code::invalid_argument,
                fmt::format("'{}' and '{}' cannot be in one group of operations: they are of different "
                            "process sets",
                            asked.front().request.name, entry.name));
  }
  auto handles = parts_->table.put(std::move(group), std::move(asked), Clock::now());
  parts_->engine->submitted(bytes);
  return handles;
}

Handle Runtime::send(Message message) {
  parts_->engine->check_process();
  return parts_->messages.send(std::move(message));
}

Handle Runtime::receive(Message wanted) {
  parts_->engine->check_process();
  return parts_->messages.receive(std::move(wanted));
}

std::optional<Envelope> Runtime::probe(int source, int tag) {
  parts_->engine->check_process();
  return parts_->messages.probe(source, tag);
}

int Runtime::add_process_set(const std::vector<int>& ranks) {
  Entry entry;
  entry.operation = Operation::add_process_set;
  entry.ranks = ranks;
  return run(std::move(entry)).process_set;
}

void Runtime::remove_process_set(int number) {
  Entry entry;
  entry.operation = Operation::remove_process_set;
  entry.process_set = number;
  run(std::move(entry));
}

std::map<int, std::vector<int>> Runtime::process_sets() const { return parts_->sets.all(); }

int Runtime::join(bool divide_by_initial_size) {
  Entry entry;
  entry.operation = Operation::join;
  entry.divide_by_initial_size = divide_by_initial_size;
  return run(std::move(entry)).last_rank;
}

ExpectedDelay Runtime::expect_delay(const std::string& name, std::chrono::milliseconds time) {
  parts_->engine->check_process();
  if (time.count() <= 0 || time > kMostDelay) {
    throw Error(
        Code::invalid_argument,
        fmt::format("expect_delay('{}') takes a time of more than 0 and up to {} s, not {:g} s", name,
                    std::chrono::seconds(kMostDelay).count(), std::chrono::duration<double>(time).count()));
  }
  const auto number = parts_->delays->open(name, time, Clock::now());
  return ExpectedDelay([delays = parts_->delays, number] { delays->close(number); });
}

std::uint64_t Runtime::next_number(int process_set) {
  const std::lock_guard lock(parts_->numbers_mutex);
  return ++parts_->numbers[process_set];
}

void Runtime::return_number(std::uint64_t number, int process_set) {
  const std::lock_guard lock(parts_->numbers_mutex);
  std::uint64_t& last = parts_->numbers[process_set];
  if (last == number && last > 0) --last;
}

std::shared_ptr<std::byte> Runtime::allocate(std::size_t bytes, Device device) {
  parts_->engine->check_process();
  if (device.kind == DeviceKind::host) return parts_->world.lane.collective->allocate(bytes);
  const auto gpu = parts_->gpu.open(device.index);
  const NcclModule& module = parts_->gpu.module();
  const Config& config = parts_->config;
  const auto nccl =
      answer_or(NcclLibrary{}, [&] { return module.library(config.nccl_library, config.packaged_nccl); });
  return nccl.path.empty() ? gpu->allocate(bytes) : module.allocate(gpu, bytes);
}

void Runtime::copy_for_later(void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(parts_->copy_mutex);
  parts_->copy.copy(to, from, bytes);
}

std::shared_ptr<std::byte> Runtime::allocate_on(void* stream, std::size_t bytes, Device device) {
  parts_->engine->check_process();
  return parts_->gpu.open(device.index)->allocate_on(stream, bytes);
}

void Runtime::start_timeline(const std::string& path, bool mark_cycles) {
  parts_->engine->check_process();
  if (rank() != 0) return;
  parts_->timeline.start(path, mark_cycles, parts_->world.members, rank());
  parts_->loop.wake_up().ring();
}

void Runtime::stop_timeline() {
  parts_->engine->check_process();
  if (!parts_->timeline.stop()) return;
  parts_->loop.wake_up().ring();
  parts_->timeline.await_end();
}

void Runtime::shutdown(const std::string& reason) {
  parts_->engine->check_process();
  if (Engine::calls_this_thread()) {
    throw Error(
        Code::invalid_argument,
        "what the engine calls (done, allocate) cannot end the job: the engine would wait for itself");
  }
  const std::lock_guard lock(parts_->shutdown_mutex);
  if (!parts_->engine->joinable()) return;
  if (!reason.empty()) report_reason(reason);
  parts_->loop.leave(reason);
  parts_->engine->join();
  parts_->messages.await_end();
}

std::string Runtime::memory_report() const {
  const auto gpu = parts_->gpu.opened();
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
