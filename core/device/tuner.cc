// SPDX-License-Identifier: Apache-2.0
#include "core/device/tuner.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace hora {
namespace {

constexpr int kWarmUp = 4;  // calls with page faults and cold caches
constexpr int kTurns = 16;
constexpr std::size_t kFew = 4;  // calls, from which a cost is known
// The first calls of a trial find caches as the other way has left them. Trials take an even number of calls:
// work of two kinds that alternate, such as two batches of each step, keeps its phase in the leader's
// window.
constexpr int kUntimed = 2;
constexpr int kTrial = kUntimed + static_cast<int>(kFew);
constexpr int kShortTrial = 4;          // enough for a way
constexpr double kHopeless = 3;         // that takes so many times as long
constexpr double kTrialShare = 0.01;    // of the time, at the most, once a class is known
constexpr std::size_t kLeastGap = 128;  // calls, then
constexpr std::size_t kMostGap = 16'384;

}  // namespace

Tuner::Tuner(std::size_t least, std::optional<bool> second) : least_(least), second_(second) {
  std::iota(decides_.begin(), decides_.end(), std::size_t{0});
}

std::size_t Tuner::class_of(std::size_t bytes) const {
  return static_cast<std::size_t>(std::bit_width(std::max(bytes, least_)));
}

std::size_t Tuner::way(std::size_t bytes) const {
  if (second_) return *second_ ? 1 : 0;
  const std::size_t own = class_of(bytes);
  const std::size_t decides = decides_.at(own);
  return bytes >= least_ && decides == own ? classes_.at(own).next() : classes_.at(decides).leader();
}

void Tuner::note(std::size_t way, std::size_t bytes, std::chrono::duration<double> time) {
  if (second_ || bytes < least_) return;
  const double cost = time.count() / static_cast<double>(bytes);
  SizeClass& own = classes_.at(class_of(bytes));
  const SizeClass& decides = classes_.at(decides_.at(class_of(bytes)));
  const bool was_decided = own.decided();
  if (&decides == &own) {
    own.note(way, cost);
  } else if (way == decides.leader()) {
    own.inherit(decides, cost);
  }
  if (own.decided() && !was_decided) find_deciders();
}

void Tuner::find_deciders() {
  for (std::size_t own = 0; own < kClasses; ++own) {
    for (std::size_t distance = 0; distance < kClasses; ++distance) {
      const bool below = distance <= own && classes_.at(own - distance).decided();
      const bool above = own + distance < kClasses && classes_.at(own + distance).decided();
      if (!below && !above) continue;
      decides_.at(own) = below ? own - distance : own + distance;
      break;
    }
  }
}

void Tuner::Window::add(double cost) {
  if (count_ == 0) next_ = 0;
  costs_.at(next_) = cost;
  next_ = (next_ + 1) % costs_.size();
  count_ = std::min(count_ + 1, costs_.size());
}

double Tuner::Window::cost() const {
  auto sorted = costs_;
  const auto half = static_cast<std::ptrdiff_t>(count_ / 2);
  std::fill(sorted.begin() + static_cast<std::ptrdiff_t>(count_), sorted.end(),
            std::numeric_limits<double>::infinity());
  std::sort(sorted.begin(), sorted.end());  // all of it: GCC 14 warns of a part under ThreadSanitizer
  return std::accumulate(sorted.begin(), sorted.begin() + half, 0.0) / static_cast<double>(half);
}

bool Tuner::SizeClass::decided() const { return turns_ == kTurns; }

void Tuner::SizeClass::inherit(const SizeClass& other, double cost) {
  const std::size_t leads = other.leader();
  costs_.at(leads) = cost;
  costs_.at(1 - leads) = cost * other.costs_.at(1 - leads) / other.costs_.at(leads);
  gap_ = other.gap_;
  turns_ = kTurns;
}

/// 0110 1001 ...: calls that alternate, such as two batches of each step, do not always find the same way.
std::size_t Tuner::SizeClass::next() const {
  if (turns_ < kTurns) return static_cast<std::size_t>(std::popcount(static_cast<unsigned>(turns_)) % 2);
  return led_ < gap_ ? leader() : 1 - leader();
}

void Tuner::SizeClass::note(std::size_t way, double cost) {
  if (turns_ < kTurns) return note_turn(way, cost);
  if (way == leader()) return note_leader(cost);
  note_trial(cost);
}

void Tuner::SizeClass::note_turn(std::size_t way, double cost) {
  if (++turns_ <= kWarmUp) return;
  windows_.at(way).add(cost);
  if (windows_.at(way).count() >= kFew) costs_.at(way) = windows_.at(way).cost();
}

void Tuner::SizeClass::note_leader(double cost) {
  const std::size_t leads = leader();
  windows_.at(leads).add(cost);
  if (windows_.at(leads).count() >= kFew) costs_.at(leads) = windows_.at(leads).cost();
  ++led_;
  if (leader() == leads) return;
  windows_.at(leader()).clear();
  led_ = 0;
  gap_ = kFirstGap;
}

void Tuner::SizeClass::note_trial(double cost) {
  const std::size_t tries = 1 - leader();
  if (tried_ == 0) windows_.at(tries).clear();
  if (++tried_ <= kUntimed) return;
  windows_.at(tries).add(cost);
  const bool hopeless = tried_ == kShortTrial && windows_.at(tries).cost() > kHopeless * costs_.at(1 - tries);
  if (tried_ == kTrial || hopeless) end_trial();
}

/// The gap doubles while little is known, up to the one at which trials take their share of the time.
void Tuner::SizeClass::end_trial() {
  const std::size_t led = leader();
  costs_.at(1 - led) = windows_.at(1 - led).cost();
  if (leader() == led) {
    const double lost = tried_ * (costs_.at(1 - led) / costs_.at(led) - 1);  // in calls of the leading way
    const auto enough = static_cast<std::size_t>(std::clamp<double>(lost / kTrialShare, kLeastGap, kMostGap));
    gap_ = std::min(2 * gap_, enough);
  } else {
    gap_ = kFirstGap;
  }
  led_ = 0;
  tried_ = 0;
}

}  // namespace hora
