// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/control_queue.h"

#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>

namespace hora::shm {
namespace {

std::unique_ptr<ControlQueue> empty_queue() {
  auto queue = std::make_unique<ControlQueue>();
  std::memset(static_cast<void*>(queue.get()), 0, sizeof(ControlQueue));
  return queue;
}

Bytes message_of(std::uint64_t number, std::size_t size) {
  return Bytes(size, static_cast<std::byte>(number % 251));
}

TEST(ControlQueue, HasNoRoomForMoreThanItHolds) {
  const auto queue = empty_queue();
  EXPECT_FALSE(queue->put(0, {}, Bytes(ControlQueue::kBytes)));
  std::uint64_t number = 0;
  while (queue->put(number, {}, message_of(number, 1000))) ++number;
  EXPECT_GE(number, 15u);
  EXPECT_EQ(queue->look(), 0u);
  EXPECT_EQ(queue->take().bytes, message_of(0, 1000));
  EXPECT_TRUE(queue->put(number, {}, message_of(number, 1000)));
}

TEST(ControlQueue, GivesMessagesOfAnySizeInOrderAndWholeToAnotherThread) {
  constexpr std::uint64_t kMessages = 20'000;
  const auto queue = empty_queue();
  const auto size_of_message = [](std::uint64_t number) { return number * 37 % 3000; };
  std::thread sender([&] {
    for (std::uint64_t number = 0; number < kMessages; ++number) {
      const TimePoint sent{Clock::duration(number)};
      while (!queue->put(number, sent, message_of(number, size_of_message(number))))
        std::this_thread::yield();
    }
  });
  for (std::uint64_t number = 0; number < kMessages; ++number) {
    while (!queue->look()) std::this_thread::yield();
    const QueuedMessage message = queue->take();
    ASSERT_EQ(message.number, number);
    ASSERT_EQ(message.sent, TimePoint{Clock::duration(number)});
    ASSERT_EQ(message.bytes, message_of(number, size_of_message(number)));
  }
  sender.join();
  EXPECT_EQ(queue->look(), std::nullopt);
}

TEST(ControlQueue, RefusesWhatNoRankWrites) {
  const auto queue = empty_queue();
  ASSERT_TRUE(queue->put(0, {}, Bytes(8)));
  auto* bytes = reinterpret_cast<std::byte*>(queue.get());
  for (std::size_t at = 0; at + 8 <= sizeof(ControlQueue); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof(word));
    if (word != 8) continue;  // the size of the message
    word = 1'000'000;
    std::memcpy(bytes + at, &word, sizeof(word));
  }
  EXPECT_EQ(thrown([&] { static_cast<void>(queue->take()); }).code, Code::internal);
}

}  // namespace
}  // namespace hora::shm
