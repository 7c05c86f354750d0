// SPDX-License-Identifier: Apache-2.0
#include "python/native/bind_hora.h"

#include "python/native/at_exit.h"
#include "python/native/dlpack.h"
#include "python/native/operating.h"
#include "python/native/without_lock.h"

#include <hora/alike.h>
#include <hora/completion_queue.h>
#include <hora/end_report.h>
#include <hora/hora.h>
#include <hora/job_listener.h>
#include <hora/stack.h>

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace py = pybind11;

namespace hora {
namespace {

std::vector<Item> items_of(const std::vector<std::pair<std::string, std::string>>& items) {
  std::vector<Item> all;
  for (const auto& [name, what] : items) all.push_back({name, what});
  return all;
}

/// Does what may wait for a GPU or for other ranks without the interpreter lock, if this thread has it: what
/// is on the GPU may need Python to go on.
template <typename Do>
auto without_lock(Do what) {
  const bool locked =
      Py_IsInitialized() != 0 && PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0;
  if (!locked) return what();
  const WithoutLock release;
  return what();
}

struct DeleteWithoutLock {
  void operator()(Runtime* hora) const {
    without_lock([hora] { delete hora; });
  }
};

/// A place in a job that a program gives by itself.
struct Place {
  int rank;
  int size;
  std::string coordinator;
  std::string secret;
  std::optional<std::pair<int, int>> local;  // the rank on this host, and how many there are; none: found out
  std::optional<int> listener;               // a descriptor, of rank 0
};

Config config_of(const Place& place) {
  Secret secret{};
  if (!place.secret.empty() && place.secret.size() != secret.size()) {
    throw Error(Code::invalid_argument, "secret has " + std::to_string(secret.size()) + " bytes, not " +
                                            std::to_string(place.secret.size()));
  }
  std::copy(place.secret.begin(), place.secret.end(), secret.begin());
  Config config = Config::with_place(place.rank, place.size, place.coordinator, secret);
  if (place.local) {
    std::tie(config.local_rank, config.local_size) = *place.local;
    if (config.local_rank < 0 || config.local_rank >= config.local_size || config.local_size > place.size) {
      throw Error(Code::invalid_argument, "local_rank=" + std::to_string(config.local_rank) +
                                              " and local_size=" + std::to_string(config.local_size) +
                                              " do not fit: local ranks are 0 to local_size - 1, of size=" +
                                              std::to_string(place.size) + " ranks at most");
    }
  }
  config.coordinator_fd = place.listener;
  return config;
}

/// The job of this process.
std::unique_ptr<Runtime, DeleteWithoutLock> join(std::optional<int> mpi_communicator,
                                                 const std::string& packaged_nccl,
                                                 const std::optional<Place>& place) {
  const WithoutLock release;
  return std::unique_ptr<Runtime, DeleteWithoutLock>(new Runtime(init([&] {
    Config config = place ? config_of(*place) : Config::from_environment();
    config.mpi_communicator = mpi_communicator;
    config.packaged_nccl = packaged_nccl;
    return config;
  })));
}

/// A GPU's memory, for which whoever releases it last may be Python.
std::shared_ptr<std::byte> freed_without_lock(std::shared_ptr<std::byte> memory) {
  std::byte* data = memory.get();
  return {data, [owner = std::move(memory)](std::byte*) mutable { without_lock([&] { owner.reset(); }); }};
}

/// A scope that Python enters and leaves.
struct Blocking {
  std::optional<BlockingScope> scope;
};

/// A GPU's number, or none for the host.
Device device_of(std::optional<int> gpu) { return gpu ? Device{DeviceKind::cuda, *gpu} : Device{}; }
std::optional<int> gpu_of(Device device) {
  return device.kind == DeviceKind::cuda ? std::optional(device.index) : std::nullopt;
}

Memory allocate(Runtime& hora, std::size_t bytes, std::optional<int> gpu) {
  const WithoutLock release;
  const auto memory = hora.allocate(bytes, device_of(gpu));
  return {gpu ? freed_without_lock(memory) : memory, bytes, device_of(gpu)};
}

void copy_for_later(Runtime& hora, std::uintptr_t to, std::uintptr_t source, std::size_t bytes) {
  const WithoutLock release;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has addresses
  hora.copy_for_later(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(source), bytes);
}

Memory allocate_on(Runtime& hora, std::uintptr_t stream, std::size_t bytes, int gpu) {
  const WithoutLock release;
  const Device device{DeviceKind::cuda, gpu};
  return {freed_without_lock(hora.allocate_on(stream_of(stream), bytes, device)), bytes, device};
}

Entry make_entry(Operation operation, const std::string& name, DType dtype,
                 const std::vector<std::int64_t>& shape, std::uintptr_t input, std::uintptr_t output,
                 int process_set, std::optional<int> device, std::uintptr_t stream, ReduceOp op,
                 double prescale, double postscale, DType wire, int root, bool absent,
                 const std::vector<std::int64_t>& splits, const std::vector<int>& ranks,
                 const std::string& set_name, bool divide_by_initial_size, bool check_finite, bool padded,
                 const std::string& failed_with, const std::vector<std::int64_t>& strides,
                 std::optional<std::int64_t> output_rows) {
  Entry entry;
  entry.operation = operation;
  entry.name = name;
  entry.process_set = process_set;
  entry.dtype = dtype;
  entry.shape = shape;
  entry.input = reinterpret_cast<const void*>(input);
  entry.output = reinterpret_cast<void*>(output);
  entry.op = op;
  entry.prescale = prescale;
  entry.postscale = postscale;
  entry.wire = wire;
  entry.root = root;
  entry.absent = absent;
  entry.splits = splits;
  entry.ranks = ranks;
  entry.set_name = set_name;
  entry.divide_by_initial_size = divide_by_initial_size;
  entry.device = device_of(device);
  entry.stream = stream_of(stream);
  entry.check_finite = check_finite;
  entry.padded = padded;
  entry.failed_with = failed_with;
  entry.strides = strides;
  entry.output_rows = output_rows;
  return entry;
}

std::size_t bytes_of(DType dtype, const std::vector<std::int64_t>& shape) {
  std::size_t bytes = size_of(dtype);
  for (const auto extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

/// Memory of one's own for an output of which Python learns with the Outcome.
void* make(Memory& output, DType dtype, const std::vector<std::int64_t>& shape) {
  const std::size_t bytes = bytes_of(dtype, shape);
  void* memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw Error(Code::unavailable, "no memory for the output");
  output = {{static_cast<std::byte*>(memory), std::free}, bytes};
  return memory;
}

/// For operations whose output is as large as all ranks together make it, and which are given none: memory
/// for that, when it is known, where the input lies.
std::shared_ptr<Memory> allocate_later(Entry& entry) {
  if (!sizes_its_output(entry.operation) || entry.output_rows) return nullptr;
  auto output = std::make_shared<Memory>();
  if (entry.device.kind == DeviceKind::host) {
    entry.allocate = [output, dtype = entry.dtype](const std::vector<std::int64_t>& whole) {
      return make(*output, dtype, whole);
    };
  } else {
    entry.accept = [output, dtype = entry.dtype, device = entry.device](
                       std::shared_ptr<std::byte> memory, const std::vector<std::int64_t>& whole) {
      *output = {freed_without_lock(std::move(memory)), bytes_of(dtype, whole), device};
    };
  }
  return output;
}

Operating submit(Runtime& hora, Entry entry) {
  auto output = allocate_later(entry);
  return {without_lock([&] { return hora.submit(std::move(entry)); }), std::move(output)};
}

/// Submits an array as DLPack's C functions tell of it, if they do: one on the host whose elements lie side
/// by side and are of a type that Hora knows, as nearly all are. None: it is for Python to look closer.
std::optional<Operating> lend(Runtime& hora, Operation operation, std::string name, const py::object& input,
                              const py::object& output, py::object lent, int process_set, ReduceOp op,
                              double prescale, double postscale, DType wire, int root) {
  auto seen = see_on_host(input);
  const auto written = output.is(input) ? seen : see_on_host(output);
  if (!seen || !written) return std::nullopt;
  Entry entry;
  entry.operation = operation;
  entry.name = std::move(name);
  entry.process_set = process_set;
  entry.dtype = seen->dtype;
  entry.shape = std::move(seen->shape);
  entry.input = seen->address;
  entry.output = written->address;
  entry.op = op;
  entry.prescale = prescale;
  entry.postscale = postscale;
  entry.wire = wire;
  entry.root = root;
  Operating operating(without_lock([&] { return hora.submit(std::move(entry)); }), nullptr);
  operating.keep(std::move(lent));
  return operating;
}

std::vector<Operating> submit_group(Runtime& hora, std::vector<Entry> entries) {
  std::vector<std::shared_ptr<Memory>> outputs;
  for (auto& entry : entries) outputs.push_back(allocate_later(entry));
  const auto handles = without_lock([&] { return hora.submit(std::move(entries)); });
  std::vector<Operating> operating;
  for (std::size_t i = 0; i < handles.size(); ++i) operating.emplace_back(handles[i], std::move(outputs[i]));
  return operating;
}

Operating send(Runtime& hora, int dest, int tag, int process_set, DType dtype,
               const std::vector<std::int64_t>& shape, std::uintptr_t input, bool object) {
  Message message;
  message.peer = dest;
  message.tag = tag;
  message.process_set = process_set;
  message.dtype = dtype;
  message.shape = shape;
  message.input = reinterpret_cast<const void*>(input);
  message.object = object;
  return {without_lock([&] { return hora.send(std::move(message)); }), nullptr};
}

Operating receive(Runtime& hora, int source, int tag, int process_set, std::optional<DType> dtype,
                  const std::vector<std::int64_t>& shape, std::uintptr_t output, bool object) {
  Message wanted;
  wanted.peer = source;
  wanted.tag = tag;
  wanted.process_set = process_set;
  wanted.object = object;
  std::shared_ptr<Memory> memory;
  if (dtype) {
    wanted.dtype = *dtype;
    wanted.shape = shape;
    wanted.output = reinterpret_cast<void*>(output);
  } else {
    memory = std::make_shared<Memory>();
    wanted.allocate = [memory](DType of, const std::vector<std::int64_t>& whole) {
      return make(*memory, of, whole);
    };
  }
  return {without_lock([&] { return hora.receive(std::move(wanted)); }), std::move(memory)};
}

/// hora.Error and what derives from it are made in Python; here they are only looked up and raised.
void raise(const Error& error) {
  const auto exceptions = py::module_::import("hora._errors");
  const auto type = exceptions.attr("exception_for")(name(error.code()));
  PyErr_SetObject(type.ptr(), py::str(error.what()).ptr());
}

}  // namespace

void bind_hora(py::module_& module) {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      raise(error);
    }
  });

