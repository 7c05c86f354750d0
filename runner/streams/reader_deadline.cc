// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/reader_deadline.h"

#include "runner/streams/relay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora::hrun {
namespace {

constexpr std::chrono::milliseconds kLeastGrace{1000};

}  // namespace

void ReaderDeadline::turn(TimePoint now) {
  const bool waits = relay_.held_up() && relay_.written() == written_;
  written_ = relay_.written();
  if (!waits || deadline_ == TimePoint::max()) {
    deadline_ = now + std::max(grace_, kLeastGrace);
  } else if (now >= deadline_) {
    relay_.abandon();
  }
}

bool ReaderDeadline::over(bool given_up) {
  if (!given_up && !relay_.done()) return false;
  if (relay_.abandoned() > 0 && !std::exchange(told_, true)) {
    relay_.print(fmt::format("hrun: its output was not read to the end: {} bytes were left unwritten\n",
                             relay_.abandoned()));
  }
  return given_up || relay_.done();
}

}  // namespace hora::hrun
