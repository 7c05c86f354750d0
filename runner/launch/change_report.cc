// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/change_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

namespace hora::hrun {
namespace {

constexpr std::size_t kMostNamed = 8;  // events, in one line

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
  return fmt::format("{}; the job {} with {} of {} ranks{} (generation {})", told_,
                     record.paused ? "pauses" : "goes on", record.members.size(), most,
                     record.paused ? fmt::format(", as it needs {}", least) : "", record.generation);
}

ChangeTimes ChangeReport::times(TimePoint now) const {
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  return {told_, seconds(now - formed_), seconds(stopped_ - noticed_), seconds(formed_ - stopped_)};
}

std::string ChangeReport::describe_times(std::uint64_t generation) const {
  return fmt::format(
      "generation {}: its members stopped {:.1f} ms after the change was noticed, and were connected {:.1f} "
      "ms later",
      generation, milliseconds_of(stopped_ - noticed_), milliseconds_of(formed_ - stopped_));
}

}  // namespace hora::hrun
