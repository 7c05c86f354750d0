// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/gpu.h"
#include "core/backend/nccl/nccl_lane.h"
#include "core/device/await.h"
#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/fake_gpu/fake_nccl.h"

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace hora {

/// A rank with a fake GPU of its own. Later members go before earlier ones.
struct NcclRank {
  std::shared_ptr<cuda::CudaGpu> gpu;
  std::unique_ptr<Stream> stream;
  nccl::NcclContext context;
  std::unique_ptr<NcclLane> lane;

  [[nodiscard]] cuda::CudaStream& cuda_stream() const { return dynamic_cast<cuda::CudaStream&>(*stream); }
  /// Until all that is on the stream has been done.
  void finish() const {
    await(stream->mark().get(), [] {});
  }
};

/// Ranks that are threads, with the fake driver and the fake NCCL.
struct NcclRanks {
  explicit NcclRanks(int count, const NcclOptions& options = {}, int version = fake_nccl_version())
      : driver(std::vector<FakeGpu>(static_cast<std::size_t>(count))), nccl(version) {
    opened = std::make_shared<const nccl::OpenNccl>(nccl::OpenNccl{nccl.table(), {"libnccl.so.2", version}});
    for (int index = 0; index < count; ++index) {
      NcclRank& rank = ranks.emplace_back();
      rank.gpu = cuda::open_cuda_gpu(driver.table(), index);
      rank.stream = rank.gpu->make_stream();
      const auto memory = std::make_shared<nccl::NcclMemory>(opened, rank.gpu);
      rank.context = {opened, rank.gpu, memory, options, std::make_shared<nccl::StopFlag>()};
      rank.lane = nccl::make_nccl_lane(rank.context, rank.cuda_stream());
    }
  }

  /// When aborts that were left to themselves have ended, too.
  ~NcclRanks() {
    ranks.clear();
    nccl.hold_aborts(false);
    nccl.hold_destroys(false);
    while (opened.use_count() > 1) std::this_thread::yield();
  }
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  NcclRank& at(int rank) { return ranks.at(static_cast<std::size_t>(rank)); }
  [[nodiscard]] int count() const { return static_cast<int>(ranks.size()); }
  NcclId make_id() const {
    ncclUniqueId unique{};
    ::ncclGetUniqueId(&unique);
    NcclId id{};
    std::memcpy(id.data(), &unique, id.size());
    return id;
  }

  FakeDriver driver;
  FakeNccl nccl;
  std::shared_ptr<const nccl::OpenNccl> opened;
  std::vector<NcclRank> ranks;
};

}  // namespace hora
