// SPDX-License-Identifier: Apache-2.0
#include "core/device/tuner.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace hora {
namespace {

constexpr int kWarmUp = 4;  // page faults and cold caches
constexpr int kTurns = 16;
constexpr double kWeight = 1.0 / 8;  // of a new cost of the way that leads
constexpr double kOutlier = 2;       // one that was interrupted counts as so much more than usual
// The first retrial of a row finds caches as the other way has left them.
constexpr int kRetrials = 5;
constexpr double kHopeless = 3;  // then one retrial is enough
constexpr double kClear = 1.5;
constexpr std::size_t kMostGap = 16'384;  // calls

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

bool Tuner::SizeClass::decided() const { return turns_ == kTurns; }

void Tuner::SizeClass::inherit(const SizeClass& other, double cost) {
  const std::size_t leads = other.leader();
  costs_.at(leads) = cost;
  costs_.at(1 - leads) = cost * other.costs_.at(1 - leads) / other.costs_.at(leads);
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
  note_retrial(cost);
}

void Tuner::SizeClass::note_turn(std::size_t way, double cost) {
  if (++turns_ <= kWarmUp) return;
  costs_.at(way) += (cost - costs_.at(way)) / ++times_.at(way);
}

void Tuner::SizeClass::note_leader(double cost) {
  double& usual = costs_.at(leader());
  usual += kWeight * (std::min(cost, kOutlier * usual) - usual);
  ++led_;
}

void Tuner::SizeClass::note_retrial(double cost) {
  const std::size_t leads = leader();
  const double usual = costs_.at(leads);
  if (retrials_++ == 0) return;
  retried_ += (cost - retried_) / (retrials_ - 1);
  if (retrials_ < kRetrials && cost < kHopeless * usual) return;
  costs_.at(1 - leads) = retried_;
  const std::size_t longer = retried_ > kClear * usual ? 8 : 2;
  gap_ = leader() == leads ? std::min(longer * gap_, kMostGap) : kFirstGap;
  led_ = 0;
  retrials_ = 0;
  retried_ = 0;
}

}  // namespace hora
