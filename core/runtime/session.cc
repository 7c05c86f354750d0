// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/session.h"

#include "core/base/log.h"
#include "core/base/operations.h"
#include "core/launcher/launcher_line.h"
#include "core/launcher/question.h"
#include "core/runtime/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace hora {
namespace {

constexpr std::string_view kUnnamed =
    ".noname.";  // in the name of an operation without one; its number follows

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

/// Calls use(gpu) with the rank's GPU, which an entry is on; errors name both.
template <typename Use>
auto on_gpu(OwnGpu& own, const Entry& entry, const Use& use) {
  try {
    return use(*own.open(entry.device.index));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("'{}' on {}: {}", entry.name, name(entry.device), error.what()));
  }
}

/// Of an output that the entry brings.
std::vector<std::int64_t> output_shape(const Entry& entry, const ByteRange& output) {
  const std::size_t bytes = output.end - output.begin;
  std::vector<std::int64_t> shape = entry.shape;
  if (entry.output_rows) {
    shape.front() = *entry.output_rows;
  } else if (entry.operation == Operation::reducescatter && bytes > 0) {
    shape.front() =
        shape.front() * static_cast<std::int64_t>(bytes) / static_cast<std::int64_t>(bytes_of(entry));
  }
  return shape;
}

void check_same_set(const Asked& first, const Asked& other) {
  if (other.group == first.group) return;
  throw Error(
      Code::invalid_argument,
      fmt::format("'{}' and '{}' cannot be in one group of operations: they are of different process sets",
                  first.request.name, other.request.name));
}

bool is_unnamed(const std::string& name) { return name.find(kUnnamed) != std::string::npos; }

/// Numbers of captured operations would differ between the ranks of a graph and processes that come later.
void check_named(const std::string& name) {
  if (!is_unnamed(name)) return;
  throw Error(Code::invalid_argument,
              fmt::format("'{}' cannot be part of a CUDA graph in an elastic job without a name, by which "
                          "ranks that join later know it; give it a name",
                          name));
}

/// The name that an operation has in a graph. The numbers of operations without a name begin again when ranks
/// have joined. A graph stays, so it has other names, which nothing outside of graphs has.
std::string name_in_graph(const std::string& name, std::uint64_t number) {
  const auto begin = name.find(kUnnamed);
  if (begin == std::string::npos) return name;
  const auto digits = begin + kUnnamed.size();
  const auto end = std::min(name.find_first_not_of("0123456789", digits), name.size());
  return fmt::format("{}.captured.{}{}", name.substr(0, begin), number, name.substr(end));
}

void check_memory(const Gpu& gpu, const Entry& entry) {
  if (entry.input != nullptr) gpu.check(entry.input, "its input");
  if (entry.output != nullptr && entry.output != entry.input) gpu.check(entry.output, "its output");
}

}  // namespace

Session::Session(World world, const Config& config, Lasting& lasting, bool goes_on)
    : config_(config),
      world_(std::move(world)),
      lasting_(lasting),
      table_(lasting.lent, EndCode(goes_on)),
      sets_(world_.control->size()),
      timeline_(world_.control->size()),
      messages_(*world_.messenger, world_.control->rank(), sets_, lasting.lent, EndCode(goes_on)),
      loop_(world_, config_, table_, sets_, timeline_, *lasting.delays, lasting.gpu, messages_),
      engine_(std::make_shared<Engine>(loop_, world_.vote != nullptr)) {
  table_.helped_by(engine_);
  if (lasting.captured.any()) table_.take_only_computed();  // a graph of a former generation may run
  engine_->start();
}

Session::~Session() { engine_->stop(); }

bool Session::can_overlap() const {
  return world_.control->size() == 1 || !world_.vote || world_.vote->cores_for_each() > 1;
}

/// Throws the error of an operation of a graph, whose run could not throw it.
void Session::check_usable() {
  engine_->check_process();
  lasting_.captured.check();
}

Asked Session::admitted(const Entry& entry) const { return admit(entry, world_.control->rank(), sets_); }

std::vector<Asked> Session::admitted(const std::vector<Entry>& group) const {
  std::vector<Asked> asked;
  asked.reserve(group.size());
  for (const auto& entry : group) asked.push_back(admitted(entry));
  return asked;
}

