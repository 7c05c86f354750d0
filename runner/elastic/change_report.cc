// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/change_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

namespace hora::hrun {
namespace {

constexpr std::size_t kMostNamed = 8;    // events, in one line
constexpr std::size_t kMostKept = 1000;  // changes

double seconds_of(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double milliseconds_of(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

std::string listed(std::vector<std::string> texts, const char* mark) {
  if (texts.size() > kMostNamed) {
    const std::size_t more = texts.size() - kMostNamed;
    texts.resize(kMostNamed);
    texts.push_back(fmt::format("{} more", more));
  }
  return fmt::format("{}", fmt::join(texts, mark));
}

std::string ChangeReport::describe(const elastic::GenerationRecord& record, int least, int most) {
  const auto events = std::exchange(events_, {});
  told_ = events.empty() ? why_ : listed(events, "; ");
  generation_ = record.generation;
  members_ = static_cast<int>(record.members.size());
  const std::string of = most == kMostElasticRanks ? "" : fmt::format(" of {}", most);
  const int training = members_ - record.hot_spares;
  return fmt::format("{}; the job {} with {}{} rank{}{}{} (generation {})", told_,
                     record.paused ? "pauses" : "goes on", training, of,
                     of.empty() && training == 1 ? "" : "s", and_hot_spares(record.hot_spares),
                     record.paused ? fmt::format(", as it needs {}", least) : "", record.generation);
}

std::optional<double> ChangeReport::seconds_to_next_step() const {
  if (!stepped_) return std::nullopt;
  return seconds_of(*stepped_ - noticed_);
}

ChangeTimes ChangeReport::times(TimePoint now) const {
  return {told_, seconds_of(now - formed_), seconds_of(stopped_ - noticed_), seconds_of(formed_ - stopped_),
          seconds_to_next_step()};
}

ChangeSummary ChangeReport::summary(TimePoint start) const {
  return {generation_,
          members_,
          told_,
          seconds_of(noticed_ - start),
          seconds_of(stopped_ - noticed_),
          seconds_of(formed_ - stopped_),
          seconds_to_next_step()};
}

std::string ChangeReport::describe_times(std::uint64_t generation) const {
  return fmt::format(
      "generation {}: its members stopped {:.1f} ms after the change was noticed, and were connected {:.1f} "
      "ms later",
      generation, milliseconds_of(stopped_ - noticed_), milliseconds_of(formed_ - stopped_));
}

std::string ChangeReport::describe_step() const {
  return fmt::format("generation {}: its first step counted {:.1f} ms after the change was noticed",
                     generation_, milliseconds_of(*stepped_ - noticed_));
}

ChangeReport& Changes::begin(const std::string& why, TimePoint when) {
  if (!under_way_) under_way_.emplace(when, why);
  return *under_way_;
}

void Changes::end(TimePoint now) {
  under_way_->formed(now);
  if (all_.size() == kMostKept) all_.pop_front();
  all_.push_back(under_way_->summary(start_));
  last_ = std::exchange(under_way_, std::nullopt);
}

bool Changes::stepped(std::uint64_t generation, TimePoint now) {
  if (!last_ || last_->generation() != generation) return false;
  last_->stepped(now);
  all_.back() = last_->summary(start_);
  return true;
}

void LostRanks::add(int rank, std::uint64_t generation, TimePoint when) {
  losses_.push_back({rank, generation, when});
  missing_.insert(rank);
}

void LostRanks::replace(int rank) {
  if (missing_.erase(rank) > 0) ++replaced_;
}

std::string LostRanks::describe() const {
  if (losses_.empty()) return "";
  std::vector<std::string> each;
  for (const auto& loss : losses_) {
    each.push_back(fmt::format("rank {} after {:.1f} s (generation {})", loss.rank,
                               seconds_of(loss.when - start_), loss.generation));
  }
  const std::string list = listed(std::move(each), ", ");
  const char* were = losses_.size() == 1 ? "was" : "were";
  if (replaced_ == 0) return fmt::format("{} of {} ranks {} lost: {}", losses_.size(), of_, were, list);
  return fmt::format("{} process{} {} lost, and {} replaced: {}", losses_.size(),
                     losses_.size() == 1 ? "" : "es", were, replaced_, list);
}

}  // namespace hora::hrun
