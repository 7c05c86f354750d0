// SPDX-License-Identifier: Apache-2.0
#include "core/comm/abort_broadcaster.h"

#include "core/backend/local/rendezvous.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(AbortBroadcaster, EndsCallsOfWhatItWatchesAlsoLater) {
  const auto early = local::make_local_collective(std::make_shared<local::Rendezvous>(2), 0);
  const auto late = local::make_local_collective(std::make_shared<local::Rendezvous>(2), 0);
  const auto forgotten = local::make_local_collective(std::make_shared<local::Rendezvous>(1), 0);
  AbortBroadcaster aborter;
  aborter.watch(*early);
  aborter.watch(*forgotten);
  aborter.forget(*forgotten);
  aborter.ring({Code::aborted, "rank 1 is gone"});
  aborter.watch(*late);
  EXPECT_THROW(early->barrier(), Error);
  EXPECT_THROW(late->barrier(), Error);
  EXPECT_NO_THROW(forgotten->barrier());
}

}  // namespace
}  // namespace hora