  py::enum_<Operation> operations(module, "Operation");
  for (int i = 0; i < kOperations; ++i)
    operations.value(std::string(name(static_cast<Operation>(i))).c_str(), static_cast<Operation>(i));
  py::enum_<DType> dtypes(module, "DType");
  for (int i = 0; i < kDTypes; ++i)
    dtypes.value(std::string(name(static_cast<DType>(i))).c_str(), static_cast<DType>(i));
  dtypes.def_property_readonly("itemsize", [](DType dtype) { return size_of(dtype); });
  py::enum_<ReduceOp> ops(module, "ReduceOp");
  for (int i = 0; i < kReduceOps; ++i)
    ops.value(std::string(name(static_cast<ReduceOp>(i))).c_str(), static_cast<ReduceOp>(i));

  py::class_<Memory>(module, "Memory", py::buffer_protocol())
      .def_buffer([](Memory& memory) {
        if (memory.device.kind != DeviceKind::host)
          throw py::buffer_error("this memory is " + name(memory.device) + "'s; the CPU cannot look at it");
        return py::buffer_info(memory.data.get(), 1, py::format_descriptor<unsigned char>::format(), 1,
                               {memory.bytes}, {1});
      })
      .def_property_readonly(
          "address", [](const Memory& memory) { return reinterpret_cast<std::uintptr_t>(memory.data.get()); })
      .def_property_readonly("device", [](const Memory& memory) { return gpu_of(memory.device); })
      .def(
          "dlpack",
          [](const Memory& memory, DType dtype, const std::vector<std::int64_t>& shape, std::size_t offset) {
            if (offset > memory.bytes || bytes_of(dtype, shape) > memory.bytes - offset)
              throw Error(Code::invalid_argument, "the memory does not have so many elements");
            return give_dlpack({memory.data, memory.data.get() + offset}, memory.device, dtype, shape);
          },
          py::arg("dtype"), py::arg("shape"), py::arg("offset") = 0)
      .def("__len__", [](const Memory& memory) { return memory.bytes; });

