// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/nccl_connection.h"

#include "core/base/thread.h"

#include <utility>

namespace hora {

NcclConnection::NcclConnection(NcclLane& lane, const NcclId& id, int place, int places)
    : thread_(start_thread("connects NCCL anew", [this, &lane, id, place, places] {
        try {
          made_ = lane.connect(id, place, places);
        } catch (...) {
          failure_ = std::current_exception();
        }
        ended_ = true;
        ended_.notify_all();
      })) {}

NcclConnection::~NcclConnection() { thread_.join(); }

void NcclConnection::check() const {
  if (ended_ && failure_) std::rethrow_exception(failure_);
}

}  // namespace hora
