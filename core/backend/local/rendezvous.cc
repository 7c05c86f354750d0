// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/rendezvous.h"

#include "core/base/memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace hora::local {

void Rendezvous::arrive_and_wait(int rank, const Buffers& own, const Work& work) {
  std::unique_lock lock(mutex_);
  if (status_) throw Error(*status_);
  buffers_[static_cast<std::size_t>(rank)] = own;
  if (++arrived_ == size()) {
    work(buffers_);
    arrived_ = 0;
    ++round_;
    over_.notify_all();
    return;
  }
  const auto round = round_;
  over_.wait(lock, [&] { return round_ != round || status_; });
  if (round_ == round) throw Error(*status_);
}

void Rendezvous::abort(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!status_) status_ = why;
  }
  over_.notify_all();
}

namespace {

using All = std::vector<Rendezvous::Buffers>;  // by rank

class LocalCollective final : public Collective {
 public:
  LocalCollective(std::shared_ptr<Rendezvous> rendezvous, int rank)
      : rendezvous_(std::move(rendezvous)), rank_(rank) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return allocate_zeroed(bytes); }

  // All memory is shared between threads.
  [[nodiscard]] std::size_t pack_below() const override { return 0; }
  [[nodiscard]] bool owns(const void* /*data*/) const override { return true; }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    rendezvous_->arrive_and_wait(rank_, {segments, nullptr, nullptr}, [&](const All& all) {
      std::vector<const void*> inputs(all.size());
      std::vector<void*> outputs(all.size());
      for (std::size_t i = 0; i < segments.size(); ++i) {
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
          inputs[rank] = all[rank].segments[i].input;
          outputs[rank] = all[rank].segments[i].output;
        }
        kernels::reduce(inputs, outputs, segments[i].count, reduction);
      }
    });
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    rendezvous_->arrive_and_wait(rank_, {{}, nullptr, data}, [&](const All& all) {
      const void* source = all[static_cast<std::size_t>(root)].output;
      for (const auto& buffers : all) {
        if (buffers.output != source && bytes > 0) std::memcpy(buffers.output, source, bytes);
      }
    });
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    rendezvous_->arrive_and_wait(rank_, {{}, input, output}, [&](const All& all) {
      for (const auto& to : all) {
        auto* next = static_cast<std::byte*>(to.output);
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
          if (bytes[rank] > 0) std::memcpy(next, all[rank].input, bytes[rank]);
          next += bytes[rank];
        }
      }
    });
  }

  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    rendezvous_->arrive_and_wait(rank_, {{}, input, output}, [&](const All& all) {
      std::vector<std::byte*> next(all.size());
      for (std::size_t to = 0; to < all.size(); ++to) next[to] = static_cast<std::byte*>(all[to].output);
      for (std::size_t from = 0; from < all.size(); ++from) {
        const auto* source = static_cast<const std::byte*>(all[from].input);
        for (std::size_t to = 0; to < all.size(); ++to) {
          const std::size_t length = bytes[from * all.size() + to];
          if (length == 0) continue;
          std::memcpy(next[to], source, length);
          next[to] += length;
          source += length;
        }
      }
    });
  }

  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    rendezvous_->arrive_and_wait(rank_, {{}, input, output}, [&](const All& all) {
      std::size_t begin = 0;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        std::vector<const void*> inputs(all.size());
        for (std::size_t from = 0; from < all.size(); ++from)
          inputs[from] = static_cast<const std::byte*>(all[from].input) + begin * size_of(reduction.dtype);
        if (counts[rank] > 0) kernels::reduce(inputs, {&all[rank].output, 1}, counts[rank], reduction);
        begin += counts[rank];
      }
    });
  }

  std::unique_ptr<Collective> split(std::span<const int> members) override {
    std::shared_ptr<Rendezvous> smaller;
    rendezvous_->arrive_and_wait(rank_, {{}, nullptr, &smaller}, [&](const All& all) {
      const auto rendezvous = std::make_shared<Rendezvous>(static_cast<int>(members.size()));
      for (const int member : members) {
        *static_cast<std::shared_ptr<Rendezvous>*>(all[static_cast<std::size_t>(member)].output) = rendezvous;
      }
    });
    if (!smaller) return nullptr;
    const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
    return make_local_collective(std::move(smaller), static_cast<int>(place));
  }

  void barrier() override {
    rendezvous_->arrive_and_wait(rank_, {}, [](const All&) {});
  }

  void abort(const Status& why) noexcept override { rendezvous_->abort(why); }

 private:
  std::shared_ptr<Rendezvous> rendezvous_;
  int rank_;
};

}  // namespace

std::unique_ptr<Collective> make_local_collective(std::shared_ptr<Rendezvous> rendezvous, int rank) {
  return std::make_unique<LocalCollective>(std::move(rendezvous), rank);
}

}  // namespace hora::local
