// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/autotune.h"

#include "core/base/folder.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hora {
namespace {

constexpr std::array<std::size_t, 7> kMebibytes{1, 2, 4, 8, 16, 32, 64};
constexpr int kSettling = 6;  // enough for the order of decisions to be locked again
constexpr double kWorthAChange = 0.98;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Autotune::Autotune(std::size_t usual, int steps, const std::string& log)
    : usual_(usual), steps_(static_cast<std::size_t>(steps)) {
  for (const auto mebibytes : kMebibytes) trials_.push_back({mebibytes << 20, {}});
  for (auto mebibytes = kMebibytes.rbegin(); mebibytes != kMebibytes.rend(); ++mebibytes)
    trials_.push_back({*mebibytes << 20, {}});
  if (log.empty()) return;
  log_ = create_file(log);
  if (!log_) {
    throw Error(Code::invalid_argument,
                fmt::format("HORA_AUTOTUNE_LOG={}: cannot write there: {}", log, std::strerror(errno)));
  }
  log_ << "trial,fusion_threshold_bytes,steps,median_ms,fastest_ms,slowest_ms" << std::endl;
}

std::optional<std::size_t> Autotune::end_step(TimePoint now) {
  if (has_ended()) return std::nullopt;
  if (!begun_) {
    begun_ = true;
    return trials_.front().bytes;
  }
  Trial& trial = trials_[trial_];
  if (settling_++ >= kSettling)
    trial.times.push_back(std::chrono::duration<double, std::milli>(now - last_).count());
  last_ = now;
  if (trial.times.size() < steps_) return std::nullopt;
  write(trial);
  settling_ = 0;
  const std::size_t next = ++trial_ == trials_.size() ? conclude() : trials_[trial_].bytes;
  return next == trial.bytes ? std::nullopt : std::optional(next);
}

void Autotune::write(const Trial& trial) {
  const auto [fastest, slowest] = std::minmax_element(trial.times.begin(), trial.times.end());
  log_ << fmt::format("{},{},{},{:.4f},{:.4f},{:.4f}", trial_ + 1, trial.bytes, trial.times.size(),
                      median(trial.times), *fastest, *slowest)
       << std::endl;  // a user who ends the training early has the trials so far
}

/// The medians of a step in a size's two trials, the better one first.
std::pair<double, double> Autotune::typical_times(std::size_t bytes) const {
  std::vector<double> times;
  for (const auto& trial : trials_) {
    if (trial.bytes == bytes) times.push_back(median(trial.times));
  }
  return std::minmax(times.front(), times.back());
}

std::size_t Autotune::conclude() {
  const auto fastest =
      std::min_element(trials_.begin(), trials_.end(), [this](const Trial& one, const Trial& other) {
        return typical_times(one.bytes).second < typical_times(other.bytes).second;
      });
  const bool worth_it = typical_times(fastest->bytes).second < kWorthAChange * typical_times(usual_).first;
  best_ = worth_it ? fastest->bytes : usual_;
  log_ << fmt::format("chosen,{},,{:.4f},,", best_, typical_times(best_).first) << std::endl;
  return best_;
}

std::string Autotune::found() const {
  std::string others;
  for (const auto mebibytes : kMebibytes)
    others += fmt::format("{}{} MiB: {:.2f} ms", others.empty() ? "" : ", ", mebibytes,
                          typical_times(mebibytes << 20).first);
  return fmt::format(
      "autotune has ended: steps are as fast as they get with HORA_FUSION_THRESHOLD={} ({}); set that, and "
      "you need not tune again",
      best_, others);
}

}  // namespace hora
