// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/autotune.h"

#include "core/base/folder.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kMost = 64 * kMebibyte;
constexpr int kSettling = 6;  // enough for the order of decisions to be locked again
constexpr double kWorthAChange = 0.98;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::size_t> sizes_with(std::size_t usual) {
  std::set<std::size_t> sizes{usual};
  for (std::size_t bytes = kMebibyte; bytes <= kMost; bytes *= 2) sizes.insert(bytes);
  return {sizes.begin(), sizes.end()};
}

}  // namespace

Autotune::Autotune(std::size_t usual, std::vector<std::string> variables, int steps, const std::string& log)
    : usual_(usual),
      variables_(std::move(variables)),
      steps_(static_cast<std::size_t>(steps)),
      sizes_(sizes_with(usual)) {
  for (auto size = sizes_.begin(); size != sizes_.end(); ++size) trials_.push_back({*size, {}});
  for (auto size = sizes_.rbegin(); size != sizes_.rend(); ++size) trials_.push_back({*size, {}});
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
  std::vector<std::string> settings;
  for (const auto& variable : variables_) settings.push_back(fmt::format("{}={}", variable, best_));
  std::vector<std::string> times;
  for (const auto bytes : sizes_) {
    times.push_back(
        fmt::format("{} MiB: {:.2f} ms", static_cast<double>(bytes) / kMebibyte, typical_times(bytes).first));
  }
  return fmt::format(
      "autotune has ended: steps are as fast as they get with {} ({}); set that, and you need not tune again",
      fmt::join(settings, " and "), fmt::join(times, ", "));
}

}  // namespace hora