/// Whether the entry is to become a part of a graph.
bool Session::is_captured(const Entry& entry) {
  if (entry.device.kind == DeviceKind::host) return false;
  return on_gpu(lasting_.gpu, entry, [&](Gpu& gpu) { return gpu.is_captured(entry.stream); });
}

/// Sets what concerns the memory of an entry on a GPU, and from which point on the entry may be touched.
void Session::prepare(const Entry& entry, Asked& asked, const std::shared_ptr<GraphRun>& run) {
  if (entry.device.kind == DeviceKind::host) return;
  on_gpu(lasting_.gpu, entry, [&](Gpu& gpu) {
    engine_->keep_to_own_thread();  // which CUDA and NCCL are used on
    if (!run) {
      check_memory(gpu, entry);
      asked.ready = lasting_.gpu.mark(gpu, entry.stream);
    }
    if (entry.input == entry.output)
      asked.request.symmetric_address =
          lasting_.gpu.module().symmetric_address(lasting_.gpu.opened(), entry.input);
    asked.request.padded = entry.padded && asked.request.symmetric_address != 0;
    asked.run = run;
  });
}

Handle Session::submit(Entry entry) {
  if (concerns_members(entry.operation)) finish_graphs();  // what these ask for comes before
  check_usable();
  Asked asked = admitted(entry);
  if (is_captured(entry)) return capture({std::move(entry)}, {std::move(asked)}).front();
  const std::size_t bytes = bytes_of(entry);
  prepare(entry, asked, nullptr);
  entry.name = asked.request.name;
  const int left = asked.request.operation == Operation::remove_process_set ? asked.group : kWorld;
  Handle handle = table_.put(std::move(entry), std::move(asked), Clock::now());
  if (left != kWorld) sets_.remove(left);
  engine_->submitted(bytes);
  return handle;
}

std::vector<Handle> Session::submit(std::vector<Entry> group) {
  check_usable();
  std::vector<Asked> asked = admitted(group);
  const auto captured = [this](const Entry& entry) { return is_captured(entry); };
  if (std::any_of(group.begin(), group.end(), captured)) return capture(std::move(group), asked);
  return put(std::move(group), std::move(asked), nullptr);
}

std::vector<Handle> Session::submit_again(std::vector<Entry> group, const std::shared_ptr<GraphRun>& run) {
  table_.take_only_computed();
  std::vector<Asked> asked = admitted(group);
  for (std::size_t i = 0; i < group.size(); ++i) table_.launched().check_has(group[i], asked[i].group);
  return put(std::move(group), std::move(asked), run);
}

std::vector<Handle> Session::put(std::vector<Entry> group, std::vector<Asked> asked,
                                 const std::shared_ptr<GraphRun>& run) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    prepare(group[i], asked[i], run);
    bytes += bytes_of(group[i]);
    group[i].name = asked[i].request.name;
    if (group.size() > 1) asked[i].request.bundle = asked.front().request.name;
    check_same_set(asked.front(), asked[i]);
  }
  auto handles = table_.put(std::move(group), std::move(asked), Clock::now());
  engine_->submitted(bytes);
  return handles;
}

std::vector<Handle> Session::capture(std::vector<Entry> group, const std::vector<Asked>& asked) {
  const void* const stream = group.front().stream;
  std::vector<CapturedOperation> operations;
  operations.reserve(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    Entry& entry = group[i];
    entry.name = asked[i].request.name;
    check_same_set(asked.front(), asked[i]);
    check_capturable(entry);
    if (table_.end_code().goes_on()) check_named(entry.name);
    if (entry.device.kind == DeviceKind::host || entry.stream != stream) {
      throw Error(
          Code::invalid_argument,
          fmt::format("'{}' and '{}' cannot be in one group of operations while one of them is captured "
                      "into a CUDA graph: they are not submitted on the same stream",
                      asked.front().request.name, entry.name));
    }
    on_gpu(lasting_.gpu, entry, [&](Gpu& gpu) { check_memory(gpu, entry); });
    table_.launched().check_has(entry, asked[i].group);
    const bool only_sends = entry.operation == Operation::broadcast && entry.root == world_.control->rank();
    const ByteRange written = only_sends ? ByteRange{} : asked[i].memory.written;
    auto shape = output_shape(entry, asked[i].memory.written);
    operations.push_back({std::move(entry), std::move(shape), reinterpret_cast<void*>(written.begin),
                          written.end - written.begin});
  }
  if (is_unnamed(asked.front().request.name)) {
    const std::uint64_t number = lasting_.captured.next_number(asked.front().group);
    for (auto& operation : operations) operation.entry.name = name_in_graph(operation.entry.name, number);
  }
  table_.take_only_computed();
  return lasting_.captured.capture(lasting_.gpu.opened(), std::move(operations));
}

