// SPDX-License-Identifier: Apache-2.0
// Messages as users send them, between ranks that are threads: in memory, and over sockets.
#include "core/runtime/messages.h"

#include "core/backend/local/local_group.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

namespace hora {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;
using Numbers = std::vector<std::int64_t>;

Message of(int peer, int tag, const Numbers& values) {
  Message message;
  message.peer = peer;
  message.tag = tag;
  message.dtype = DType::int64;
  message.shape = {static_cast<std::int64_t>(values.size())};
  message.input = values.data();
  return message;
}

Message into(int peer, int tag, Numbers& values) {
  Message message = of(peer, tag, values);
  message.input = nullptr;
  message.output = values.data();
  return message;
}

Error failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return Error(Code::internal, "it did not fail");
}

/// The text of an error that is found in the caller's thread.
std::string refused(const std::function<void()>& action) {
  const Error error = failure_of(action);
  EXPECT_EQ(error.code(), Code::invalid_argument);
  return error.what();
}

/// A job whose messages go through memory, or over sockets.
class MessagesTest : public testing::TestWithParam<bool> {
 protected:
  void run_job(int size, const std::function<void(Runtime&)>& rank_main, local::LocalGroup* given = nullptr) {
    local::LocalGroup own(size);
    local::LocalGroup& group = given != nullptr ? *given : own;
    std::vector<std::unique_ptr<Messenger>> messengers;
    if (GetParam()) messengers = connect_tcp_messengers(size);
    run_ranks(size, [&](int rank) {
      Config config = config_;
      config.rank = rank;
      config.size = size;
      config.dump_directory = testing::TempDir();
      World world = group.join(rank);
      if (GetParam()) world.messenger = std::move(messengers[static_cast<std::size_t>(rank)]);
      Runtime runtime(std::move(world), config);
      rank_main(runtime);
    });
  }

  Config config_;
};

TEST_P(MessagesTest, GoRoundInARing) {
  run_job(3, [](Runtime& hora) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{100'000}}) {
      const Numbers mine(count, hora.rank());
      Numbers got(count, -1);
      const int before = (hora.rank() + 2) % 3;
      const Handle sent = hora.send(of((hora.rank() + 1) % 3, 4, mine));
      const Result result = hora.receive(into(before, 4, got)).wait();
      EXPECT_EQ(got, Numbers(count, before));
      EXPECT_EQ(result.source, before);
      EXPECT_EQ(result.tag, 4);
      EXPECT_EQ(result.dtype, DType::int64);
      EXPECT_EQ(result.shape, (std::vector<std::int64_t>{static_cast<std::int64_t>(count)}));
      EXPECT_EQ(sent.wait().shape, result.shape);
    }
  });
}

TEST_P(MessagesTest, AReceiveThatAllocatesTakesWhateverComes) {
  run_job(2, [](Runtime& hora) {
    if (hora.rank() == 0) {
      const float value = 2.5F;
      Message scalar;
      scalar.peer = 1;
      scalar.dtype = DType::float32;
      scalar.input = &value;
      hora.send(scalar).wait();
      return;
    }
    while (!hora.probe(0)) std::this_thread::yield();
    EXPECT_EQ(hora.probe(), (Envelope{0, 0, DType::float32, {}}));
    float value = 0;
    Message wanted;
    wanted.peer = kAnySource;
    wanted.tag = kAnyTag;
    wanted.allocate = [&](DType dtype, const std::vector<std::int64_t>& shape) {
      EXPECT_EQ(dtype, DType::float32);
      EXPECT_TRUE(shape.empty());
      return &value;
    };
    std::atomic<int> done = 0;
    wanted.done = [&](const Result& result) { done += result.source == 0 ? 1 : 100; };
    EXPECT_EQ(hora.receive(wanted).wait().source, 0);
    EXPECT_EQ(done, 1);
    EXPECT_EQ(value, 2.5F);
    EXPECT_EQ(hora.probe(), std::nullopt);
  });
}