  py::class_<LentArray>(module, "LentArray")
      .def(py::init(&take_dlpack), py::arg("capsule"))
      .def_readonly("address", &LentArray::address)
      .def_readonly("dtype", &LentArray::dtype)
      .def_readonly("shape", &LentArray::shape)
      .def_readonly("contiguous", &LentArray::contiguous)
      .def_property_readonly("device", [](const LentArray& array) { return gpu_of(array.device); });

  py::class_<Outcome>(module, "Outcome")
      .def_readonly("shape", &Outcome::shape)
      .def_readonly("rows", &Outcome::rows)
      .def_readonly("contributed", &Outcome::contributed)
      .def_readonly("memory", &Outcome::memory)
      .def_readonly("last_rank", &Outcome::last_rank)
      .def_readonly("process_set", &Outcome::process_set)
      .def_readonly("source", &Outcome::source)
      .def_readonly("tag", &Outcome::tag)
      .def_readonly("dtype", &Outcome::dtype)
      .def_readonly("finite", &Outcome::finite);

  py::class_<Envelope>(module, "Envelope")
      .def_readonly("source", &Envelope::source)
      .def_readonly("tag", &Envelope::tag)
      .def_readonly("dtype", &Envelope::dtype)
      .def_readonly("shape", &Envelope::shape)
      .def_readonly("object", &Envelope::object);

