// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/meeting.h"

#include "core/base/memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace hora::local {

void Meeting::meet(int rank, const Posting& posting, const Work& work) {
  std::unique_lock lock(mutex_);
  if (status_) throw Error(*status_);
  postings_[static_cast<std::size_t>(rank)] = posting;
  if (++arrived_ == size()) {
    work(postings_);
    arrived_ = 0;
    ++round_;
    over_.notify_all();
    return;
  }
  const auto round = round_;
  over_.wait(lock, [&] { return round_ != round || status_; });
  if (round_ == round) throw Error(*status_);
}

void Meeting::abort(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!status_) status_ = why;
  }
  over_.notify_all();
}

namespace {

class LocalCollective final : public Collective {
 public:
  LocalCollective(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return allocate_zeroed(bytes); }

  // All memory is shared between threads.
  [[nodiscard]] std::size_t pack_below() const override { return 0; }
  [[nodiscard]] bool owns(const void* /*data*/) const override { return true; }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    meeting_->meet(rank_, {segments, nullptr, nullptr}, [&](const std::vector<Meeting::Posting>& all) {
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
    meeting_->meet(rank_, {{}, nullptr, data}, [&](const std::vector<Meeting::Posting>& all) {
      const void* source = all[static_cast<std::size_t>(root)].output;
      for (const auto& posting : all) {
        if (posting.output != source && bytes > 0) std::memcpy(posting.output, source, bytes);
      }
    });
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    meeting_->meet(rank_, {{}, input, output}, [&](const std::vector<Meeting::Posting>& all) {
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
    meeting_->meet(rank_, {{}, input, output}, [&](const std::vector<Meeting::Posting>& all) {
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
    meeting_->meet(rank_, {{}, input, output}, [&](const std::vector<Meeting::Posting>& all) {
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
    std::shared_ptr<Meeting> smaller;
    meeting_->meet(rank_, {{}, nullptr, &smaller}, [&](const std::vector<Meeting::Posting>& all) {
      const auto meeting = std::make_shared<Meeting>(static_cast<int>(members.size()));
      for (const int member : members) {
        *static_cast<std::shared_ptr<Meeting>*>(all[static_cast<std::size_t>(member)].output) = meeting;
      }
    });
    if (!smaller) return nullptr;
    const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
    return make_local_collective(std::move(smaller), static_cast<int>(place));
  }

  void barrier() override {
    meeting_->meet(rank_, {}, [](const std::vector<Meeting::Posting>&) {});
  }

  void abort(const Status& why) noexcept override { meeting_->abort(why); }

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

std::unique_ptr<Collective> make_local_collective(std::shared_ptr<Meeting> meeting, int rank) {
  return std::make_unique<LocalCollective>(std::move(meeting), rank);
}

}  // namespace hora::local
