// SPDX-License-Identifier: Apache-2.0
#include <hora/c.h>
#include <hora/completion_queue.h>
#include <hora/hora.h>
#include <hora/job_listener.h>

#include "core/base/memory.h"
#include "core/base/operations.h"
#include "core/base/owner_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// An operation, and the memory of its result if Hora allocates that.
struct hora_handle {
  hora::Handle handle;
  std::shared_ptr<std::shared_ptr<std::byte>> output;
  const hora::Result* result = nullptr;  ///< of the handle, once `hora_wait_on` has returned
};

struct hora_completion_queue {
  hora::CompletionQueue queue;
};

namespace {

/// The C face's handle of the job of this process, and what it has lent. Guarded by the mutex.
struct Face {
  std::mutex mutex;
  std::shared_ptr<hora::Runtime> runtime;
  std::optional<hora::OwnerProcess> owner;  // of the runtime
  std::optional<hora::JobListener> listener;
  std::map<void*, std::shared_ptr<std::byte>> lent;
};

/// Lives as long as the process: functions that the program has given to atexit() may call Hora at any time.
/// The job itself ends when the process does, before those functions that were given before the first call.
Face& face() {
  static Face& one = *[] {
    auto made = std::make_unique<Face>();
    std::atexit([] {
      const std::lock_guard lock(face().mutex);
      face().runtime.reset();
    });
    return made.release();
  }();
  return one;
}

// Not a string: functions that were registered with atexit() may read it, and the thread's objects are gone
// then.
thread_local std::array<char, 4096> last_error{};

void keep_error(std::string_view text) {
  const std::size_t length = text.copy(last_error.data(), last_error.size() - 1);
  last_error[length] = '\0';
}

int guarded(const std::function<void()>& action) {
  try {
    action();
    return HORA_OK;
  } catch (const hora::Error& error) {
    keep_error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    keep_error(error.what());
    return HORA_INTERNAL;
  }
}

[[noreturn]] void refuse(const std::string& why) { throw hora::Error(hora::Code::invalid_argument, why); }

/// Under the mutex: joins the job of this process, which C++ or Python may have joined before; else as the
/// settings say.
void enter_locked(const std::function<hora::Config()>& settings) {
  const auto& runtime = face().runtime;
  if (runtime && face().owner->is_this() && !runtime->was_shut_down()) return;
  face().runtime = std::make_shared<hora::Runtime>(hora::init(settings));
  face().owner.emplace();
}

void enter(const std::function<hora::Config()>& settings) {
  const std::lock_guard lock(face().mutex);
  enter_locked(settings);
}

/// Of the job that this process is in, whichever language has joined it.
std::shared_ptr<hora::Runtime> current() {
  const std::lock_guard lock(face().mutex);
  enter_locked([]() -> hora::Config { refuse("Hora is not initialised: call hora_init() first"); });
  return face().runtime;
}

int ask(int (hora::Runtime::*question)() const) {
  int answer = -1;
  guarded([&] { answer = ((*current()).*question)(); });
  return answer;
}

std::string text(const char* given) { return given == nullptr ? "" : given; }

/// `given`: an enumerator of C, which may have any value there. Reading such a one as what it is called is
/// undefined in C++, so its bytes are read.
template <typename Number, typename Given>
Number checked(const Given& given, int count, const char* what) {
  static_assert(sizeof(Given) == sizeof(int));
  int value = 0;
  std::memcpy(&value, &given, sizeof(value));
  if (value < 0 || value >= count) refuse(fmt::format("there is no {} {}", what, value));
  return static_cast<Number>(value);
}

std::vector<std::int64_t> checked_shape(const int64_t* shape, int dimensions) {
  if (dimensions < 0 || (dimensions > 0 && shape == nullptr))
    refuse(fmt::format("a shape of {} dimensions at {}", dimensions, fmt::ptr(shape)));
  return {shape, shape + dimensions};
}

double factor(double given) {
  if (given != 0) return given;
  return std::signbit(given) ? 0 : 1;
}

/// The wire's dtype: 0 says nothing.
hora::DType wire_of(const hora_entry& given) {
  const auto wire = checked<hora::DType>(given.wire, hora::kDTypes, "dtype");
  return wire == hora::DType::uint8 ? hora::DType::float32 : wire;
}

/// How many ranks a process set has.
std::size_t ranks_in(const hora::Runtime& runtime, int process_set) {
  const auto sets = runtime.process_sets();
  const auto found = sets.find(process_set);
  return found == sets.end() ? 0 : found->second.ranks.size();  // that is refused later
}

hora::Entry entry_of(const hora_entry& given, const hora::Runtime& runtime) {
  hora::Entry entry;
  entry.operation = checked<hora::Operation>(given.operation, hora::kOperations, "operation");
  if (!hora::traits(entry.operation).has_tensor)
    refuse(fmt::format("there is no operation {}", static_cast<int>(given.operation)));
  entry.name = text(given.name);
  entry.process_set = given.process_set;
  entry.input = given.input;
  entry.output = given.output;
  entry.shape = checked_shape(given.shape, given.dimensions);
  entry.dtype = checked<hora::DType>(given.dtype, hora::kDTypes, "dtype");
  entry.op = checked<hora::ReduceOp>(given.op, hora::kReduceOps, "reduction");
  entry.prescale = factor(given.prescale);
  entry.postscale = factor(given.postscale);
  entry.wire = wire_of(given);
  entry.root = given.root;
  if (given.splits != nullptr)
    entry.splits.assign(given.splits, given.splits + ranks_in(runtime, given.process_set));
  if (sizes_its_output(entry.operation) && given.output != nullptr) entry.output_rows = given.output_rows;
  entry.device = {checked<hora::DeviceKind>(given.device, hora::kDeviceKinds, "kind of device"),
                  given.device_index};
  entry.stream = given.stream;
  return entry;
}

using Output = std::shared_ptr<std::shared_ptr<std::byte>>;

/// Memory for the output, if Hora is to allocate it.
Output allocate_later(hora::Entry& entry) {
  if (!sizes_its_output(entry.operation) || entry.output_rows) return nullptr;
  auto output = std::make_shared<std::shared_ptr<std::byte>>();
  if (entry.device.kind == hora::DeviceKind::cuda) {
    entry.accept = [output](std::shared_ptr<std::byte> memory, const std::vector<std::int64_t>&) {
      *output = std::move(memory);
    };
    return output;
  }
  entry.allocate = [output,
                    each = hora::size_of(entry.dtype)](const std::vector<std::int64_t>& whole) -> void* {
    std::size_t bytes = each;
    for (const auto extent : whole) bytes *= static_cast<std::size_t>(extent);
    *output = hora::allocate_aligned(bytes);
    return output->get();
  };
  return output;
}

void give(hora_handle** handle, hora::Handle of, Output output) {
  *handle = std::make_unique<hora_handle>(hora_handle{std::move(of), std::move(output), nullptr}).release();
}

hora::Message message_of(int peer, int tag, int process_set, const int64_t* shape, int dimensions,
                         const hora_dtype& dtype) {
  hora::Message message;
  message.peer = peer;
  message.tag = tag;
  message.process_set = process_set;
  message.shape = checked_shape(shape, dimensions);
  message.dtype = checked<hora::DType>(dtype, hora::kDTypes, "dtype");
  return message;
}

/// Of an operation that has been waited for and has ended well; else null, and the error is kept.
const hora::Result* result_of(const hora_handle* handle) {
  const hora::Result* result = handle->result;
  if (result != nullptr) return result;
  guarded([&] {
    if (!handle->handle.has_ended()) refuse("the operation has not ended: call hora_wait() first");
    result = &handle->handle.wait();
  });
  return result;
}

}  // namespace