  py::class_<Entry>(module, "Entry")
      // Arguments that every tensor has come by position, which takes half the time.
      .def(py::init(&make_entry), py::arg("operation"), py::arg("name"), py::arg("dtype"), py::arg("shape"),
           py::arg("input") = 0, py::arg("output") = 0, py::arg("process_set") = 0,
           py::arg("device") = py::none(), py::arg("stream") = 0, py::arg("op") = ReduceOp::sum,
           py::arg("prescale") = 1.0, py::arg("postscale") = 1.0, py::arg("wire") = DType::float32,
           py::arg("root") = 0, py::kw_only(), py::arg("absent") = false,
           py::arg("splits") = std::vector<std::int64_t>(), py::arg("ranks") = std::vector<int>(),
           py::arg("set_name") = std::string(), py::arg("divide_by_initial_size") = true,
           py::arg("check_finite") = false, py::arg("padded") = false, py::arg("failed_with") = std::string(),
           py::arg("strides") = std::vector<std::int64_t>(), py::arg("output_rows") = py::none());

  py::class_<CompletionQueue>(module, "CompletionQueue")
      .def(py::init())
      .def_property_readonly("fd", &CompletionQueue::fd)
      .def("take", [](CompletionQueue& queue) { return queue.take(); });

  py::class_<Operating>(module, "Handle")
      .def("has_ended", &Operating::has_ended)
      .def("let_go_if_ended", &Operating::let_go_if_ended)
      .def("poll", &Operating::poll)
      .def("wait", &Operating::wait)
      .def("wait_for_end", &Operating::wait)
      .def("wait_on", &Operating::wait_on, py::arg("stream"))
      .def("wait_for", &Operating::wait_for, py::arg("seconds"))
      .def("watch", &Operating::watch, py::arg("queue"), py::arg("token"))
      .def(
          "keep",
          [](py::object self, py::object lent) {
            self.cast<Operating&>().keep(std::move(lent));
            return self;
          },
          py::arg("lent"));

