// SPDX-License-Identifier: Apache-2.0
#include "python/native/operating.h"

#include "python/native/without_lock.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

namespace py = pybind11;

namespace hora {
namespace {

constexpr std::size_t kFew = 64;

/// Operations that nobody waits for any more, and whose memory is still lent.
struct Abandoned {
  Handle handle;
  py::object lent;
};

struct AllAbandoned {
  std::vector<Abandoned> operations;
  std::size_t most = kFew;  // until it is looked which have ended
};

/// Never destroyed: at the end of the process there is no interpreter any more.
AllAbandoned& abandoned() {
  static auto* all = new AllAbandoned;
  return *all;
}

/// So that Ctrl-C ends it.
template <typename Wait>
void wait_in_slices(Wait wait) {
  for (bool done = false; !done;) {
    {
      const WithoutLock without;
      done = wait(std::chrono::milliseconds(250));
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

}  // namespace

Operating::~Operating() {
  if (!lent_ || handle_.has_ended()) return;
  auto& all = abandoned();
  all.operations.push_back({std::move(handle_), std::move(lent_)});
  if (all.operations.size() > all.most) let_go_of_ended();
}

bool Operating::wait_for(double seconds) const {
  constexpr double kMost = 1e9;
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(std::llround(1000 * std::clamp(seconds, 0.0, kMost)));
  if (!handle_.has_ended()) {
    wait_in_slices([&](auto slice) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      return handle_.wait_for(std::min(slice, left)) || std::chrono::steady_clock::now() >= end;
    });
  }
  return handle_.has_ended();
}

bool Operating::let_go_if_ended() {
  if (!handle_.has_ended()) return false;
  const py::object given_back = std::move(lent_);
  return true;
}

Outcome Operating::wait() {
  // Handing the interpreter lock on and taking it again takes longer than all else here.
  if (!handle_.has_ended()) wait_in_slices([this](auto slice) { return handle_.wait_for(slice); });
  const py::object given_back = std::move(lent_);  // also if it has ended with an error
  return outcome(handle_.wait());
}

Outcome Operating::wait_on(std::uintptr_t stream) const {
  wait_in_slices([this](auto slice) { return handle_.wait_launched_for(slice); });
  const Result* result = nullptr;
  {
    const WithoutLock release;
    result = &handle_.wait_on(stream_of(stream));
  }
  return outcome(*result);
}

Outcome Operating::outcome(const Result& result) const {
  return {result.shape,       result.rows,
          result.contributed, output_ ? std::optional(*output_) : std::nullopt,
          result.last_rank,   result.process_set,
          result.source,      result.tag,
          result.dtype,       result.finite};
}

void let_go_of_ended() {
  auto& all = abandoned();
  const auto ended = std::partition(all.operations.begin(), all.operations.end(),
                                    [](const Abandoned& one) { return !one.handle.has_ended(); });
  // Apart first: what is let go may come here again.
  std::vector<Abandoned> given_back(std::make_move_iterator(ended),
                                    std::make_move_iterator(all.operations.end()));
  all.operations.erase(ended, all.operations.end());
  all.most = std::max(kFew, 2 * all.operations.size());
}

}  // namespace hora
