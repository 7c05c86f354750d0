// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/plan.h"

#include "core/base/operations.h"
#include "core/device/block_floats.h"
#include "core/fuse/lines.h"

namespace hora {
namespace {

bool fusible(const Decision& decision) {
  return decision.status.ok() && decision.contributed && traits(decision.request.operation).fuses;
}

bool same_kind(const Decision& one, const Decision& other) {
  const Request& a = one.request;
  const Request& b = other.request;
  if (a.operation != b.operation) return false;
  if (a.operation == Operation::broadcast) return a.root == b.root && a.device == b.device;
  return a.dtype == b.dtype && a.wire == b.wire && a.op == b.op && a.prescale == b.prescale &&
         a.postscale == b.postscale && a.device == b.device && a.check_finite == b.check_finite &&
         one.divisor == other.divisor && one.joined == other.joined;
}

/// A batch that may still grow.
struct Open {
  std::size_t batch = 0;
  std::size_t bytes = 0;
  const Decision* kind = nullptr;
};

}  // namespace

std::size_t wire_bytes(const Request& request) {
  const auto count = static_cast<std::size_t>(elements(request.shape, request.wire));
  return whole_lines(travels_in_blocks(request) ? blocks_of(count) * kBlockBytes
                                                : count * size_of(request.wire));
}

std::size_t wire_bytes(std::span<const Decision> decisions, const Batch& batch) {
  std::size_t bytes = 0;
  for (const std::size_t i : batch.decisions) bytes += wire_bytes(decisions[i].request);
  return bytes;
}

FusionThresholds first_thresholds(const Config& config) {
  FusionThresholds thresholds;
  if (config.fusion_threshold != 0) thresholds.host = config.fusion_threshold;
  if (config.gpu_fusion_threshold != 0) thresholds.cuda = config.gpu_fusion_threshold;
  return thresholds;
}

std::vector<Batch> plan(std::span<const Decision> decisions, const FusionThresholds& thresholds) {
  std::vector<Batch> batches;
  std::vector<Open> open;  // at most one a kind
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const Decision& decision = decisions[i];
    if (!decision.status.ok()) continue;
    if (!fusible(decision)) {
      batches.push_back({{i}});
      continue;
    }
    const bool on_host = decision.request.device == DeviceKind::host;
    const std::size_t threshold = on_host ? thresholds.host : thresholds.cuda;
    const std::size_t bytes = wire_bytes(decision.request);
    auto mate = open.begin();
    while (mate != open.end() && !same_kind(*mate->kind, decision)) ++mate;
    const bool fresh = mate == open.end();
    if (fresh) mate = open.insert(open.end(), Open{});
    if (fresh || mate->bytes + bytes > threshold) {
      *mate = {batches.size(), 0, &decision};
      batches.emplace_back();
    }
    batches[mate->batch].decisions.push_back(i);
    mate->bytes += bytes;
  }
  return batches;
}

}  // namespace hora
