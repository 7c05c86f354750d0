// SPDX-License-Identifier: Apache-2.0
// The suite works with the host's memory, and waits for nothing; so each call has its tensors taken to the
// GPU and back, unless they are in memory of the collective's, and ends when the stream has carried it out.
#include "test/conformance/collective_suite.h"
#include "test/support/fake_gpu/nccl_ranks.h"
#include "test/support/threads.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>

namespace hora {
namespace {

class WaitingCollective final : public Collective {
 public:
  WaitingCollective(std::shared_ptr<NcclRanks> ranks, NcclRank& rank, int place,
                    std::unique_ptr<Collective> inner)
      : ranks_(std::move(ranks)),
        rank_(rank),
        place_(static_cast<std::size_t>(place)),
        inner_(std::move(inner)) {}

  /// The fakes are there as long as the memory.
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    struct Kept {
      std::shared_ptr<NcclRanks> ranks;
      std::shared_ptr<std::byte> memory;
    };
    const auto kept = std::make_shared<Kept>(Kept{ranks_, inner_->allocate(bytes)});
    return {kept, kept->memory.get()};
  }
  [[nodiscard]] std::size_t pack_below() const override { return inner_->pack_below(); }
  [[nodiscard]] bool owns(const void* data) const override { return inner_->owns(data); }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    const std::size_t each = size_of(reduction.dtype);
    Visit visit(*this);
    std::vector<Segment> there;
    for (const auto& segment : segments) {
      const std::size_t bytes = segment.count * each;
      void* input = visit.bring(segment.input, bytes);
      void* output = segment.output == segment.input ? input : visit.room(segment.output, bytes);
      if (segment.output == segment.input) visit.take_back(segment.output, output, bytes);
      there.push_back({input, output, segment.count});
    }
    inner_->allreduce(there, reduction);
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    Visit visit(*this);
    void* there = visit.bring(data, bytes);
    visit.take_back(data, there, bytes);
    inner_->broadcast(there, bytes, root);
  }
  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    Visit visit(*this);
    void* there = visit.bring(input, bytes[place_]);
    inner_->allgather(there, visit.room(output, std::accumulate(bytes.begin(), bytes.end(), std::size_t{0})),
                      bytes);
  }
  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    const auto ranks = static_cast<std::size_t>(std::llround(std::sqrt(bytes.size())));
    std::size_t sent = 0;
    std::size_t received = 0;
    for (std::size_t other = 0; other < ranks; ++other) {
      sent += bytes[place_ * ranks + other];
      received += bytes[other * ranks + place_];
    }
    Visit visit(*this);
    void* there = visit.bring(input, sent);
    inner_->alltoall(there, visit.room(output, received), bytes);
  }
  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    const std::size_t each = size_of(reduction.dtype);
    Visit visit(*this);
    void* there = visit.bring(input, each * std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    inner_->reducescatter(there, visit.room(output, each * counts[place_]), counts, reduction);
  }
  void barrier() override {
    const Visit visit(*this);
    inner_->barrier();
  }
  std::unique_ptr<Collective> split(std::span<const int> members) override {
    auto smaller = inner_->split(members);
    if (!smaller) return nullptr;
    const auto place = std::find(members.begin(), members.end(), static_cast<int>(place_)) - members.begin();
    return std::make_unique<WaitingCollective>(ranks_, rank_, static_cast<int>(place), std::move(smaller));
  }
  void abort(const Status& why) noexcept override { inner_->abort(why); }

 private:
  /// A call's tensors, while they are on the GPU. It ends as the engine ends what it waits for.
  class Visit {
   public:
    explicit Visit(WaitingCollective& whose) : whose_(whose) {}
    ~Visit() noexcept(false) {
      if (std::uncaught_exceptions() > 0) return;
      const auto& stop = *whose_.rank_.context.stop_flag;
      try {
        await(whose_.rank_.stream->mark().get(), [&] { stop.check(); });
      } catch (const Error&) {
        whose_.rank_.lane->abort();
        throw;
      }
      for (const auto& back : backs_) std::memcpy(back.to, back.from, back.bytes);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    void* bring(const void* data, std::size_t bytes) {
      if (whose_.owns(data)) return const_cast<void*>(data);  // NOLINT: stays as it is
      void* there = take(bytes);
      if (bytes > 0) std::memcpy(there, data, bytes);
      return there;
    }
    void* room(void* data, std::size_t bytes) {
      if (whose_.owns(data)) return data;
      void* there = take(bytes);
      take_back(data, there, bytes);
      return there;
    }
    void take_back(void* to, const void* from, std::size_t bytes) {
      if (to != from && bytes > 0) backs_.push_back({to, from, bytes});
    }

   private:
    struct Back {
      void* to;
      const void* from;
      std::size_t bytes;
    };
    void* take(std::size_t bytes) {
      memory_.push_back(whose_.rank_.gpu->allocate(bytes));
      return memory_.back().get();
    }

    WaitingCollective& whose_;
    std::vector<std::shared_ptr<std::byte>> memory_;
    std::vector<Back> backs_;
  };

  std::shared_ptr<NcclRanks> ranks_;
  NcclRank& rank_;
  std::size_t place_;
  std::unique_ptr<Collective> inner_;
};

std::vector<std::unique_ptr<Collective>> connect(int count, bool float32_sums) {
  NcclOptions options;
  options.float32_sums = float32_sums;
  const auto ranks = std::make_shared<NcclRanks>(count, options);
  const NcclId id = ranks->make_id();
  std::vector<std::unique_ptr<Collective>> all(static_cast<std::size_t>(count));
  run_ranks(count, [&](int place) {
    NcclRank& rank = ranks->at(place);
    all[static_cast<std::size_t>(place)] =
        std::make_unique<WaitingCollective>(ranks, rank, place, rank.lane->connect(id, place, count));
  });
  return all;
}

const RegisterCollective kNccl{{.name = "nccl",
                                .connect = [](int ranks) { return connect(ranks, false); },
                                .reduces = nccl_reduces,
                                .rounds_additions = true,
                                .knows_any_truth = false}};
const RegisterCollective kFloat32Sums{{.name = "nccl_float32_sums",
                                       .connect = [](int ranks) { return connect(ranks, true); },
                                       .ranks = exactly({2, 3}),  // the fakes take their time
                                       .reduces = nccl_reduces,
                                       .knows_any_truth = false}};

}  // namespace
}  // namespace hora