  py::class_<Blocking>(module, "BlockingScope")
      .def(py::init())
      .def("__enter__", [](Blocking& blocking) { blocking.scope.emplace(); })
      .def("__exit__", [](Blocking& blocking, const py::args&) { blocking.scope.reset(); });

  py::class_<ExpectedDelay>(module, "ExpectedDelay")
      .def("end", &ExpectedDelay::end, py::call_guard<WithoutLock>());

  py::class_<JobListener>(
      module, "JobListener",
      "The socket at which rank 0 of a job waits for the other ranks, where no launcher "
      "makes one: at a free port. Rank 0 gives it to `init`, and the program brings "
      "`coordinator` and `secret` to the other ranks, in a way that nobody else can read.")
      .def(py::init([] { return JobListener(Config::from_environment().network); }),
           "Listens at the addresses of HORA_NETWORK. Raises HoraUnavailableError if nothing can listen.")
      .def_property_readonly("coordinator", &JobListener::coordinator,
                             "\"10.0.0.1:40123\": as `init` takes it.")
      .def_property_readonly("secret",
                             [](const JobListener& listener) {
                               const Secret& secret = listener.secret();
                               return py::bytes(reinterpret_cast<const char*>(secret.data()), secret.size());
                             })
      .def_property_readonly("fd", &JobListener::fd);

  py::class_<Place>(module, "Place")
      .def(py::init<int, int, std::string, std::string, std::optional<std::pair<int, int>>,
                    std::optional<int>>(),
           py::arg("rank"), py::arg("size"), py::arg("coordinator"), py::arg("secret"), py::arg("local"),
           py::arg("listener"))
      .def_readonly("rank", &Place::rank)
      .def_readonly("size", &Place::size);

