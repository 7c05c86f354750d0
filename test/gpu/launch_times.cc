// SPDX-License-Identifier: Apache-2.0
// The time that the host needs to give a batch to the GPU: the engine's work for one, from the wait for its
// input to the mark of its end, with the parts that the engine uses. To be started by hrun, on two ranks.
//
//   gpu_launch_times [count of elements...]      the tensors of a step; without, some of many sizes
#include "core/backend/nccl_module.h"
#include "core/device/await.h"
#include "core/fuse/pack.h"

#include <hora/hora.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <vector>

namespace hora {
namespace {

constexpr std::size_t kThreshold = std::size_t{32} << 20;
constexpr int kSteps = 60;
constexpr int kWarmUp = 10;

/// Rank 0's id, on all ranks.
NcclId share(Runtime& runtime, NcclId id) {
  Entry entry;
  entry.operation = Operation::broadcast;
  entry.name = "id";
  entry.dtype = DType::uint8;
  entry.shape = {static_cast<std::int64_t>(id.size())};
  entry.input = entry.output = id.data();
  runtime.submit(entry).wait();
  return id;
}

/// The pieces of each of a step's batches, as the engine would cut them.
std::vector<std::vector<Segment>> batches(const std::vector<std::size_t>& counts, std::byte* memory) {
  std::vector<std::vector<Segment>> batches(1);
  std::size_t bytes = 0;
  for (const std::size_t count : counts) {
    const std::size_t size = (count * sizeof(float) + 63) / 64 * 64;
    if (bytes + size > kThreshold && !batches.back().empty()) {
      batches.emplace_back();
      bytes = 0;
    }
    batches.back().push_back({memory, memory, count});
    memory += size;
    bytes += size;
  }
  return batches;
}

struct Bench {
  Gpu& gpu;
  Stream& stream;
  Packer packer;
  Reduction reduction;

  /// Microseconds; and those of the stages, added to `stages`.
  double time(const std::vector<Segment>& pieces, std::map<Stage, std::vector<double>>& stages) {
    const auto input = gpu.mark(nullptr);
    const auto begin = std::chrono::steady_clock::now();
    stream.wait(*input);
    packer.allreduce(pieces, DType::float32, reduction);
    const auto end = stream.mark();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
    for (const auto& span : packer.spans()) {
      const std::chrono::duration<double, std::micro> stage = span.end - span.begin;
      stages[span.stage].push_back(stage.count());
    }
    await(end.get(), [] {});
    return taken.count();
  }
};

double median_of(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[times.size() / 2];
}

void report(const std::string& what, std::vector<double> times, std::map<Stage, std::vector<double>>& stages,
            std::size_t tensors) {
  const double median = median_of(times);
  const double spread = (times[times.size() * 3 / 4] - times[times.size() / 4]) / median;
  std::printf(
      "FIGURE {\"name\": \"G3 host time per batch, %s\", \"value\": %.2f, \"unit\": \"us\", \"lower\": true, "
      "\"most\": 20, \"spread\": %.3f, \"note\": \"wait, pack, ncclAllReduce, unpack, mark; %zu tensors in "
      "the step; pack %.1f, ncclAllReduce %.1f, unpack %.1f us\"}\n",
      what.c_str(), median, spread, tensors, median_of(stages[Stage::pack]),
      median_of(stages[Stage::transfer]), median_of(stages[Stage::unpack]));
  std::fflush(stdout);
}

void measure(const std::vector<std::size_t>& counts) {
  Runtime runtime = init();
  const NcclModule& module = load_nccl();
  const auto gpu = module.open_gpu(runtime.local_rank() % module.gpus());
  const char* path = std::getenv("HORA_NCCL_LIBRARY");
  module.library(path == nullptr ? "" : path, "");
  const auto stream = std::shared_ptr<Stream>(gpu->make_stream());
  const auto nccl = module.make_lane(gpu, *stream, {});
  const NcclId id = share(runtime, runtime.rank() == 0 ? module.make_id() : NcclId{});
  Lane lane{stream, nccl->connect(id, runtime.rank(), runtime.size()), true};

  std::size_t bytes = 0;
  for (const std::size_t count : counts) bytes += (count * sizeof(float) + 63) / 64 * 64;
  const auto memory = gpu->allocate(bytes);
  const auto cut = batches(counts, memory.get());
  for (const auto wire : {DType::float32, DType::float16}) {
    Bench bench{*gpu, *stream, Packer(lane, kThreshold), {wire, ReduceOp::sum, 1.0, 1.0, runtime.size()}};
    bench.packer.note_spans(true);
    std::vector<double> times;
    std::map<Stage, std::vector<double>> stages;
    for (int step = 0; step < kSteps; ++step) {
      for (const auto& pieces : cut) {
        const double time = bench.time(pieces, stages);
        if (step >= kWarmUp) times.push_back(time);
      }
    }
    if (runtime.rank() == 0) report(std::string(name(wire)), std::move(times), stages, counts.size());
  }
}

}  // namespace
}  // namespace hora

int main(int argc, char** argv) {
  std::vector<std::size_t> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::strtoull(argv[i], nullptr, 10));
  for (std::size_t i = 0; argc == 1 && i < 160; ++i) counts.push_back(i % 3 == 0 ? 400'000 : 256);
  try {
    hora::measure(counts);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_launch_times: %s\n", error.what());
    return 1;
  }
  return 0;
}
