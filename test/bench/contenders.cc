// SPDX-License-Identifier: Apache-2.0
#include "test/bench/contenders.h"

#include "core/backend/mpi_module.h"
#include "core/compose/pieces.h"
#include "core/device/kernels.h"

#include <cstdlib>
#include <cstring>

namespace hora::bench {
namespace {

using Buffer = std::shared_ptr<std::byte>;

/// Memory of this process alone, touched.
Buffer private_buffer(std::size_t bytes) {
  const std::size_t rounded = (bytes + 63) / 64 * 64;
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(64, rounded)), std::free);
  if (!buffer) throw Error(Code::unavailable, "no memory for the private buffer");
  std::memset(buffer.get(), 1, rounded);
  return buffer;
}

class PlaneContender final : public Contender {
 public:
  PlaneContender(std::string name, Collective& collective, Buffer buffer, const Reduction& reduction)
      : name_(std::move(name)), collective_(collective), buffer_(std::move(buffer)), reduction_(reduction) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] void* data() const override { return buffer_.get(); }
  void run(std::size_t count) override {
    const Segment segment{buffer_.get(), buffer_.get(), count};
    collective_.allreduce({&segment, 1}, reduction_);
  }

 private:
  std::string name_;
  Collective& collective_;
  Buffer buffer_;
  Reduction reduction_;
};

/// The limit that the memory sets: every rank reduces its share into all buffers, as allreduce does, and no
/// rank waits for another. The result is complete at the next barrier.
class LimitContender final : public Contender {
 public:
  LimitContender(Plane& plane, Buffer buffer, const Reduction& reduction)
      : rank_(plane.world.control->rank()),
        buffer_(std::move(buffer)),
        all_(everybodys(plane, buffer_.get())),
        inputs_(all_.size()),
        outputs_(all_.size()),
        reduction_(reduction) {}

  [[nodiscard]] std::string name() const override { return "limit"; }
  [[nodiscard]] bool waits_for_others() const override { return false; }
  [[nodiscard]] void* data() const override { return buffer_.get(); }
  void run(std::size_t count) override {
    const std::size_t each = size_of(reduction_.dtype);
    const int ranks = static_cast<int>(all_.size());
    const std::size_t begin = share_begin(count, each, rank_, ranks);
    const std::size_t end = share_begin(count, each, rank_ + 1, ranks);
    for (std::size_t i = 0; i < all_.size(); ++i) inputs_[i] = outputs_[i] = all_[i] + begin * each;
    kernels::reduce(inputs_, outputs_, end - begin, reduction_);
  }

 private:
  int rank_;
  Buffer buffer_;
  std::vector<std::byte*> all_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  Reduction reduction_;
};

class RuntimeContender final : public Contender {
 public:
  RuntimeContender(std::string name, Runtime& runtime, Buffer buffer, const Options& options)
      : name_(std::move(name)), runtime_(runtime), buffer_(std::move(buffer)) {
    entry_.name = "bench." + name_;
    entry_.dtype = options.dtype;
    entry_.wire = options.dtype;
    entry_.op = options.op;
    entry_.input = entry_.output = buffer_.get();
  }

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] void* data() const override { return buffer_.get(); }
  void run(std::size_t count) override {
    entry_.shape = {static_cast<std::int64_t>(count)};
    runtime_.run(entry_);
  }

 private:
  std::string name_;
  Runtime& runtime_;
  Buffer buffer_;
  Entry entry_;
};

class PeerContender final : public Contender {
 public:
  PeerContender(Peer& peer, const Options& options)
      : peer_(peer), buffer_(private_buffer(options.end)), dtype_(options.dtype), op_(options.op) {}

  [[nodiscard]] std::string name() const override { return "mpi"; }
  [[nodiscard]] void* data() const override { return buffer_.get(); }
  void run(std::size_t count) override { peer_.allreduce(buffer_.get(), count, dtype_, op_); }

 private:
  Peer& peer_;
  Buffer buffer_;
  DType dtype_;
  ReduceOp op_;
};

class EachContender final : public Contender {
 public:
  EachContender(Peer& peer, const Options& options)
      : peer_(peer), buffer_(private_buffer(options.end)), list_(options.list) {}

  [[nodiscard]] std::string name() const override { return "mpi each"; }
  [[nodiscard]] void* data() const override { return buffer_.get(); }
  void run(std::size_t count) override {
    auto* end = reinterpret_cast<float*>(buffer_.get()) + count;
    for (auto size = list_.rbegin(); size != list_.rend(); ++size) {
      end -= *size;
      peer_.allreduce(end, *size, DType::float32, ReduceOp::sum);
    }
  }

 private:
  Peer& peer_;
  Buffer buffer_;
  std::vector<std::size_t> list_;
};

}  // namespace

Contenders plane_contenders(Plane& plane, const Options& options) {
  const Reduction reduction{options.dtype, options.op, 1.0, 1.0, 1};
  Contenders contenders;
  if (options.arena) {
    const Buffer buffer = plane.collective->allocate(options.end);
    contenders.push_back(std::make_unique<PlaneContender>("arena", *plane.collective, buffer, reduction));
    contenders.push_back(std::make_unique<LimitContender>(plane, buffer, reduction));
  }
  if (options.private_memory) {
    contenders.push_back(std::make_unique<PlaneContender>("private", *plane.collective,
                                                          private_buffer(options.end), reduction));
  }
  return contenders;
}

Contenders runtime_contenders(Runtime& runtime, const Options& options) {
  Contenders contenders;
  if (options.arena) {
    contenders.push_back(
        std::make_unique<RuntimeContender>("arena", runtime, runtime.allocate(options.end), options));
  }
  if (options.private_memory) {
    contenders.push_back(
        std::make_unique<RuntimeContender>("private", runtime, private_buffer(options.end), options));
  }
  return contenders;
}

std::unique_ptr<Contender> mpi_plane_contender(Plane& plane, const Config& config, const Options& options) {
  plane.mpi = load_mpi().connect(*plane.world.control, config, Clock::now() + config.start_timeout);
  return std::make_unique<PlaneContender>("hora/mpi", *plane.mpi, private_buffer(options.end),
                                          Reduction{options.dtype, options.op, 1.0, 1.0, 1});
}

Contenders peer_contenders(Peer& peer, const Options& options) {
  Contenders contenders;
  contenders.push_back(std::make_unique<PeerContender>(peer, options));
  if (!options.list.empty()) contenders.push_back(std::make_unique<EachContender>(peer, options));
  return contenders;
}

}  // namespace hora::bench