  py::class_<Runtime, std::unique_ptr<Runtime, DeleteWithoutLock>>(module, "Runtime")
      .def(py::init(&join), py::arg("mpi_communicator"), py::arg("packaged_nccl"),
           py::arg("place") = py::none())
      .def_property_readonly("rank", &Runtime::rank)
      .def_property_readonly("size", &Runtime::size)
      .def_property_readonly("local_rank", &Runtime::local_rank)
      .def_property_readonly("local_size", &Runtime::local_size)
      .def_property_readonly("cross_rank", &Runtime::cross_rank)
      .def_property_readonly("cross_size", &Runtime::cross_size)
      .def_property_readonly("uses_mpi", &Runtime::uses_mpi)
      .def_property_readonly("can_overlap", &Runtime::can_overlap)
      .def_property_readonly("is_elastic", &Runtime::is_elastic)
      .def_property_readonly("generation", &Runtime::generation)
      .def_property_readonly("state_root", &Runtime::state_root)
      .def_property_readonly("hot_spares", &Runtime::hot_spares)
      .def_property_readonly("change_is_due", &Runtime::change_is_due)
      .def("set_takes_in", &Runtime::set_takes_in, py::arg("takes_in"))
      .def("ask_to_leave", &Runtime::ask_to_leave)
      .def("leave_on_sigterm", &Runtime::leave_on_sigterm)
      .def_property_readonly("has_left", &Runtime::has_left)
      .def_property_readonly("generation_has_ended", &Runtime::generation_has_ended)
      .def("commit", &Runtime::commit, py::arg("has_state"), py::call_guard<WithoutLock>())
      .def("next_generation", &Runtime::next_generation, py::call_guard<WithoutLock>())
      .def("copy_for_later", &copy_for_later, py::arg("to"), py::arg("source"), py::arg("size"))
      .def("allocate", &allocate, py::arg("bytes"), py::arg("device") = py::none())
      .def("allocate_on", &allocate_on, py::arg("stream"), py::arg("bytes"), py::arg("device"))
      .def("memory_report", &Runtime::memory_report, py::call_guard<WithoutLock>())
      .def("submit", &submit, py::arg("entry"))
      .def("submit_group", &submit_group, py::arg("entries"))
      // By position, which takes half the time.
      .def("lend", &lend, py::arg("operation"), py::arg("name"), py::arg("input"), py::arg("output"),
           py::arg("lent"), py::arg("process_set"), py::arg("op"), py::arg("prescale"), py::arg("postscale"),
           py::arg("wire"), py::arg("root"), py::pos_only())
      .def("send", &send, py::arg("dest"), py::arg("tag"), py::arg("process_set"), py::arg("dtype"),
           py::arg("shape"), py::arg("input"), py::arg("object") = false)
      .def("receive", &receive, py::arg("source"), py::arg("tag"), py::arg("process_set"),
           py::arg("dtype") = py::none(), py::arg("shape") = std::vector<std::int64_t>(),
           py::arg("output") = 0, py::arg("object") = false)
      .def("probe", &Runtime::probe, py::arg("source"), py::arg("tag"), py::arg("process_set"),
           py::call_guard<WithoutLock>())
      .def("process_sets",
           [](const Runtime& runtime) {
             std::map<int, std::pair<std::vector<int>, std::string>> sets;
             for (auto& [number, set] : runtime.process_sets())
               sets.emplace(number, std::pair(set.ranks, set.name));
             return sets;
           })
      .def(
          "expect_delay",
          [](Runtime& runtime, const std::string& name, double seconds) {
            const double milliseconds = std::isnan(seconds) ? 0 : std::clamp(seconds * 1000, -1e12, 1e12);
            return runtime.expect_delay(name, std::chrono::milliseconds(std::llround(milliseconds)));
          },
          py::arg("name"), py::arg("seconds"), py::call_guard<WithoutLock>())
      .def(
          "require_alike",
          [](Runtime& runtime, const std::string& name, const std::string& things,
             const std::vector<std::pair<std::string, std::string>>& items, int process_set) {
            const auto all = items_of(items);
            const WithoutLock others_run;
            require_alike(runtime, name, things, all, process_set);
          },
          py::arg("name"), py::arg("things"), py::arg("items"), py::arg("process_set"))
      .def(
          "require_like",
          [](Runtime& runtime, const std::string& name, const std::string& sentence,
             const std::vector<std::pair<std::string, std::string>>& items, int root, bool compares) {
            const auto all = items_of(items);
            const WithoutLock others_run;
            require_like(runtime, name, sentence, all, root, compares);
          },
          py::arg("name"), py::arg("sentence"), py::arg("items"), py::arg("root"), py::arg("compares"))
      .def("start_timeline", &Runtime::start_timeline, py::arg("path"), py::arg("mark_cycles") = false,
           py::call_guard<WithoutLock>())
      .def("stop_timeline", &Runtime::stop_timeline, py::call_guard<WithoutLock>())
      .def_property_readonly("was_shut_down", &Runtime::was_shut_down)
      .def("shutdown", &Runtime::shutdown, py::arg("reason") = "", py::call_guard<WithoutLock>());

  module.def("let_go_of_ended", &let_go_of_ended);
  module.def("shutdown_at_exit", &shutdown_at_exit, py::arg("runtime"), py::arg("reasons"), py::arg("kept"));
  module.def("stack_signal", [] {
    const StackSignal signal = stack_signal();
    return std::pair(signal.number, signal.pipe);
  });
  module.def("adopt_stack_handler", &adopt_stack_handler);
  module.def("report_end", &report_end, py::arg("error"), py::arg("where"), py::arg("trace"));
  module.def("mpi_library", &mpi_library);
  module.def("mpi_threads", &mpi_threads);
  module.def(
      "nccl_library",
      [](const std::string& packaged) {
        const NcclFound found = nccl_library(packaged);
        return std::pair(found.path, found.version);
      },
      py::arg("packaged"), py::call_guard<WithoutLock>());
  module.def("gpu_support", &gpu_support);
  module.def("gpus", &gpus, py::call_guard<WithoutLock>());
  module.attr("__version__") = version();
}

}  // namespace hora
