// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/batch_sizing.h"

#include "core/base/log.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace hora {
namespace {

constexpr int kStepsToFindThePace = 10;

}  // namespace

BatchSizing::BatchSizing(const Config& config, const FusionThresholds& now, bool one_host) {
  const bool host_is_set = config.fusion_threshold != 0;
  if (!config.autotune) {
    if (!host_is_set && !one_host) pace_.emplace();
    return;
  }
  const bool gpu_is_set = config.gpu_fusion_threshold != 0;
  if (host_is_set && gpu_is_set) {
    log(LogLevel::warning,
        "HORA_AUTOTUNE has nothing to choose: HORA_FUSION_THRESHOLD and HORA_GPU_FUSION_THRESHOLD are set");
    return;
  }
  std::vector<std::string> variables;
  if (!host_is_set) variables.emplace_back("HORA_FUSION_THRESHOLD");
  if (!gpu_is_set) variables.emplace_back("HORA_GPU_FUSION_THRESHOLD");
  autotune_.emplace(host_is_set ? now.cuda : now.host, std::move(variables), config.autotune_steps,
                    config.autotune_log);
}

std::optional<std::size_t> BatchSizing::end_step(TimePoint now, std::size_t host) {
  std::optional<std::size_t> chosen;
  if (autotune_) {
    chosen = autotune_->end_step(now);
    if (!autotune_->has_ended()) return chosen;
    log(LogLevel::warning, autotune_->found());
    autotune_.reset();
  } else if (pace_) {
    const auto bytes = pace_->batch_bytes();
    if (bytes && *bytes != host) {
      log(LogLevel::info, fmt::format("up to {} MiB travel together from now on", *bytes >> 20));
      chosen = bytes;
    }
    if (bytes || ++paced_steps_ == kStepsToFindThePace) pace_.reset();
  }
  return chosen;
}

}  // namespace hora
