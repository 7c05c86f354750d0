// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/session.h"

#include "core/base/log.h"
#include "core/launcher/launcher_line.h"
#include "core/launcher/question.h"
#include "core/runtime/admission.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace hora {
namespace {

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
  engine_->start();
}

Session::~Session() { engine_->stop(); }

bool Session::can_overlap() const {
  return world_.control->size() == 1 || !world_.vote || world_.vote->cores_for_each() > 1;
}

/// As `admit`; tensors on a GPU have a point before which they are not touched.
Asked Session::ask(const Entry& entry) {
  Asked asked = admit(entry, world_.control->rank(), sets_);
  if (entry.device.kind == DeviceKind::host) return asked;
  OwnGpu& gpu = lasting_.gpu;
  try {
    const auto opened = gpu.open(entry.device.index);
    engine_->keep_to_own_thread();  // which CUDA and NCCL are used on
    if (entry.input != nullptr) opened->check(entry.input, "its input");
    if (entry.output != nullptr && entry.output != entry.input) opened->check(entry.output, "its output");
    asked.ready = gpu.mark(*opened, entry.stream);
    if (entry.input == entry.output)
      asked.request.symmetric_address = gpu.module().symmetric_address(opened, entry.input);
    asked.request.padded = entry.padded && asked.request.symmetric_address != 0;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("'{}' on {}: {}", entry.name, name(entry.device), error.what()));
  }
  return asked;
}

Handle Session::submit(Entry entry) {
  engine_->check_process();
  const std::size_t bytes = bytes_of(entry);
  Asked asked = ask(entry);
  entry.name = asked.request.name;
  const int left = asked.request.operation == Operation::remove_process_set ? asked.group : kWorld;
  Handle handle = table_.put(std::move(entry), std::move(asked), Clock::now());
  if (left != kWorld) sets_.remove(left);
  engine_->submitted(bytes);
  return handle;
}

std::vector<Handle> Session::submit(std::vector<Entry> group) {
  engine_->check_process();
  std::vector<Asked> asked;
  asked.reserve(group.size());
  std::size_t bytes = 0;
  for (auto& entry : group) {
    bytes += bytes_of(entry);
    asked.push_back(ask(entry));
    entry.name = asked.back().request.name;
    if (group.size() > 1) asked.back().request.bundle = asked.front().request.name;
    if (asked.back().group == asked.front().group) continue;
    throw Error(Code::invalid_argument,
                fmt::format("'{}' and '{}' cannot be in one group of operations: they are of different "
                            "process sets",
                            asked.front().request.name, entry.name));
  }
  auto handles = table_.put(std::move(group), std::move(asked), Clock::now());
  engine_->submitted(bytes);
  return handles;
}

Handle Session::send(Message message) {
  engine_->check_process();
  return messages_.send(std::move(message));
}

Handle Session::receive(Message wanted) {
  engine_->check_process();
  return messages_.receive(std::move(wanted));
}

std::optional<Envelope> Session::probe(int source, int tag, int process_set) {
  engine_->check_process();
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
