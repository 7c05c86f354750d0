// SPDX-License-Identifier: Apache-2.0
#include "core/watch/recorder.h"

#include "core/base/operations.h"
#include "core/negotiate/message.h"
#include "core/watch/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace hora {
namespace {

constexpr std::size_t kKeptJobs = 10;  // whose dumps stay

double seconds_before(TimePoint instant, TimePoint now) {
  return std::chrono::duration<double>(now - instant).count();
}

std::string what(const Record& record, TimePoint now) {
  return fmt::format(
      R"("name":{},"operation":"{}","dtype":"{}","shape":[{}],"process_set":{},"submitted":{:.6f})",
      json_string(record.name), name(record.operation), name(record.dtype), fmt::join(record.shape, ","),
      record.process_set, seconds_before(record.submitted, now));
}

std::string finished(const Record& record, TimePoint now) {
  return fmt::format(
      R"({{"sequence":{},{},"decided":{:.6f},"started":{:.6f},"finished":{:.6f},"status":"{}"}})",
      record.sequence, what(record, now), seconds_before(record.decided, now),
      seconds_before(record.started, now), seconds_before(record.finished, now), name(record.code));
}

/// A peer or tag of -1: any.
std::string under_way(const MessageWait& wait) {
  return fmt::format(
      R"({{"kind":"{}","peer":{},"tag":{},"process_set":{},"what":{},"bytes":{},"started":{:.6f}}})",
      kind(wait), wait.peer, wait.tag, wait.process_set, json_string(wait.what), wait.bytes,
      std::chrono::duration<double>(wait.since).count());
}

/// Of the tensor that went into it.
std::uint64_t input_bytes(const Record& record) {
  if (!traits(record.operation).has_tensor) return 0;
  std::uint64_t bytes = size_of(record.dtype);
  for (const std::int64_t length : record.shape) bytes *= static_cast<std::uint64_t>(length);
  return bytes;
}

}  // namespace

void Recorder::add(Record record) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  record.sequence = ++added_;
  bytes_ += input_bytes(record);
  if (ring_.size() < capacity_) {
    ring_.push_back(std::move(record));
    return;
  }
  ring_[next_] = std::move(record);
  next_ = (next_ + 1) % capacity_;
}

std::optional<Record> Recorder::last() const {
  const std::lock_guard lock(mutex_);
  if (ring_.empty()) return std::nullopt;
  return ring_[(next_ + ring_.size() - 1) % ring_.size()];
}

std::uint64_t Recorder::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::vector<Record> Recorder::records() const {
  const std::lock_guard lock(mutex_);
  std::vector<Record> all = ring_;
  std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(next_), all.end());
  return all;
}

std::string to_json(const Dump& dump) {
  std::vector<std::string> records;
  for (const auto& record : dump.records) records.push_back(finished(record, dump.now));
  std::vector<std::string> pending;
  for (const auto& record : dump.pending) pending.push_back("{" + what(record, dump.now) + "}");
  std::vector<std::string> messages;
  for (const auto& wait : dump.messages) messages.push_back(under_way(wait));
  return fmt::format(
      "{{\"job\":{},\"rank\":{},\"size\":{},\"pid\":{},\"host\":{},\n\"status\":\"{}\",\"message\":{},\n"
      "\"pending\":[\n{}],\n\"messages\":[\n{}],\n\"finished\":[\n{}]}}\n",
      json_string(dump.job), dump.member.rank, dump.size, dump.member.pid, json_string(dump.member.host),
      name(dump.why.code), json_string(dump.why.message), fmt::join(pending, ",\n"),
      fmt::join(messages, ",\n"), fmt::join(records, ",\n"));
}

Folder folder_of_job(const std::string& temporary, const std::string& job) {
  const Folder all = Folder::of_user(temporary).inner("dumps");
  Folder own = all.inner(job);
  all.keep_newest(kKeptJobs);
  return own;
}

std::string write_dump(const Dump& dump, const Folder& folder) {
  const std::string name = fmt::format("rank{}.json", dump.member.rank);
  folder.write(name, to_json(dump));
  return fmt::format("{}/{}", folder.path(), name);
}

}  // namespace hora
