// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/graph_watch.h"

#include "core/base/clock.h"
#include "core/base/dtypes.h"
#include "core/base/log.h"
#include "core/base/status_of.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace hora {
namespace {

constexpr std::byte kNanByte{0xFF};  // a float of 16 to 64 bits that has nothing but these is a NaN

/// How long the thread sleeps between two looks at the requests.
class PollInterval {
 public:
  void sleep(bool found) {
    const TimePoint now = Clock::now();
    if (found) last_found_ = now;
    const auto quiet = now - last_found_;
    auto time = std::chrono::microseconds(1000);
    if (quiet < std::chrono::seconds(1)) time = std::chrono::microseconds(50);
    if (quiet < std::chrono::milliseconds(1)) time = std::chrono::microseconds(20);
    std::this_thread::sleep_for(time);
  }

 private:
  TimePoint last_found_ = Clock::now();
};

/// Fills the output of an operation that has failed.
void spoil(const CapturedOperation& operation, Stream& own) {
  if (operation.bytes > 0 && is_float(numbers_of(operation.entry.dtype).dtype))
    own.set_bytes(operation.written, kNanByte, operation.bytes);
}

/// How an operation ended, which it has.
Status end_of(const Handle& handle) {
  try {
    return handle.wait().status;
  } catch (const Error& error) {
    return status_of(error);
  }
}

}  // namespace

/// The thread alone uses it.
struct GraphWatch::Course {
  explicit Course(CapturedGroup what) : group(std::move(what)) {}

  /// No run of the graph is under way, and none will be.
  [[nodiscard]] bool is_over() const {
    return group.request->is_over() && (is_lost || (handles.empty() && !released));
  }
  /// Lets the graph go on, behind what is on `own`.
  void release(Stream& own) {
    group.request->release(own);
    released = own.mark();
  }
  [[nodiscard]] bool operations_have_ended() const {
    return std::all_of(handles.begin(), handles.end(),
                       [](const Handle& handle) { return handle.has_ended(); });
  }

  CapturedGroup group;
  // Of the run under way:
  std::shared_ptr<GraphRun> run = {};
  std::vector<Handle> handles = {};
  std::shared_ptr<Event> released = {};  ///< when this is reached, the release by this thread has been done
  std::uint64_t generation = 0;          ///< in which it has begun
  bool is_lost = false;                  ///< the GPU has failed: no run ends any more
};

GraphWatch::GraphWatch() = default;
GraphWatch::~GraphWatch() = default;

void GraphWatch::submit_by(Submit submit) {
  const std::lock_guard lock(submitting_);
  submit_ = std::move(submit);
}

void GraphWatch::add(CapturedGroup group) {
  auto course = std::make_unique<Course>(std::move(group));
  const std::lock_guard lock(mutex_);
  added_.push_back(std::move(course));
  changed_.notify_all();
}

void GraphWatch::check() {
  if (!has_failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  const auto failure = std::exchange(failure_, std::nullopt);
  has_failed_.store(false, std::memory_order_release);
  if (failure) throw Error(*failure);
}

void GraphWatch::forget_failures() {
  const std::lock_guard lock(mutex_);
  ++generation_;
  failure_.reset();
  has_failed_.store(false, std::memory_order_release);
}

bool GraphWatch::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  return added_.empty() && watched_ == 0;
}

void GraphWatch::run(Stream& own) {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // else each sleep takes 50 µs longer
  std::vector<std::unique_ptr<Course>> courses;
  PollInterval interval;
  while (take_added(courses)) {
    bool found = false;
    for (const auto& course : courses) found = advance(*course, own) || found;
    interval.sleep(found);
  }
}

/// Waits until there are graphs. Returns false if there will be none.
bool GraphWatch::take_added(std::vector<std::unique_ptr<Course>>& courses) {
  std::erase_if(courses, [](const auto& course) { return course->is_over(); });  // without the mutex
  std::unique_lock lock(mutex_);
  watched_ = courses.size();
  if (courses.empty()) changed_.wait(lock, [this] { return closed_ || !added_.empty(); });
  std::move(added_.begin(), added_.end(), std::back_inserter(courses));
  added_.clear();
  watched_ = courses.size();
  return !courses.empty();
}

/// Takes a run one step further. Returns whether there was something to do.
bool GraphWatch::advance(Course& course, Stream& own) {
  if (course.is_lost) return false;
  try {
    if (course.released) {
      if (!course.released->reached()) return false;
      course.released = nullptr;
      return true;
    }
    if (!course.handles.empty()) return course.operations_have_ended() && end(course, own);
    return course.group.request->is_made() && begin(course, own);
  } catch (const std::exception& error) {
    course.is_lost = true;
    fail(status_of(error), course.generation);
    return false;
  }
}

bool GraphWatch::begin(Course& course, Stream& own) {
  const auto& operations = course.group.operations;
  std::vector<Entry> entries;
  entries.reserve(operations.size());
  for (const auto& operation : operations) entries.push_back(operation.entry);
  course.run = std::make_shared<GraphRun>(course.group.request, entries.size());
  course.generation = generation_;
  try {
    const std::lock_guard lock(submitting_);
    if (!submit_) throw Error(Code::aborted, "this process has left its job");
    course.handles = submit_(std::move(entries), course.run);
  } catch (const std::exception& error) {
    fail(status_of(error), course.generation);
    for (const auto& operation : operations) spoil(operation, own);
    course.release(own);
  }
  return true;
}

bool GraphWatch::end(Course& course, Stream& own) {
  const auto handles = std::exchange(course.handles, {});
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const Status status = end_of(handles[i]);
    if (status.ok()) continue;
    fail(status, course.generation);
    // Else the graph goes on already, and the memory may be used for something else.
    if (!course.run->has_released()) spoil(course.group.operations[i], own);
  }
  if (!course.run->has_released()) course.release(own);
  return true;
}

void GraphWatch::fail(const Status& status, std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  if (failure_ || generation != generation_) return;
  failure_ = Status{status.code, fmt::format("an operation in a CUDA graph has failed: {}", status.message)};
  has_failed_.store(true, std::memory_order_release);
  if (status.code == Code::generation_ended) return;  // the job goes on, and makes the step again
  log(LogLevel::error,
      fmt::format(
          "an operation in a CUDA graph has failed, so its output is NaN or undefined; the next call of Hora "
          "throws this error: {}",
          status.message));
}

}  // namespace hora