const char* hora_version(void) { return hora::version(); }
const char* hora_last_error(void) { return last_error.data(); }

int hora_init(void) {
  return guarded([] { enter(&hora::Config::from_environment); });
}

int hora_init_at(int rank, int size, const char* coordinator, const unsigned char* secret) {
  return guarded([&] {
    hora::Secret known{};
    if (secret != nullptr) std::copy_n(secret, known.size(), known.begin());
    enter([&] {
      auto config = hora::Config::with_place(rank, size, text(coordinator), known);
      const auto& listener = face().listener;  // `enter` holds the mutex
      if (rank == 0 && listener && listener->coordinator() == config.coordinator)
        config.coordinator_fd = listener->fd();
      return config;
    });
    const std::lock_guard lock(face().mutex);
    face().listener.reset();
    const hora::Runtime& runtime = *face().runtime;
    if (runtime.rank() != rank || runtime.size() != size) {
      refuse(fmt::format("this process is rank {} of {} already; hora_shutdown() comes before another place",
                         runtime.rank(), runtime.size()));
    }
  });
}

int hora_listen(char* coordinator, size_t size, unsigned char* secret) {
  return guarded([&] {
    hora::JobListener listener(hora::Config::from_environment().network);
    const std::string& where = listener.coordinator();
    if (where.size() >= size)
      refuse(fmt::format("the coordinator has {} bytes, and there is room for {}", where.size() + 1, size));
    where.copy(coordinator, where.size());
    coordinator[where.size()] = '\0';
    std::copy(listener.secret().begin(), listener.secret().end(), secret);
    const std::lock_guard lock(face().mutex);
    face().listener = std::move(listener);
  });
}

