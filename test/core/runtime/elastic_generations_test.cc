// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads. test/core/runtime/elastic_processes_test.cc has processes that are killed.
#include "core/runtime/elastic_generations.h"

#include "core/launcher/life_mutex.h"
#include "test/support/elastic_launcher.h"
#include "test/support/elastic_process.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <filesystem>

namespace hora {
namespace {

using testing::HasSubstr;

TEST(ElasticGenerations, GoOnWithoutAnyRankThatDiesOnTheSameMemory) {
  for (int dies = 0; dies < 3; ++dies) {
    ElasticLauncher launcher(policy_for(3));
    std::barrier trained(3);
    run_ranks(3, [&](int process) {
      ElasticProcess self(launcher.settings(process));
      EXPECT_EQ(self.membership().generation, 1U);
      EXPECT_EQ(self.job().state_root(), 0);
      self.train_until(5);
      trained.arrive_and_wait();
      if (process == dies) {
        self.job().shutdown("it is taken away");
        return launcher.die(process, "was taken away");
      }
      self.train_until(10);
      EXPECT_EQ(self.membership().size, 2);
      EXPECT_EQ(self.membership().rank, process > dies ? process - 1 : process);
      EXPECT_EQ(self.job().state_root(), -1);
      EXPECT_EQ(self.model(), model_after(10));
      self.job().shutdown({});
    });
    EXPECT_EQ(launcher.record().generation, 2U);
    EXPECT_EQ(launcher.record().committed, 5U);
  }
}

TEST(ElasticGenerations, LetHrunWaitForTheEndOfAProcessThatUsesAGpu) {
  ElasticLauncher launcher(policy_for(1));
  LifeMutex life;
  Config settings = launcher.settings(0);
  settings.life_fd = life.file();
  const auto generations = make_elastic_generations(
      settings, [](const Membership&, Config&, TimePoint, const std::shared_ptr<HostMemory>&) -> World {
        throw Error(Code::unavailable, "nobody connects here");
      });
  generations->on_stop([](const Status&) { return elastic::Report{}; });
  while (launcher.record().generation == 0)
    std::this_thread::yield();  // it holds the mutex when it asks to join
  generations->use_gpu();
  EXPECT_EQ(life.await_end(), 0) << "the process does not hold it any more";
  generations->finish(false);
}

TEST(ElasticGenerations, CountAStepForWhichAllThatLiveHaveVoted) {
  ElasticLauncher launcher(policy_for(3));
  std::barrier brought(3);
  std::array<const Steps*, 3> steps{};
  run_ranks(3, [&](int process) {
    ElasticProcess self(launcher.settings(process));
    self.train_until(1);
    self.bring(2).wait();
    steps[static_cast<std::size_t>(process)] = &self.job().lasting().steps;
    brought.arrive_and_wait();
    if (process == 0) {  // it has the gradients, and does not vote for the step
      while (steps[1]->voted < 2 || steps[2]->voted < 2) std::this_thread::yield();
      launcher.die(0, "was taken away");
      return self.job().shutdown("it is taken away");
    }
    EXPECT_TRUE(self.job().commit()) << "the two that are left have voted";
    EXPECT_EQ(self.membership().size, 2);
    self.job().shutdown({});
  });
  EXPECT_EQ(launcher.record().committed, 2U);
}

TEST(ElasticGenerations, MakeAStepAgainForWhichOneOfThemHasNotVoted) {
  ElasticLauncher launcher(policy_for(3));
  std::barrier brought(3);
  run_ranks(3, [&](int process) {
    ElasticProcess self(launcher.settings(process));
    self.train_until(1);
    self.bring(2).wait();
    brought.arrive_and_wait();
    if (process == 0) {
      launcher.die(0, "was taken away");
      return self.job().shutdown("it is taken away");
    }
    if (process == 1) {
      EXPECT_FALSE(self.job().commit());
    } else {  // it takes part only when the change is over on its side
      EXPECT_EQ(self.job().next_generation(), 1U);
    }
    EXPECT_EQ(self.membership().size, 2);
    self.bring(2).wait();
    EXPECT_TRUE(self.job().commit());
    self.job().shutdown({});
  });
  EXPECT_EQ(launcher.record().committed, 1U);
}

TEST(ElasticGenerations, SayWhoWasLostToOperationsThatEndAndToLaterOnes) {
  ElasticLauncher launcher(policy_for(2));
  std::barrier trained(2);
  std::barrier noticed(2);
  run_ranks(2, [&](int process) {
    ElasticProcess self(launcher.settings(process));
    self.train_until(1);
    trained.arrive_and_wait();
    if (process == 1) {
      launcher.die(1, "was killed by signal 9 (Killed)");
      noticed.arrive_and_wait();
      return self.job().shutdown("it is taken away");
    }
    const Status end = thrown([&] {
      while (true) self.bring(2).wait();
    });
    noticed.arrive_and_wait();
    EXPECT_EQ(end.code, Code::generation_ended);
    EXPECT_THAT(end.message,
                HasSubstr("generation 1 of the job has ended: process 1 was killed by signal 9"));
    EXPECT_EQ(thrown([&] { self.bring(2).wait(); }).code, Code::generation_ended);
    self.train_until(3);
    EXPECT_EQ(self.membership().size, 1);
    EXPECT_EQ(self.model(), model_after(3));
    self.job().shutdown({});
  });
}

TEST(ElasticGenerations, TakeInAProcessThatIsStartedLateWhenItIsReady) {
  elastic::ElasticPolicy policy = policy_for(3);
  policy.first_members = 2;
  ElasticLauncher launcher(policy);
  std::atomic<std::uint64_t> made{0};
  run_ranks(3, [&](int process) {
    Config settings = launcher.settings(process);
    settings.joins_late = process == 2;
    settings.local_rank = process;
    settings.local_size = 3;
    while (process == 2 && made < 5) std::this_thread::yield();
    ElasticProcess self(settings);
    if (process == 2) {
      EXPECT_EQ(self.membership().generation, 0U);
      EXPECT_EQ(self.membership().size, 1);
      EXPECT_EQ(self.membership().local_rank, 2) << "it chooses its GPU by that";
      self.bring(7).wait();
      EXPECT_TRUE(self.job().commit()) << "so a program may prepare itself";
      while (made < 10) std::this_thread::yield();
      EXPECT_EQ(launcher.record().generation, 1U) << "nobody waits for it";
      self.job().next_generation();
      EXPECT_EQ(self.job().state_root(), 0);
      self.share_state();
    }
    while (self.membership().size < 3) {
      self.step();
      made = self.made();
    }
    self.train_until(300);
    EXPECT_EQ(self.membership().generation, 2U);
    EXPECT_EQ(self.model(), model_after(self.made()));
    self.job().shutdown({});
  });
}

TEST(ElasticGenerations, LetAProcessGoAfterAStepThatCounts) {
  ElasticLauncher launcher(policy_for(3));
  run_ranks(3, [&](int process) {
    ElasticProcess self(launcher.settings(process));
    self.train_until(3);
    if (process == 0) launcher.let_go(0);
    if (process != 0) {
      while (self.membership().size == 3) self.step();
      self.train_until(self.made() + 3);
      EXPECT_EQ(self.membership().generation, 2U);
      EXPECT_EQ(self.model(), model_after(self.made()));
      return self.job().shutdown({});
    }
    const Status end = thrown([&] {
      while (true) self.step();
    });
    EXPECT_EQ(end, (Status{Code::aborted, "this process is no member of the job any more"}));
  });
}

TEST(ElasticGenerations, DoNotWaitForTheEndOfAProcessThatFails) {
  ElasticLauncher launcher(policy_for(3));
  std::barrier trained(3);
  std::barrier gone_on(3);
  run_ranks(3, [&](int process) {
    ElasticProcess self(launcher.settings(process));
    self.train_until(3);
    trained.arrive_and_wait();
    if (process == 1) self.job().shutdown("its disk is full");
    if (process != 1) self.train_until(6);
    gone_on.arrive_and_wait();
    if (process == 1) return launcher.die(1, "exited with code 1");
    EXPECT_EQ(self.membership().size, 2);
    self.job().shutdown({});
  });
  EXPECT_EQ(launcher.record().generation, 2U);
  EXPECT_EQ(launcher.killed(), std::vector<int>());
}

TEST(ElasticGenerations, LeaveOutAProcessThatCannotConnectByItsOwnFault) {
  ElasticLauncher launcher(policy_for(3));
  std::barrier trained(3);
  run_ranks(3, [&](int process) {
    const auto faulty = [process](const Membership& membership, Config& config, TimePoint deadline,
                                  std::shared_ptr<HostMemory> former) {
      if (process == 2 && membership.generation > 1) throw Error(Code::unavailable, "no memory");
      return connect(membership, config, deadline, std::move(former));
    };
    ElasticProcess self(launcher.settings(process), faulty);
    self.train_until(3);
    trained.arrive_and_wait();
    if (process == 0) {
      launcher.die(0, "was taken away");
      return self.job().shutdown("it is taken away");
    }
    if (process == 2) {
      EXPECT_EQ(thrown([&] { self.train_until(6); }), (Status{Code::unavailable, "no memory"}));
      EXPECT_TRUE(self.job().is_elastic()) << "the job is";
      return;
    }
    self.train_until(6);
    EXPECT_EQ(self.membership().size, 1);
    EXPECT_EQ(self.model(), model_after(6));
    self.job().shutdown({});
  });
}

/// How many entries a folder of /proc has.
std::ptrdiff_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return std::distance(begin(all), end(all));
}

TEST(ElasticGenerations, LeaveNothingBehind) {
  ElasticLauncher launcher(policy_for(3));
  std::barrier changed(3);
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t threads = 0;
  run_ranks(3, [&](int process) {
    ElasticProcess self(launcher.settings(process));
    for (int change = 1; change <= 120; ++change) {
      self.step();
      EXPECT_EQ(self.job().next_generation(), static_cast<std::uint64_t>(change));
      changed.arrive_and_wait();
      if (process == 0 && change == 20) {
        descriptors = entries_of("/proc/self/fd");
        threads = entries_of("/proc/self/task");
      }
      if (process == 0 && change == 120) {
        EXPECT_LE(entries_of("/proc/self/fd"), descriptors + 3);
        EXPECT_LE(entries_of("/proc/self/task"), threads + 3);
      }
      changed.arrive_and_wait();
    }
    self.job().shutdown({});
  });
  EXPECT_EQ(launcher.record().generation, 121U);
}

TEST(ElasticGenerations, SayWhoDoesNotComeAtTheStart) {
  ElasticLauncher launcher(policy_for(2));
  Config settings = launcher.settings(0);
  settings.start_timeout = std::chrono::milliseconds(50);
  const Status end = thrown([&] { ElasticProcess self(settings); });
  EXPECT_EQ(end.code, Code::timeout);
  EXPECT_THAT(end.message, HasSubstr("not all ranks of this job have come within 0.05 s"));
}

TEST(ElasticGenerations, RefuseABackendWhoseRanksCannotChange) {
  ElasticLauncher launcher(policy_for(1));
  Config settings = launcher.settings(0);
  settings.cpu_operations = "mpi";
  EXPECT_EQ(thrown([&] { ElasticProcess self(settings); }).code, Code::invalid_argument);
}

TEST(ElasticGenerations, OfAJobOfOneRankCommitItsSteps) {
  ElasticLauncher launcher(policy_for(1));
  ElasticProcess self(launcher.settings(0));
  self.train_until(3);
  EXPECT_EQ(self.model(), model_after(3));
}

}  // namespace
}  // namespace hora
