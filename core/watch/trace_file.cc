// SPDX-License-Identifier: Apache-2.0
#include "core/watch/trace_file.h"

#include "core/base/thread.h"
#include "core/base/folder.h"
#include "core/base/log.h"
#include "core/watch/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hora {
namespace {

constexpr std::string_view kTail = "\n]\n";
constexpr std::array<const char*, kStages> kStageNames{"PACK", "TRANSFER", "UNPACK"};

double microseconds(TimePoint instant, TimePoint origin) {
  return std::chrono::duration<double, std::micro>(instant - origin).count();
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return result;
}

/// "ph":"X" is a span; the viewer nests those that lie within each other.
std::string span(const std::string& name, int rank, int row, TimePoint begin, TimePoint end, TimePoint origin,
                 const std::string& arguments = "") {
  return fmt::format(R"({{"name":{},"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}}})",
                     json_string(name), rank, row, microseconds(begin, origin), microseconds(end, begin),
                     arguments.empty() ? "" : fmt::format(R"(,"args":{{{}}})", arguments));
}

std::string label(const char* what, int rank, int row, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what, rank, row,
                     json_string(name));
}

}  // namespace

TraceFile::TraceFile(std::string path, std::vector<Member> members, int rank)
    : path_(std::move(path)),
      members_(std::move(members)),
      rank_(rank),
      origin_(Clock::now()),
      wall_(std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count()),
      file_(create_file(path_)) {
  if (!file_) {
    throw Error(Code::invalid_argument,
                fmt::format("cannot write the timeline {}: {}", path_, std::strerror(errno)));
  }
  file_ << "[" << kTail;
  for (const auto& member : members_) {
    emit(label("process_name", member.rank, 0, describe(member)));
    emit(fmt::format(
        R"({{"name":"process_sort_index","ph":"M","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})",
        member.rank));
  }
  flush();
  thread_ = start_thread("writes the timeline", [this] { run(); });
}

TraceFile::~TraceFile() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void TraceFile::add(int rank, TracePart part) {
  {
    const std::lock_guard lock(mutex_);
    parts_.emplace_back(rank, std::move(part));
  }
  work_.notify_one();
}

void TraceFile::run() {
  bool ends = false;
  while (!ends) {
    std::deque<std::pair<int, TracePart>> parts;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [this] { return ends_ || !parts_.empty(); });
      parts.swap(parts_);
      ends = ends_;
    }
    for (const auto& [rank, part] : parts) write(rank, part);
    flush();
  }
}

void TraceFile::write(int rank, const TracePart& part) {
  const TimePoint origin = origin_of(rank, part);
  for (const auto& traced : part.operations) write_operation(rank, traced, origin);
  for (const auto instant : part.cycles) {
    emit(fmt::format(R"({{"name":"CYCLE_START","ph":"i","s":"p","pid":{},"tid":0,"ts":{:.3f}}})", rank,
                     microseconds(instant, origin)));
  }
}

void TraceFile::write_operation(int rank, const Traced& traced, TimePoint origin) {
  const Record& record = traced.record;
  const int row = this->row(rank, traced);
  const std::string operation = upper(name(record.operation));
  emit(span("NEGOTIATE_" + operation, rank, row, record.submitted, record.decided, origin));
  emit(span(record.code == Code::ok ? operation : "ERROR", rank, row, record.decided, record.finished, origin,
            fmt::format(R"("dtype":"{}","shape":"[{}]","process_set":{},"tensors_in_batch":{},"status":"{}")",
                        name(record.dtype), fmt::join(record.shape, ", "), traced.group, traced.together,
                        name(record.code))));
  if (record.code != Code::ok) return;
  emit(span("WAIT", rank, row, record.decided, record.started, origin));
  for (const auto& [stage, begin, end] : traced.spans)
    emit(span(kStageNames.at(static_cast<std::size_t>(stage)), rank, row, begin, end, origin));
}

int TraceFile::row(int rank, const Traced& traced) {
  const std::string name = traced.group == kWorld
                               ? traced.record.name
                               : fmt::format("{} (process set {})", traced.record.name, traced.group);
  const auto [known, fresh] = rows_.try_emplace({rank, name}, static_cast<int>(rows_.size()) + 1);
  if (fresh) emit(label("thread_name", rank, known->second, name));
  return known->second;
}

void TraceFile::emit(const std::string& event) {
  events_ += std::exchange(first_, false) ? "\n" : ",\n";
  events_ += event;
}

void TraceFile::flush() {
  if (events_.empty()) return;
  file_.seekp(-static_cast<std::streamoff>(kTail.size()), std::ios::end);
  file_ << std::exchange(events_, {}) << kTail << std::flush;
  if (!file_ && !std::exchange(complained_, true))
    log(LogLevel::error, fmt::format("cannot write the timeline {}: {}", path_, std::strerror(errno)));
}

TimePoint TraceFile::origin_of(int rank, const TracePart& part) const {
  const auto& sender = members_[static_cast<std::size_t>(rank)];
  if (sender.host == members_[static_cast<std::size_t>(rank_)].host) return origin_;
  return part.now - std::chrono::nanoseconds(part.wall - wall_);
}

}  // namespace hora