int hora_shutdown(const char* reason) {
  const std::string why = text(reason);  // it may be hora_last_error()
  if (hora_is_initialized() == 0) return HORA_OK;
  return guarded([&] {
    std::shared_ptr<hora::Runtime> runtime;
    {
      const std::lock_guard lock(face().mutex);
      runtime = std::move(face().runtime);
    }
    if (runtime) runtime->shutdown(why);
  });
}

int hora_is_initialized(void) {
  return guarded([] { current(); }) == HORA_OK ? 1 : 0;
}

int hora_rank(void) { return ask(&hora::Runtime::rank); }
int hora_size(void) { return ask(&hora::Runtime::size); }
int hora_local_rank(void) { return ask(&hora::Runtime::local_rank); }
int hora_local_size(void) { return ask(&hora::Runtime::local_size); }
int hora_cross_rank(void) { return ask(&hora::Runtime::cross_rank); }
int hora_cross_size(void) { return ask(&hora::Runtime::cross_size); }

int hora_add_process_set(const int* ranks, int count, const char* name, int* process_set) {
  return guarded([&] {
    if (count < 0) refuse(fmt::format("a process set of {} ranks", count));
    *process_set = current()->add_process_set({ranks, ranks + count}, text(name));
  });
}

int hora_remove_process_set(int process_set) {
  return guarded([&] { current()->remove_process_set(process_set); });
}

int hora_submit(const hora_entry* entries, int count, hora_handle** handles) {
  return guarded([&] {
    const auto runtime = current();
    std::vector<hora::Entry> group;
    std::vector<Output> outputs;
    for (int i = 0; i < count; ++i) {
      group.push_back(entry_of(entries[i], *runtime));
      outputs.push_back(allocate_later(group.back()));
    }
    if (count == 1) return give(handles, runtime->submit(std::move(group.front())), outputs.front());
    const auto started = runtime->submit(std::move(group));
    for (std::size_t i = 0; i < started.size(); ++i) give(handles + i, started[i], outputs[i]);
  });
}

int hora_barrier(const char* name, int process_set) {
  return guarded([&] {
    hora::Entry entry;
    entry.operation = hora::Operation::barrier;
    entry.name = text(name);
    entry.process_set = process_set;
    current()->run(std::move(entry));
  });
}