TEST_P(MessagesTest, AnotherDtypeOrShapeIsAMismatchThatSaysBothAndTheSenderIsFine) {
  run_job(2, [](Runtime& hora) {
    for (const std::size_t count : {std::size_t{6}, std::size_t{60'000}}) {
      const Numbers values(count, 1);
      if (hora.rank() == 0) {
        const Handle first = hora.send(of(1, 8, values));
        const Handle second = hora.send(of(1, 8, values));
        EXPECT_NO_THROW(first.wait());
        EXPECT_NO_THROW(second.wait());
        continue;
      }
      Numbers output(count);
      Message wrong = into(0, kAnyTag, output);
      wrong.shape = {2, static_cast<std::int64_t>(count / 2)};
      Result told;
      wrong.done = [&](const Result& result) { told = result; };
      const Error error = failure_of([&] { hora.receive(wrong).wait(); });
      EXPECT_EQ(error.code(), Code::mismatch);
      EXPECT_EQ(error.what(), "a message from rank 0 with tag 8 is int64[" + std::to_string(count) +
                                  "], but the receive that takes it wants int64[2," +
                                  std::to_string(count / 2) + "]");
      EXPECT_EQ(told.source, 0);
      EXPECT_EQ(told.tag, 8);
      EXPECT_EQ(told.shape, (std::vector<std::int64_t>{static_cast<std::int64_t>(count)}));
      EXPECT_EQ(output, Numbers(count));
      wrong = into(0, 8, output);
      wrong.dtype = DType::float64;
      EXPECT_EQ(failure_of([&] { hora.receive(wrong).wait(); }).code(), Code::mismatch);
      EXPECT_EQ(output, Numbers(count));
    }
  });
}

TEST_P(MessagesTest, AnObjectIsNoTensorAndSaysSo) {
  const std::string object =
      "a message from rank 0 with tag 3 is an object of 24 bytes, but the receive that takes it wants ";
  const std::string tensor =
      "a message from rank 0 with tag 3 is int64[3], but the receive that takes it wants an object";
  run_job(2, [&](Runtime& hora) {
    Numbers values(3, hora.rank() == 0 ? 7 : 0);
    if (hora.rank() == 0) {
      for (const bool is_object : {true, true, false, true}) {
        Message message = of(1, 3, values);
        message.object = is_object;
        hora.send(message).wait();
      }
      return;
    }
    while (!hora.probe(0, 3)) std::this_thread::yield();
    EXPECT_EQ(hora.probe(0, 3), (Envelope{0, 3, DType::int64, {3}, true}));
    const Error filled = failure_of([&] { hora.receive(into(0, 3, values)).wait(); });
    EXPECT_EQ(filled.what(), object + "int64[3]");
    Message wanted;
    wanted.tag = 3;
    wanted.allocate = [&](DType /*dtype*/, const Numbers& /*shape*/) { return values.data(); };
    EXPECT_EQ(failure_of([&] { hora.receive(wanted).wait(); }).what(), object + "a tensor");
    wanted.object = true;
    const Error refused = failure_of([&] { hora.receive(wanted).wait(); });
    EXPECT_EQ(refused.what(), tensor);
    EXPECT_EQ(refused.code(), Code::mismatch);
    EXPECT_EQ(values, Numbers(3, 0));
    EXPECT_TRUE(hora.receive(wanted).wait().status.ok());
    EXPECT_EQ(values, Numbers(3, 7));
  });
}

TEST_P(MessagesTest, WhatAllocateDoesWrongEndsTheReceiveAlone) {
  run_job(1, [](Runtime& hora) {
    const Numbers values{1};
    Message wanted;
    wanted.allocate = [](DType, const std::vector<std::int64_t>&) -> void* { return nullptr; };
    hora.send(of(0, 0, values)).wait();
    EXPECT_EQ(failure_of([&] { hora.receive(wanted).wait(); }).what(),
              std::string("a message from rank 0 with tag 0 is int64[1]: `allocate` has returned no memory"));
    wanted.allocate = [](DType, const std::vector<std::int64_t>&) -> void* { throw std::bad_alloc(); };
    hora.send(of(0, 0, values)).wait();
    EXPECT_EQ(failure_of([&] { hora.receive(wanted).wait(); }).what(),
              std::string("a message from rank 0 with tag 0 is int64[1]: `allocate` has failed: ") +
                  std::bad_alloc().what());
    Numbers output(1);
    hora.send(of(0, 0, values)).wait();
    hora.receive(into(0, 0, output)).wait();
    EXPECT_EQ(output, values);
  });
}

TEST_P(MessagesTest, WhatIsWrongIsSaidInTheCallersThread) {
  run_job(2, [](Runtime& hora) {
    Numbers values(3);
    EXPECT_EQ(refused([&] { hora.send(of(2, 0, values)); }),
              "a message to rank 2 with tag 0: there is no such rank: ranks are 0 to 1");
    EXPECT_EQ(refused([&] { hora.send(of(kAnySource, 0, values)); }),
              "a message to rank -1 with tag 0: there is no such rank: ranks are 0 to 1");
    EXPECT_EQ(refused([&] { hora.send(of(1, -1, values)); }),
              "a message to rank 1 with tag -1: tags are 0 or more, not -1");
    EXPECT_EQ(refused([&] { hora.receive(into(-2, 0, values)); }),
              "a message from rank -2 with tag 0: there is no such rank: ranks are 0 to 1");
    EXPECT_EQ(refused([&] { hora.receive(into(0, -2, values)); }),
              "a message from rank 0 with tag -2: tags are 0 or more, not -2");
    EXPECT_EQ(refused([&] { static_cast<void>(hora.probe(0, -2)); }),
              "a message from rank 0 with tag -2: tags are 0 or more, not -2");
    EXPECT_EQ(refused([&] { static_cast<void>(hora.probe(2)); }),
              "a message from rank 2 with any tag: there is no such rank: ranks are 0 to 1");
    Message wrong = of(1, 0, values);
    wrong.input = nullptr;
    EXPECT_EQ(refused([&] { hora.send(wrong); }),
              "a message to rank 1 with tag 0: its elements are at a null pointer");
    wrong.shape = {-1};
    EXPECT_NE(refused([&] { hora.send(wrong); }).find("-1"), std::string::npos);
    wrong.shape.assign(65, 1);
    EXPECT_EQ(refused([&] { hora.send(wrong); }),
              "a message to rank 1 with tag 0: a tensor has at most 64 dimensions, not 65");
    wrong = into(1, 0, values);
    wrong.allocate = [](DType, const std::vector<std::int64_t>&) -> void* { return nullptr; };
    EXPECT_EQ(refused([&] { hora.receive(wrong); }),
              "a message from rank 1 with tag 0: it is to go to `output` or to what `allocate` returns, not "
              "to both");
    wrong.allocate = {};
    wrong.output = nullptr;
    EXPECT_EQ(refused([&] { hora.receive(wrong); }),
              "a message from rank 1 with tag 0: its elements are at a null pointer; `output` or `allocate` "
              "says where they go");
  });
}

TEST_P(MessagesTest, EachProcessSetHasMessagesOfItsOwn) {
  run_job(3, [](Runtime& hora) {
    const int set = hora.add_process_set({0, 2});
    if (hora.rank() == 1) {
      Numbers got(1);
      hora.receive(into(kAnySource, 0, got)).wait();
      EXPECT_EQ(got, Numbers{9});
      return;
    }
    const int same = hora.add_process_set({0, 2}, "same");
    const std::vector<int> sets{0, set, same};
    if (hora.rank() == 0) {
      for (const int each : sets) {
        Numbers values{each};
        Message message = of(2, 5, values);
        message.process_set = each;
        hora.send(message).wait();
      }
      Numbers values{9};
      Message wrong = of(1, 5, values);
      wrong.process_set = set;
      EXPECT_EQ(
          refused([&] { hora.send(wrong); }),
          "a message to rank 1 with tag 5 in process set 1: rank 1 is not in the process set, which has "
          "ranks 0 and 2");
      wrong.process_set = 7;
      EXPECT_EQ(
          refused([&] { hora.send(wrong); }),
          "a message to rank 1 with tag 5 in process set 7: process set 7 does not exist, or has not been "
          "registered");
      Message never = into(kAnySource, kAnyTag, values);
      never.process_set = same;
      EXPECT_THAT(failure_of([&] { hora.receive(never).wait(); }).what(),
                  HasSubstr("all other ranks of the process set have left the job (shutdown)"));
      hora.send(of(1, 0, values)).wait();
      return;
    }
    while (!hora.probe(0, 5, same)) std::this_thread::yield();
    EXPECT_EQ(hora.probe(kAnySource, kAnyTag, same)->process_set, same);
    for (const int each : {same, set, 0}) {
      Numbers got(1);
      Message wanted = into(kAnySource, kAnyTag, got);
      wanted.process_set = each;
      EXPECT_EQ(hora.receive(wanted).wait().source, 0);
      EXPECT_EQ(got, Numbers{each});
    }
  });
}

TEST_P(MessagesTest, WhatIsUnderWayEndsWithTheJobAndMemoryIsFreeAfterIt) {
  std::atomic<int> done = 0;
  run_job(3, [&](Runtime& hora) {
    Numbers large(100'000);
    Numbers output(10);
    Message message = of((hora.rank() + 1) % 3, 1, large);
    message.done = [&](const Result& result) { done += result.status.code == Code::aborted ? 1 : 100; };
    Message wanted = into(kAnySource, 2, output);
    wanted.done = message.done;
    const Handle sent = hora.send(message);
    const Handle received = hora.receive(wanted);
    hora.shutdown();
    EXPECT_TRUE(sent.poll());
    EXPECT_TRUE(received.poll());
    const int peer = (hora.rank() + 1) % 3;
    // The peer left first, or last, when the job had ended.
    EXPECT_THAT(failure_of([&] { sent.wait(); }).what(),
                AllOf(StartsWith("a message to rank " + std::to_string(peer) + " with tag 1: "),
                      AnyOf(HasSubstr("rank " + std::to_string(peer) + " has left the job (shutdown)"),
                            HasSubstr("the job has ended: every rank has left it (shutdown)"))));
    EXPECT_THAT(failure_of([&] { received.wait(); }).what(),
                AllOf(StartsWith("a message from any rank with tag 2: "),
                      AnyOf(HasSubstr("all other ranks have left the job (shutdown)"),
                            HasSubstr("the job has ended: every rank has left it (shutdown)"))));
    EXPECT_EQ(failure_of([&] { hora.send(of(0, 0, large)); }).code(), Code::aborted);
    EXPECT_EQ(failure_of([&] { hora.receive(into(0, 0, output)); }).code(), Code::aborted);
    EXPECT_EQ(failure_of([&] { static_cast<void>(hora.probe()); }).code(), Code::aborted);
  });
  EXPECT_EQ(done, 6);
}

TEST_P(MessagesTest, WhatWaitsForARankThatHasLeftEndsAndNamesIt) {
  run_job(3, [](Runtime& hora) {
    Numbers large(100'000);
    if (hora.rank() == 1) {
      hora.send(of(0, 3, {5})).wait();
      return;
    }
    if (hora.rank() == 2) return;
    Numbers got(1);
    Numbers from_any(1);
    const Handle any = hora.receive(into(kAnySource, 9, from_any));
    EXPECT_STREQ(failure_of([&] { hora.receive(into(1, 4, got)).wait(); }).what(),
                 "a message from rank 1 with tag 4: rank 1 has left the job (shutdown)");
    EXPECT_STREQ(failure_of([&] { hora.send(of(1, 4, large)).wait(); }).what(),
                 "a message to rank 1 with tag 4: rank 1 has left the job (shutdown)");
    EXPECT_STREQ(failure_of([&] { any.wait(); }).what(),
                 "a message from any rank with tag 9: all other ranks have left the job (shutdown)");
    hora.receive(into(1, 3, got)).wait();
    EXPECT_EQ(got, Numbers{5}) << "which it had sent before";
  });
}

TEST_P(MessagesTest, ThoseThatWaitForEachOtherAreWarnedOfAndEndTheJob) {
  config_.missing_warning = std::chrono::milliseconds(50);
  config_.missing_timeout = std::chrono::milliseconds(200);
  testing::internal::CaptureStderr();
  run_job(2, [](Runtime& hora) {
    Numbers got(2);
    const int peer = 1 - hora.rank();
    const std::string said = failure_of([&] { hora.receive(into(peer, 7, got)).wait(); }).what();
    EXPECT_THAT(said, HasSubstr(" s for a message from rank "));
    EXPECT_THAT(said, HasSubstr("with tag 7 (int64[2]), which has not been sent; missing:\n  rank "));
    EXPECT_THAT(said, HasSubstr("It waits itself, for a message from rank "));
    EXPECT_THAT(said, HasSubstr("The job ends: HORA_MISSING_TIMEOUT is 0.2 s"));
  });
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("warning: rank 0 has waited for 0 s for a message from rank 1 with tag 7 (int64[2])"));
}

TEST_P(MessagesTest, AShutdownThatWaitsSaysOnceWhoHasNotCalledIt) {
  config_.missing_warning = std::chrono::milliseconds(50);
  testing::internal::CaptureStderr();
  run_job(2, [](Runtime& hora) {
    if (hora.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(400));  // at work
  });
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string line = "warning: shutdown() has waited for 0 s: rank 1 called it; missing:\n  rank 0 ";
  EXPECT_THAT(said, HasSubstr(line));
  EXPECT_EQ(said.find(line), said.rfind(line));
}

/// A rank that sends, receives and probes at random, then leaves the job in order, or before that waits for
/// all that it has begun, or is lost. Receives from any rank have a tag of their own, with which no rank
/// sends to itself: so it is known how many of its receives find a message.
class RandomRank {
 public:
  enum class Ending : std::uint8_t { leaves, waits, is_lost };
  using Key = std::pair<int, int>;  // peer and tag
  static constexpr int kTagOfLarge = 1;
  static constexpr int kTagForAny = 9;

  RandomRank(unsigned seed, Ending ending) : random_(seed), ending_(ending) {}

  void run(Runtime& hora, local::LocalGroup& group) {
    try {
      for (int left = draw(5, 40); left > 0; --left) act(hora);
    } catch (const Error& error) {
      note(error);  // the job has ended
    }
    if (ending_ == Ending::waits) end_all();
    if (ending_ != Ending::is_lost) return;
    group.lose(hora.rank(), "its process ended");
    hora.shutdown("it is lost");
  }
  /// After the job: all that it has begun has ended.
  void end_all() {
    for (const auto& [key, handle] : std::exchange(receives_, {})) {
      if (ends_well(handle)) ++found_[key];
    }
    for (const auto& handle : std::exchange(sends_, {})) static_cast<void>(ends_well(handle));
  }
  [[nodiscard]] int found(const Key& key) const { return count(found_, key); }
  [[nodiscard]] int sent(const Key& key) const { return count(sent_, key); }
  [[nodiscard]] const std::map<Key, int>& wanted() const { return wanted_; }

 private:
  static int count(const std::map<Key, int>& counts, const Key& key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }
  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  void act(Runtime& hora) {
    const int peer = (hora.rank() + draw(1, hora.size() - 1)) % hora.size();
    const int tag = std::array{0, kTagOfLarge, kTagForAny}[static_cast<std::size_t>(draw(0, 2))];
    switch (draw(0, 5)) {
      case 0:
      case 1: return send(hora, peer, tag);
      case 2:
      case 3: return receive(hora, tag == kTagForAny ? kAnySource : peer, tag);
      case 4: return probe(hora, peer, tag);
      default: send(hora, hora.rank(), 5); return receive(hora, hora.rank(), 5);
    }
  }
  Numbers& memory(int tag) { return memory_.emplace_back(tag == kTagOfLarge ? 30'000 : 3); }
  void send(Runtime& hora, int peer, int tag) {
    sends_.push_back(hora.send(of(peer, tag, memory(tag))));
    ++sent_[{peer, tag}];
  }
  void receive(Runtime& hora, int peer, int tag) {
    receives_.emplace_back(Key(peer, tag), hora.receive(into(peer, tag, memory(tag))));
    ++wanted_[{peer, tag}];
  }
  static void probe(Runtime& hora, int peer, int tag) {
    try {
      static_cast<void>(hora.probe(peer, tag));
    } catch (const Error& error) {
      note(error);
    }
  }
  static bool ends_well(const Handle& handle) {
    if (!handle.wait_for(std::chrono::seconds(30))) {
      ADD_FAILURE() << "it waits for ever";
      return false;
    }
    try {
      handle.wait();
      return true;
    } catch (const Error& error) {
      note(error);
      return false;
    }
  }
  static void note(const Error& error) {
    EXPECT_TRUE(error.code() == Code::aborted || error.code() == Code::timeout) << error.what();
  }

  std::mt19937 random_;
  Ending ending_;
  std::list<Numbers> memory_;
  std::vector<std::pair<Key, Handle>> receives_;
  std::vector<Handle> sends_;
  std::map<Key, int> sent_;
  std::map<Key, int> wanted_;
  std::map<Key, int> found_;
};

/// Three of them in one job.
class RandomRanks {
 public:
  RandomRanks(unsigned seed, const std::array<RandomRank::Ending, 3>& endings) {
    for (unsigned rank = 0; rank < 3; ++rank) ranks_.emplace_back(seed * 3 + rank, endings[rank]);
  }
  RandomRank& operator[](int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  void end_all() {
    for (auto& rank : ranks_) rank.end_all();
  }
  /// How many messages were sent to a receive of these.
  [[nodiscard]] int sent_to(int rank, const RandomRank::Key& wanted) const {
    int sent = 0;
    for (int source = 0; source < 3; ++source) {
      if (wanted.first != source && wanted.first != kAnySource) continue;
      sent += ranks_[static_cast<std::size_t>(source)].sent({rank, wanted.second});
    }
    return sent;
  }

 private:
  std::vector<RandomRank> ranks_;
};

TEST_P(MessagesTest, ARankThatWaitsWhileOthersLeaveGetsAllThatWasSentToItAndWaitsForNothingElse) {
  using Ending = RandomRank::Ending;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    const int waiter = static_cast<int>(seed % 3);
    std::array endings{Ending::leaves, Ending::leaves, Ending::leaves};
    endings[seed % 3] = Ending::waits;
    RandomRanks ranks(seed, endings);
    local::LocalGroup group(3);
    run_job(3, [&](Runtime& hora) { ranks[hora.rank()].run(hora, group); }, &group);
    ranks.end_all();
    for (const auto& [wanted, count] : ranks[waiter].wanted()) {
      EXPECT_EQ(ranks[waiter].found(wanted), std::min(count, ranks.sent_to(waiter, wanted)))
          << wanted.first << " " << wanted.second;
    }
  }
}

TEST_P(MessagesTest, NothingWaitsForEverHoweverRanksEnd) {
  using Ending = RandomRank::Ending;
  config_.missing_warning = std::chrono::milliseconds(50);
  config_.missing_timeout = std::chrono::milliseconds(200);
  testing::internal::CaptureStderr();
  std::mt19937 random(7);
  for (unsigned seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE(seed);
    std::array<Ending, 3> endings{};
    for (auto& ending : endings)
      ending = std::array{Ending::leaves, Ending::waits, Ending::waits, Ending::is_lost}[random() % 4];
    RandomRanks ranks(seed, endings);
    local::LocalGroup group(3);
    run_job(3, [&](Runtime& hora) { ranks[hora.rank()].run(hora, group); }, &group);
    ranks.end_all();
  }
  testing::internal::GetCapturedStderr();
}

TEST_P(MessagesTest, SmallOnesThatWereSentBeforeTheSenderLeftStillArrive) {
  run_job(2, [](Runtime& hora) {
    Numbers values{1, 2, 3};
    if (hora.rank() == 0) {
      for (int i = 0; i < 100; ++i) hora.send(of(1, i, values)).wait();
      return;
    }
    for (int i = 99; i >= 0; --i) {
      Numbers output(3);
      hora.receive(into(0, i, output)).wait();
      EXPECT_EQ(output, values);
    }
  });
}

TEST_P(MessagesTest, ALostRankEndsWhatWaitsForItAndForOthers) {
  local::LocalGroup group(3);
  testing::internal::CaptureStderr();
  run_job(
      3,
      [&](Runtime& hora) {
        Numbers values(10);
        if (hora.rank() == 2) {
          for (int peer = 0; peer < 2; ++peer) hora.receive(into(peer, 7, values)).wait();
          group.lose(2, "its process ended");
          return hora.shutdown("it is lost");
        }
        Numbers others(10);
        Numbers third(10);
        const Handle first = hora.receive(into(2, 0, others));
        const Handle second = hora.receive(into(kAnySource, 1, third));
        hora.send(of(2, 7, values)).wait();
        for (const auto& handle : {first, second}) {
          const Error error = failure_of([&] { handle.wait(); });
          EXPECT_EQ(error.code(), Code::aborted);
          EXPECT_NE(std::string(error.what()).find("rank 2 is gone: its process ended"), std::string::npos)
              << error.what();
        }
      },
      &group);
  testing::internal::GetCapturedStderr();
}

TEST_P(MessagesTest, AFailedJobSaysWhy) {
  testing::internal::CaptureStderr();
  run_job(2, [&](Runtime& hora) {
    Numbers values(10);
    if (hora.rank() == 1) {
      hora.receive(into(0, 7, values)).wait();
      return hora.shutdown("out of luck");
    }
    Numbers output(10);
    const Handle received = hora.receive(into(1, 0, output));
    hora.send(of(1, 7, values)).wait();
    const Error error = failure_of([&] { received.wait(); });
    EXPECT_STREQ(error.what(), "a message from rank 1 with tag 0: rank 1 failed: out of luck");
  });
  testing::internal::GetCapturedStderr();
}

TEST_P(MessagesTest, GoOnWhileTheEngineIsBusy) {
  run_job(2, [](Runtime& hora) {
    // Rank 0 comes to the barrier only after rank 1, which waits there, has answered.
    Numbers values{7};
    Numbers output(1);
    Entry barrier;
    barrier.operation = Operation::barrier;
    barrier.name = "b";
    if (hora.rank() == 0) {
      hora.send(of(1, 0, values)).wait();
      hora.receive(into(1, 0, output)).wait();
      EXPECT_EQ(output, values);
      hora.submit(barrier).wait();
      return;
    }
    const Handle reached = hora.submit(barrier);
    hora.receive(into(0, 0, output)).wait();
    hora.send(of(0, 0, output)).wait();
    reached.wait();
  });
}

TEST_P(MessagesTest, AForkedChildCannotSendAndWaitsForNothing) {
  run_job(1, [](Runtime& hora) {
    Numbers wanted(1);
    const Handle under_way = hora.receive(into(0, 1, wanted));
    const pid_t child = ::fork();
    if (child == 0) {
      Numbers values(1);
      const bool refused =
          failure_of([&] { hora.send(of(0, 0, values)); }).code() == Code::unavailable &&
          failure_of([&] { hora.receive(into(0, 0, values)); }).code() == Code::unavailable &&
          failure_of([&] { static_cast<void>(hora.probe()); }).code() == Code::unavailable &&
          under_way.poll() && failure_of([&] { under_way.wait(); }).code() == Code::unavailable;
      ::_exit(refused ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    Numbers sent(1);
    hora.send(of(0, 1, sent)).wait();
    under_way.wait();
  });
}

INSTANTIATE_TEST_SUITE_P(, MessagesTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "sockets" : "memory"; });

}  // namespace
}  // namespace hora
