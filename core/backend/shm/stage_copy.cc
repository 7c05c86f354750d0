// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/stage_copy.h"

#include "core/device/kernels.h"

#include <chrono>
#include <cstring>

namespace hora {
namespace {

constexpr int kTrials = 16;
constexpr std::size_t kWorthTiming = 64 * 1024;  // shorter copies stay in the caches, and say little

}  // namespace

void StageCopy::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes < kWorthTiming) return copy_by(ordinary, to, from, bytes);
  if (trials_ == kTrials) {
    const bool streams = seconds_[streaming] * bytes_[ordinary] < seconds_[ordinary] * bytes_[streaming];
    return copy_by(streams ? streaming : ordinary, to, from, bytes);
  }
  const Way way = trials_++ % 2 == 0 ? ordinary : streaming;
  const auto start = std::chrono::steady_clock::now();
  copy_by(way, to, from, bytes);
  seconds_[way] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  bytes_[way] += static_cast<double>(bytes);
}

void StageCopy::copy_by(Way way, void* to, const void* from, std::size_t bytes) {
  if (way == streaming) return kernels::copy_streaming(to, from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace hora
