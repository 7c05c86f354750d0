// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/loss_notice.h"

#include <gtest/gtest.h>

#include <vector>

namespace hora::tcp {
namespace {

TEST(LossNotice, TellsOfALossThatComesLaterAndOfOneThatHasBeen) {
  const Status loss{Code::aborted, "rank 1 is gone"};
  LossNotice notice;
  std::vector<Status> told;
  const auto keep = [&](const Status& status) { told.push_back(status); };
  notice.set(keep);
  EXPECT_TRUE(told.empty());
  notice.record(loss);
  EXPECT_TRUE(told.empty());
  notice.tell();
  notice.tell();
  EXPECT_EQ(told, std::vector{loss});
  notice.set({});
  notice.set(keep);
  EXPECT_EQ(told, (std::vector{loss, loss})) << "it was known before the notice was set";
}

}  // namespace
}  // namespace hora::tcp