void Session::finish_graphs() {
  engine_->check_process();
  if (!table_.is_closed()) lasting_.finish_graphs();
}

Handle Session::send(Message message) {
  check_usable();
  return messages_.send(std::move(message));
}

Handle Session::receive(Message wanted) {
  check_usable();
  return messages_.receive(std::move(wanted));
}

std::optional<Envelope> Session::probe(int source, int tag, int process_set) {
  check_usable();
  return messages_.probe(source, tag, process_set);
}

std::uint64_t Session::next_number(int process_set) {
  const std::lock_guard lock(numbers_mutex_);
  return ++numbers_[process_set];
}

void Session::return_number(std::uint64_t number, int process_set) {
  const std::lock_guard lock(numbers_mutex_);
  std::uint64_t& last = numbers_[process_set];
  if (last == number && last > 0) --last;
}

std::shared_ptr<std::byte> Session::allocate(std::size_t bytes) {
  engine_->check_process();
  return world_.lane.collective->allocate(bytes);
}

void Session::start_timeline(const std::string& path, bool mark_cycles) {
  engine_->check_process();
  if (world_.control->rank() != 0) return;
  timeline_.start(path, mark_cycles, world_.members, world_.control->rank());
  loop_.wake_up().ring();
}

void Session::stop_timeline() {
  engine_->check_process();
  if (!timeline_.stop()) return;
  loop_.wake_up().ring();
  timeline_.await_end();
}

/// The reason for which this rank fails, for the others. Its own failure may follow from another rank's,
/// which they have not heard of: then the reason names that.
std::string Session::with_its_cause(const std::string& reason) const {
  const std::string failed = table_.first_aborted();
  const std::string first_line = failed.substr(0, failed.find('\n'));
  if (reason.find(first_line) != std::string::npos) return reason;
  return fmt::format("{}; the first operation that failed there was {}", reason, first_line);
}

void Session::leave(const std::string& reason) {
  const std::lock_guard lock(leaving_mutex_);
  if (!engine_->joinable()) return;
  if (reason.empty()) {
    loop_.leave();
  } else {
    report_reason(reason);
    loop_.stop({Code::aborted, with_its_cause(reason)});
  }
  engine_->join();
  messages_.await_end();
}

void Session::fail(const std::string& why) {
  report_reason(why);
  end({Code::aborted, with_its_cause(why)});
}

void Session::end(const Status& why) {
  loop_.stop(why);
  const std::lock_guard lock(leaving_mutex_);
  engine_->join();
}

void Session::stop() { engine_->stop(); }

void Session::await_gpu(std::chrono::milliseconds most, const std::function<void()>& check) {
  if (!loop_.left_gpu_behind()) return;
  const TimePoint begin = Clock::now();
  log(LogLevel::warning, "the ranks have ended what they did together, and this rank waits for its GPU");
  loop_.await_gpu([&] {
    check();
    if (Clock::now() - begin < most) return;
    throw Error(
        Code::internal,
        fmt::format("the GPU has not ended what it was given within {} s (HORA_START_TIMEOUT); it may "
                    "still write to tensors, so this process cannot join other ranks",
                    std::chrono::duration<double>(most).count()));
  });
}

Reply Session::answer(const Question& question) {
  if (question.kind == QuestionKind::health) {
    if (world_.control->rank() == 0) loop_.inquire(question.number);
    return {question.number, ReplyKind::health, encode(loop_.state().health())};
  }
  try {
    const std::string path = loop_.state().write_dump("hrun dump asks for it");
    return {question.number, ReplyKind::dumped, text_as_bytes(std::filesystem::absolute(path).string())};
  } catch (const std::exception& error) {
    return {question.number, ReplyKind::failed, text_as_bytes(error.what())};
  }
}

}  // namespace hora
