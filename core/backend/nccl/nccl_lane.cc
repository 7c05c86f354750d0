// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/nccl_lane.h"

#include "core/backend/nccl/nccl_collective.h"

namespace hora::nccl {
namespace {

class LaneOfNccl final : public NcclLane {
 public:
  explicit LaneOfNccl(std::shared_ptr<LaneCommunicators> communicators)
      : communicators_(std::move(communicators)) {}
  ~LaneOfNccl() override { communicators_->abort(); }  // what is left: all that could not be ended
  LaneOfNccl(const LaneOfNccl&) = delete;
  LaneOfNccl& operator=(const LaneOfNccl&) = delete;

  std::unique_ptr<Collective> connect(const NcclId& id, int place, int places) override {
    communicators_->begin();
    if (places == 1) return make_nccl_collective(communicators_, nullptr, 0, 1);
    return make_nccl_collective(communicators_, communicators_->connect(id, place, places), place, places);
  }
  void check() override { communicators_->check(); }
  void stop(const Status& why) noexcept override { communicators_->context().stop_flag->set(why); }
  bool abort() noexcept override { return communicators_->abort(); }

 private:
  std::shared_ptr<LaneCommunicators> communicators_;
};

}  // namespace

std::unique_ptr<NcclLane> make_nccl_lane(NcclContext context, cuda::CudaStream& stream) {
  return std::make_unique<LaneOfNccl>(std::make_shared<LaneCommunicators>(std::move(context), stream));
}

}  // namespace hora::nccl
