// SPDX-License-Identifier: Apache-2.0
#include "core/comm/rank_set.h"

#include <algorithm>
#include <utility>

namespace hora {

RankSet::RankSet(int first, int end) {
  if (first < end) append({first, end});
}

RankSet::RankSet(std::span<const int> ranks) {
  for (const int rank : ranks) append({rank, rank + 1});
}

void RankSet::append(Run run) {
  if (!runs_.empty() && runs_.back().end >= run.first) {
    const int end = std::max(runs_.back().end, run.end);
    size_ += end - std::exchange(runs_.back().end, end);
    return;
  }
  runs_.push_back(run);
  size_ += run.end - run.first;
}

void RankSet::insert(Run run) {
  const auto first = std::lower_bound(runs_.begin(), runs_.end(), run.first,
                                      [](const Run& own, int wanted) { return own.end < wanted; });
  auto next = first;  // after those that it touches, which it takes in
  for (; next != runs_.end() && next->first <= run.end; ++next) {
    run = {std::min(run.first, next->first), std::max(run.end, next->end)};
    size_ -= next->end - next->first;
  }
  size_ += run.end - run.first;
  if (next == first) {
    runs_.insert(first, run);
  } else {
    *first = run;
    runs_.erase(std::next(first), next);
  }
}

bool RankSet::operator<(const RankSet& other) const {
  return std::lexicographical_compare(runs_.begin(), runs_.end(), other.runs_.begin(), other.runs_.end(),
                                      [](const Run& one, const Run& another) {
                                        return std::pair(one.first, one.end) <
                                               std::pair(another.first, another.end);
                                      });
}

bool RankSet::contains(int rank) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), rank,
                                      [](int wanted, const Run& run) { return wanted < run.first; });
  return after != runs_.begin() && rank < std::prev(after)->end;
}

bool RankSet::intersects(const RankSet& other) const {
  auto own = runs_.begin();
  auto theirs = other.runs_.begin();
  while (own != runs_.end() && theirs != other.runs_.end()) {
    if (own->end <= theirs->first) {
      ++own;
    } else if (theirs->end <= own->first) {
      ++theirs;
    } else {
      return true;
    }
  }
  return false;
}

std::vector<int> RankSet::list() const {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(size_));
  for (const auto& [first, end] : runs_) {
    for (int rank = first; rank < end; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

void RankSet::add(const RankSet& other) {
  if (other.empty()) return;
  if (empty() || other.front() >= runs_.back().first) {
    for (const Run& run : other.runs_) append(run);
    return;
  }
  if (other.runs_.size() == 1) return insert(other.runs_.front());
  RankSet both;
  both.runs_.reserve(runs_.size() + other.runs_.size());
  auto own = runs_.begin();
  auto theirs = other.runs_.begin();
  while (own != runs_.end() || theirs != other.runs_.end()) {
    const bool first = theirs == other.runs_.end() || (own != runs_.end() && own->first < theirs->first);
    both.append(first ? *own++ : *theirs++);
  }
  *this = std::move(both);
}

RankSet RankSet::without(const RankSet& other) const {
  RankSet rest;
  auto theirs = other.runs_.begin();
  for (auto [first, end] : runs_) {
    while (theirs != other.runs_.end() && theirs->end <= first) ++theirs;
    for (auto hole = theirs; hole != other.runs_.end() && hole->first < end; ++hole) {
      if (first < hole->first) rest.append({first, hole->first});
      first = std::max(first, hole->end);
    }
    if (first < end) rest.append({first, end});
  }
  return rest;
}

RankSet RankSet::common(const RankSet& other) const { return without(without(other)); }

void write(Writer& out, const RankSet& ranks) {
  out.u64(ranks.runs().size());
  int next = 0;
  for (const auto& [first, end] : ranks.runs()) {
    out.u64(static_cast<std::uint64_t>(first - next)).u64(static_cast<std::uint64_t>(end - first - 1));
    next = end;
  }
}

RankSet read_rank_set(Reader& in, int size) {
  RankSet ranks;
  std::uint64_t next = 0;
  const auto most = static_cast<std::uint64_t>(size);
  for (auto left = in.count(2, "runs of ranks"); left > 0; --left) {
    const bool apart = !ranks.empty();
    const std::uint64_t first = next + in.below(most - next + 1, "the first of a run of ranks");
    if (apart && first == next) throw Error(Code::internal, "bad message: runs of ranks that are one");
    if (first == most) throw Error(Code::internal, "bad message: a run of ranks beyond the last");
    next = first + 1 + in.below(most - first, "the length of a run of ranks");
    ranks.add(RankSet(static_cast<int>(first), static_cast<int>(next)));
  }
  return ranks;
}

}  // namespace hora
