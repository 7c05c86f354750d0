// SPDX-License-Identifier: Apache-2.0
#include <hora/c.h>
#include <hora/hora.h>

#include "core/base/memory.h"

#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

/// An operation, and the memory of its result if that is an allgather's: the engine puts it there.
struct hora_handle {
  hora::Handle handle;
  std::shared_ptr<std::shared_ptr<std::byte>> output;
};

namespace {

/// The one current job of the C face, and what it has lent. Guarded by the mutex.
struct Face {
  std::mutex mutex;
  std::shared_ptr<hora::Runtime> runtime;
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

std::shared_ptr<hora::Runtime> current() {
  const std::lock_guard lock(face().mutex);
  if (!face().runtime)
    throw hora::Error(hora::Code::invalid_argument, "Hora is not initialised: call hora_init() first");
  return face().runtime;
}

int ask(int (hora::Runtime::*question)() const) {
  const std::lock_guard lock(face().mutex);
  return face().runtime ? ((*face().runtime).*question)() : -1;
}

hora::Entry entry_of(hora::Operation operation, const char* name, const void* input, void* output,
                     const int64_t* shape, int dimensions, int dtype) {
  if (dtype < 0 || dtype >= hora::kDTypes || dimensions < 0) {
    throw hora::Error(hora::Code::invalid_argument,
                      "there is no such dtype, or the number of dimensions is negative");
  }
  hora::Entry entry;
  entry.operation = operation;
  entry.name = name == nullptr ? "" : name;
  entry.dtype = static_cast<hora::DType>(dtype);
  entry.shape.assign(shape, shape + dimensions);
  entry.input = input;
  entry.output = output;
  return entry;
}

void submit(hora::Entry entry, hora_handle** handle) {
  *handle = std::make_unique<hora_handle>(hora_handle{current()->submit(std::move(entry)), {}}).release();
}

}  // namespace

const char* hora_version(void) { return hora::version(); }
const char* hora_last_error(void) { return last_error.data(); }

int hora_init(void) {
  return guarded([] {
    const std::lock_guard lock(face().mutex);
    if (!face().runtime) face().runtime = std::make_shared<hora::Runtime>();
  });
}

int hora_shutdown(const char* reason) {
  return guarded([&] {
    std::shared_ptr<hora::Runtime> runtime;
    {
      const std::lock_guard lock(face().mutex);
      runtime = std::move(face().runtime);
    }
    if (runtime) runtime->shutdown(reason == nullptr ? "" : reason);
  });
}

int hora_is_initialized(void) {
  const std::lock_guard lock(face().mutex);
  return face().runtime ? 1 : 0;
}

int hora_rank(void) { return ask(&hora::Runtime::rank); }
int hora_size(void) { return ask(&hora::Runtime::size); }
int hora_local_rank(void) { return ask(&hora::Runtime::local_rank); }
int hora_local_size(void) { return ask(&hora::Runtime::local_size); }
int hora_cross_rank(void) { return ask(&hora::Runtime::cross_rank); }
int hora_cross_size(void) { return ask(&hora::Runtime::cross_size); }

int hora_allreduce(const char* name, const void* input, void* output, const int64_t* shape, int dimensions,
                   enum hora_dtype dtype, enum hora_reduce_op op, double prescale, double postscale,
                   enum hora_dtype wire, hora_handle** handle) {
  return guarded([&] {
    auto entry = entry_of(hora::Operation::allreduce, name, input, output, shape, dimensions, dtype);
    if (static_cast<int>(op) < 0 || static_cast<int>(op) >= hora::kReduceOps || static_cast<int>(wire) < 0 ||
        static_cast<int>(wire) >= hora::kDTypes) {
      throw hora::Error(hora::Code::invalid_argument, "there is no such reduction or wire dtype");
    }
    entry.op = static_cast<hora::ReduceOp>(op);
    entry.prescale = prescale;
    entry.postscale = postscale;
    entry.wire = static_cast<hora::DType>(wire);
    submit(std::move(entry), handle);
  });
}

int hora_broadcast(const char* name, const void* input, void* output, const int64_t* shape, int dimensions,
                   enum hora_dtype dtype, int root, hora_handle** handle) {
  return guarded([&] {
    auto entry = entry_of(hora::Operation::broadcast, name, input, output, shape, dimensions, dtype);
    entry.root = root;
    submit(std::move(entry), handle);
  });
}

int hora_allgather(const char* name, const void* input, const int64_t* shape, int dimensions,
                   enum hora_dtype dtype, hora_handle** handle) {
  return guarded([&] {
    auto entry = entry_of(hora::Operation::allgather, name, input, nullptr, shape, dimensions, dtype);
    const auto output = std::make_shared<std::shared_ptr<std::byte>>();
    entry.allocate = [output,
                      each = hora::size_of(entry.dtype)](const std::vector<std::int64_t>& whole) -> void* {
      std::size_t bytes = each;
      for (const auto extent : whole) bytes *= static_cast<std::size_t>(extent);
      *output = hora::allocate_aligned(bytes);
      return output->get();
    };
    submit(std::move(entry), handle);
    (*handle)->output = output;
  });
}

int hora_barrier(const char* name) {
  return guarded([&] {
    hora::Entry entry;
    entry.operation = hora::Operation::barrier;
    entry.name = name == nullptr ? "" : name;
    current()->run(std::move(entry));
  });
}

int hora_poll(const hora_handle* handle) { return handle->handle.poll() ? 1 : 0; }

int hora_wait(hora_handle* handle) {
  return guarded([&] { handle->handle.wait(); });
}

const void* hora_output(const hora_handle* handle, int64_t* rows) {
  if (!handle->handle.has_ended() || !handle->output) return nullptr;
  const void* output = nullptr;
  guarded([&] {
    const auto& result = handle->handle.wait();
    if (rows != nullptr) *rows = result.shape.front();
    output = handle->output->get();
  });
  return output;
}

void hora_release(hora_handle* handle) {
  const std::unique_ptr<hora_handle> owned(handle);
  guarded([&] { owned->handle.wait(); });
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