int hora_join(int* last_rank) {
  return guarded([&] {
    const int last = current()->join();
    if (last_rank != nullptr) *last_rank = last;
  });
}

int hora_send(int peer, int tag, int process_set, const void* input, const int64_t* shape, int dimensions,
              enum hora_dtype dtype, hora_handle** handle) {
  return guarded([&] {
    auto message = message_of(peer, tag, process_set, shape, dimensions, dtype);
    message.input = input;
    give(handle, current()->send(std::move(message)), {});
  });
}

int hora_receive(int peer, int tag, int process_set, void* output, const int64_t* shape, int dimensions,
                 enum hora_dtype dtype, hora_handle** handle) {
  return guarded([&] {
    auto message = message_of(peer, tag, process_set, shape, dimensions, dtype);
    message.output = output;
    give(handle, current()->receive(std::move(message)), {});
  });
}

int hora_poll(const hora_handle* handle) { return handle->handle.poll() ? 1 : 0; }

int hora_wait(hora_handle* handle) {
  return guarded([&] { handle->handle.wait(); });
}

int hora_wait_for(hora_handle* handle, int milliseconds) {
  bool has_ended = false;
  const int code = guarded([&] {
    has_ended = handle->handle.wait_for(std::chrono::milliseconds(milliseconds));
    if (!has_ended) throw hora::Error(hora::Code::timeout, "the operation has not ended");
  });
  return has_ended ? hora_wait(handle) : code;
}

int hora_wait_on(hora_handle* handle, void* stream) {
  return guarded([&] { handle->result = &handle->handle.wait_on(stream); });
}

const void* hora_output(const hora_handle* handle, int64_t* rows) {
  const hora::Result* result = result_of(handle);
  if (result == nullptr || !handle->output) return nullptr;
  if (rows != nullptr) *rows = result->shape.front();
  return handle->output->get();
}

int hora_rows(const hora_handle* handle, int64_t* rows, int count) {
  const hora::Result* result = result_of(handle);
  if (result == nullptr) return -1;
  const auto all = static_cast<int>(result->rows.size());
  std::copy_n(result->rows.begin(), std::clamp(count, 0, all), rows);
  return all;
}

int hora_source(const hora_handle* handle) {
  const hora::Result* result = result_of(handle);
  return result == nullptr ? -1 : result->source;
}

void hora_release(hora_handle* handle) {
  const std::unique_ptr<hora_handle> owned(handle);
  guarded([&] { owned->handle.wait(); });
}

int hora_completion_queue_make(hora_completion_queue** queue) {
  return guarded([&] { *queue = std::make_unique<hora_completion_queue>().release(); });
}

int hora_completion_queue_watch(hora_completion_queue* queue, const hora_handle* handle, uint64_t token) {
  return guarded([&] { queue->queue.watch(handle->handle, token); });
}

int hora_completion_queue_fd(const hora_completion_queue* queue) { return queue->queue.fd(); }

int hora_completion_queue_take(hora_completion_queue* queue, uint64_t* tokens, int count) {
  int taken = -1;
  guarded([&] {
    const auto ended = queue->queue.take(static_cast<std::size_t>(std::max(count, 0)));
    std::copy(ended.begin(), ended.end(), tokens);
    taken = static_cast<int>(ended.size());
  });
  return taken;
}

void hora_completion_queue_free(hora_completion_queue* queue) {
  const std::unique_ptr<hora_completion_queue> owned(queue);
}

void* hora_allocate(size_t bytes) {
  void* memory = nullptr;
  guarded([&] {
    auto lent = current()->allocate(bytes);
    memory = lent.get();
    const std::lock_guard lock(face().mutex);
    face().lent.emplace(memory, std::move(lent));
  });
  return memory;
}

void hora_free(void* memory) {
  const std::lock_guard lock(face().mutex);
  face().lent.erase(memory);
}
