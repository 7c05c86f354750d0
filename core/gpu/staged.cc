// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/staged.h"

#include "core/device/await.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace hora {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kChunk = std::size_t{4} << 20;  // bytes: a copy of 0.1 ms, which calls do not slow down
constexpr std::size_t kPackBelow = std::size_t{1} << 20;  // bytes: smaller tensors share a copy
constexpr std::size_t kMostKept = std::size_t{64} << 20;  // bytes of scratch memory that stay pinned

std::size_t sum(std::span<const std::size_t> values) {
  return std::accumulate(values.begin(), values.end(), std::size_t{0});
}

}  // namespace

Staged::Staged(std::shared_ptr<Gpu> gpu, Stream& stream, Collective& host, int place, int places,
               const GpuWait* gpu_wait)
    : gpu_(std::move(gpu)),
      stream_(stream),
      host_(host),
      place_(place),
      places_(places),
      gpu_wait_(gpu_wait) {}

std::shared_ptr<std::byte> Staged::allocate(std::size_t bytes) { return gpu_->allocate(bytes); }
std::size_t Staged::pack_below() const { return kPackBelow; }
bool Staged::owns(const void* /*data*/) const { return false; }

void Staged::allreduce(std::span<const Segment> segments, const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  std::vector<Chunk> chunks;
  for (const auto& segment : segments) {
    const auto* input = static_cast<const std::byte*>(segment.input);
    auto* output = static_cast<std::byte*>(segment.output);
    const std::size_t bytes = segment.count * each;
    for (std::size_t begin = 0; begin < bytes; begin += kChunk)
      chunks.push_back({input + begin, output + begin, std::min(kChunk, bytes - begin)});
  }
  carry(chunks, [&](std::byte* memory, std::size_t bytes) {
    const Segment segment{memory, memory, bytes / each};
    host_.allreduce({&segment, 1}, reduction);
  });
}

void Staged::broadcast(void* data, std::size_t bytes, int root) {
  auto* at = static_cast<std::byte*>(data);
  std::vector<Chunk> chunks;
  for (std::size_t begin = 0; begin < bytes; begin += kChunk) {
    const std::size_t length = std::min(kChunk, bytes - begin);
    chunks.push_back(place_ == root ? Chunk{at + begin, nullptr, length}
                                    : Chunk{nullptr, at + begin, length});
  }
  carry(chunks, [&](std::byte* memory, std::size_t length) { host_.broadcast(memory, length, root); });
}

void Staged::allgather(const void* input, void* output, std::span<const std::size_t> bytes) {
  const std::size_t own = bytes[static_cast<std::size_t>(place_)];
  const std::size_t all = sum(bytes);
  visit({input, own, output, all, own},
        [&](Collective& host, std::byte* memory) { host.allgather(memory, memory + own, bytes); });
}

void Staged::alltoall(const void* input, void* output, std::span<const std::size_t> bytes) {
  const auto places = static_cast<std::size_t>(places_);
  const auto place = static_cast<std::size_t>(place_);
  const std::size_t sent = sum(bytes.subspan(place * places, places));
  std::size_t received = 0;
  for (std::size_t from = 0; from < places; ++from) received += bytes[from * places + place];
  visit({input, sent, output, received, sent},
        [&](Collective& host, std::byte* memory) { host.alltoall(memory, memory + sent, bytes); });
}

void Staged::reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                           const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  const std::size_t all = sum(counts) * each;
  visit({input, all, output, counts[static_cast<std::size_t>(place_)] * each, all},
        [&](Collective& host, std::byte* memory) {
          host.reducescatter(memory, memory + all, counts, reduction);
        });
}

void Staged::barrier() { host_.barrier(); }

std::unique_ptr<Collective> Staged::split(std::span<const int> /*members*/) {
  throw Error(Code::internal, "a staged collective is made of the host's, which is split before");
}

void Staged::abort(const Status& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (!aborted_) aborted_ = why;
}

void Staged::visit(const Visit& visit, const std::function<void(Collective&, std::byte*)>& work) {
  const std::size_t bytes = std::max(visit.in, visit.offset + visit.out);
  if (bytes > scratch_bytes_ || !scratch_.memory) {
    await(scratch_.emptied.get());
    // At least twice as much each time, so that all that is kept is less than the last.
    const std::size_t size = keeps_memory() ? std::max(bytes, 2 * scratch_bytes_) : bytes;
    if (keeps_memory() && scratch_.memory) kept_.push_back(std::move(scratch_.memory));
    scratch_ = {};
    scratch_.memory = gpu_->pin(host_.allocate(size), size);
    scratch_bytes_ = size;
  }
  await(scratch_.emptied.get());
  if (visit.in > 0) {
    stream_.copy(scratch_.memory.get(), visit.input, visit.in);
    await(stream_.mark().get());
  }
  work(host_, scratch_.memory.get());
  if (visit.out > 0) stream_.copy(visit.output, scratch_.memory.get() + visit.offset, visit.out);
  scratch_.emptied = stream_.mark();
  if (bytes <= kMostKept || keeps_memory()) return;
  await(scratch_.emptied.get());
  scratch_ = {};
  scratch_bytes_ = 0;
}

void Staged::carry(std::span<const Chunk> chunks, const std::function<void(std::byte*, std::size_t)>& work) {
  std::array<std::shared_ptr<Event>, 2> filled;
  const auto fetch = [&](std::size_t i) {
    const Chunk& chunk = chunks[i];
    Buffer& buffer = buffers_.at(i % 2);
    if (chunk.input == nullptr) {  // the host writes first: the elements there must have gone
      filled.at(i % 2) = buffer.emptied;
      return;
    }
    stream_.copy(buffer.memory.get(), chunk.input, chunk.bytes);
    filled.at(i % 2) = stream_.mark();
  };
  if (chunks.empty()) return;
  for (Buffer& buffer : buffers_) {  // both at once: none is made in a run of a graph
    if (!buffer.memory) buffer.memory = gpu_->pin(host_.allocate(kChunk), kChunk);
  }
  fetch(0);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (i + 1 < chunks.size()) fetch(i + 1);
    await(filled.at(i % 2).get());
    Buffer& buffer = buffers_.at(i % 2);
    work(buffer.memory.get(), chunks[i].bytes);
    if (chunks[i].output == nullptr) continue;
    stream_.copy(chunks[i].output, buffer.memory.get(), chunks[i].bytes);
    buffer.emptied = stream_.mark();
  }
}

void Staged::await(const Event* event) {
  std::optional<steady_clock::time_point> began;
  hora::await(event, [&] {
    {
      const std::lock_guard lock(mutex_);
      if (aborted_) throw Error(*aborted_);
    }
    if (gpu_wait_ == nullptr || gpu_wait_->limit.count() == 0) return;
    if (!began && (!gpu_wait_->start || gpu_wait_->start->reached())) began = steady_clock::now();
    if (!began || steady_clock::now() - *began <= gpu_wait_->limit) return;
    throw Error(
        Code::timeout,
        fmt::format("{} has waited for the GPU for {} s, all inputs being there: it, or another GPU of "
                    "this host, stands still (HORA_OPERATION_TIMEOUT)",
                    gpu_wait_->what, std::chrono::duration<double>(gpu_wait_->limit).count()));
  });
}

}  // namespace hora
