// SPDX-License-Identifier: Apache-2.0
#include "core/device/await.h"

#include "test/support/queued_gpu.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace hora {
namespace {

TEST(Await, ReturnsWhenThePointIsReached) {
  await(nullptr, [] { FAIL() << "null is reached"; });
  const auto stream = make_queued_gpu()->make_stream();
  int x = 0;
  const int y = 7;
  stream->copy(&x, &y, sizeof(x));
  await(stream->mark().get(), [] {});
  EXPECT_EQ(x, 7);
}

/// Never reached.
class Never final : public Event {
 public:
  [[nodiscard]] bool reached() const override { return false; }
  void hold_up(void* /*stream*/) const override {}
};

TEST(Await, EndsWithWhatTheCheckThrows) {
  int looks = 0;
  EXPECT_THROW(await(std::make_unique<Never>().get(),
                     [&] {
                       if (++looks == 3) throw std::runtime_error("enough");
                     }),
               std::runtime_error);
}

}  // namespace
}  // namespace hora
