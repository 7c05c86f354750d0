// SPDX-License-Identifier: Apache-2.0
#include "runner/command_line/elastic_flags.h"

#include "test/runner/command_line/parsed.h"

#include <gmock/gmock.h>

#include <limits>

namespace hora::hrun {
namespace {

TEST(ElasticFlags, TakeTheHostsFromAScript) {
  const Options options = accepted({"-np", "2", "--host-discovery-script", "echo localhost:3; echo b.invalid",
                                    "--slots-per-host=2", "true"});
  EXPECT_EQ(options.hosts, (std::vector<HostSlots>{{"localhost", 3}, {"b.invalid", 2}}));
  EXPECT_EQ(options.ranks, 5) << "all slots";
  EXPECT_EQ(options.elastic->members.min_members, 2);
  EXPECT_EQ(options.elastic->members.max_members, kMostElasticRanks);
  EXPECT_EQ(options.discovery->slots, 2);
  EXPECT_TRUE(options.remote_host("b.invalid"));
  EXPECT_FALSE(options.remote_host("localhost"));
  const Options few = accepted({"--min-np", "1", "--max-np", "2", "--host-discovery-script",
                                "echo localhost:3", "--spares", "1", "true"});
  EXPECT_EQ(few.ranks, 2);
  EXPECT_EQ(few.elastic->spares, 1);
  EXPECT_EQ(refusal({"-np", "2", "--slots-per-host", "2", "true"}),
            "hrun: --slots-per-host needs --host-discovery-script SCRIPT");
  EXPECT_EQ(refusal({"-np", "1", "-H", "a:1", "--host-discovery-script", "true", "true"}),
            "hrun: --host-discovery-script: it tells the hosts, so leave -H and --hostfile out");
  EXPECT_THAT(refusal({"-np", "1", "--host-discovery-script", "/no/such/script", "true"}),
              testing::HasSubstr("the host discovery script '/no/such/script' exited with code 127"));
  EXPECT_EQ(refusal({"-np", "2", "--elastic-timeout", "0.1", "--host-discovery-script", "true", "true"}),
            "hrun: there are too few hosts after 0.1 s (--elastic-timeout): 0 slots on 0 hosts, and the job "
            "needs 2 to begin");
}

TEST(ElasticFlags, KeepSlotsForSpares) {
  const Options options = accepted({"-np", "2", "--min-np", "1", "--spares", "2", "true"});
  EXPECT_EQ(options.ranks, 2);
  EXPECT_EQ(options.hosts, (std::vector<HostSlots>{{"localhost", 4}}));
  EXPECT_EQ(accepted({"--max-np", "9", "--spares", "1", "-H", "localhost:4", "true"}).ranks, 3);
  EXPECT_EQ(refusal({"-np", "4", "--min-np", "1", "--spares", "1", "-H", "localhost:4", "true"}),
            "hrun: --spares 1: the hosts have 4 slots, and the job needs 4 for its ranks");
}

TEST(ElasticFlags, LetHotSparesBeMembersBeyondThoseThatTrain) {
  const Options options = accepted({"-np", "2", "--min-np", "1", "--spares", "2:hot", "true"});
  EXPECT_EQ(options.hosts, (std::vector<HostSlots>{{"localhost", 4}}));
  EXPECT_EQ(options.elastic->spares, 0) << "none waits";
  EXPECT_EQ(options.elastic->members.hot_spares, 2);
  EXPECT_EQ(options.elastic->members.max_members, 4);
  EXPECT_EQ(refusal({"-np", "1", "--host-discovery-script", "echo localhost:2", "--spares", "1:hot", "true"}),
            "hrun: --spares 1:hot: say how many ranks are to train: --max-np N");
  EXPECT_EQ(refusal({"-np", "2", "--min-np", "1", "--spares", "1:warm", "true"}),
            "hrun: --spares: must be N or N:hot, N from 0 to 65536, not '1:warm'");
}

TEST(ElasticFlags, SayWhenAStoppedRankIsEnded) {
  const auto after = [](const char* seconds) {
    return accepted({"-np", "2", "--min-np", "1", "--stopped-after", seconds, "true"})
        .elastic->members.stopped_after;
  };
  EXPECT_EQ(after("1.5"), std::chrono::milliseconds(1500));
  EXPECT_EQ(after("0"), std::chrono::milliseconds(0)) << "never";
}

TEST(ElasticFlags, TakeTheTimeOfAPauseAsHorovodsScriptsGiveIt) {
  const auto pause = [](std::vector<std::string> words) {
    return accepted(std::move(words)).elastic->members.pause_timeout;
  };
  ::setenv("HOROVOD_ELASTIC_TIMEOUT", "2.5", 1);
  EXPECT_EQ(pause({"-np", "2", "--min-np", "1", "true"}), std::chrono::milliseconds(2500));
  EXPECT_EQ(pause({"-np", "2", "--min-np", "1", "--elastic-timeout", "3", "true"}), std::chrono::seconds(3));
  ::setenv("HOROVOD_ELASTIC_TIMEOUT", "soon", 1);
  EXPECT_EQ(refusal({"-np", "2", "--min-np", "1", "true"}),
            "hrun: HOROVOD_ELASTIC_TIMEOUT must be a number of seconds from 0.001 to 10000000, not 'soon'");
  EXPECT_FALSE(accepted({"-np", "2", "true"}).elastic) << "it counts for elastic jobs alone";
  ::unsetenv("HOROVOD_ELASTIC_TIMEOUT");
}

TEST(ElasticFlags, MakeAnElasticJobOfALeastNumberOfRanks) {
  EXPECT_FALSE(accepted({"-np", "2", "true"}).elastic);
  const auto policy = accepted({"-np", "4", "--min-np", "2", "--elastic-timeout", "1.5", "true"}).elastic;
  EXPECT_EQ(policy->members.min_members, 2);
  EXPECT_EQ(policy->members.first_members, 4);
  EXPECT_EQ(policy->members.max_members, 4);
  EXPECT_EQ(policy->members.pause_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(accepted({"-np", "2", "--min-num-proc=2", "true"}).elastic->members.min_members, 2);
  const auto usual = accepted({"-np", "2", "--min-np", "1", "true"}).elastic;
  EXPECT_EQ(usual->members.pause_timeout, std::chrono::seconds(600));
  EXPECT_EQ(usual->replacement.most, std::numeric_limits<int>::max());
  EXPECT_EQ(usual->replacement.shortest_rest, std::chrono::seconds(10));
  EXPECT_FALSE(usual->reset_limit);
  EXPECT_FALSE(accepted({"--preflight", "-H", "localhost:3", "--min-np", "3"}).elastic);
}

TEST(ElasticFlags, TakeTheRulesByWhichRanksOfAnElasticJobAreReplaced) {
  const auto policy = accepted({"-np", "2", "--min-np", "1", "--max-replacements", "3",
                                "--blacklist-cooldown-range", "0.5", "20", "--reset-limit=7", "true"})
                          .elastic;
  EXPECT_EQ(policy->replacement.most, 3);
  EXPECT_EQ(policy->replacement.shortest_rest, std::chrono::milliseconds(500));
  EXPECT_EQ(policy->replacement.longest_rest, std::chrono::seconds(20));
  EXPECT_EQ(policy->reset_limit, 7U);
}

TEST(ElasticFlags, StartAsManyRanksOfAnElasticJobAsThereAreSlots) {
  struct Case {
    std::vector<std::string> flags;
    int started, first, most;
  };
  for (const auto& [flags, started, first, most] : std::vector<Case>{
           {{"-np", "2", "--max-np", "3"}, 3, 2, 3},
           {{"-np", "2", "--max-np", "9", "-H", "localhost:4"}, 4, 2, 9},
           {{"--max-np", "3", "-H", "localhost:4"}, 3, 3, 3},
           {{"-np", "2", "--min-np", "1", "-H", "localhost:4"}, 2, 2, 2},
       }) {
    std::vector<std::string> words = flags;
    words.emplace_back("true");
    const Options options = accepted(words);
    EXPECT_EQ(options.ranks, started) << flags[3];
    EXPECT_EQ(options.elastic->members.first_members, first) << flags[3];
    EXPECT_EQ(options.elastic->members.max_members, most) << flags[3];
  }
}

TEST(ElasticFlags, RefuseElasticJobsThatCannotBe) {
  EXPECT_EQ(refusal({"-np", "2", "--min-np", "3", "true"}),
            "hrun: --min-np 3: the job begins with 2 ranks (-np); choose at most as many");
  EXPECT_EQ(refusal({"-np", "2", "--min-np", "0", "true"}),
            "hrun: --min-np: must be a number of ranks from 1 to 65536, not '0'");
  EXPECT_EQ(refusal({"-np", "2", "--elastic-timeout", "3", "true"}),
            "hrun: --elastic-timeout needs --min-np N");
  for (const std::vector<std::string>& way : {std::vector<std::string>{"--mpi"}, {"--launcher", "mpi"}}) {
    std::vector<std::string> words{"-np", "2", "--min-np", "1"};
    words.insert(words.end(), way.begin(), way.end());
    words.emplace_back("true");
    EXPECT_EQ(refusal(words),
              "hrun: --min-np: elastic jobs need hrun to start the ranks: --launcher ssh or slurm");
  }
  EXPECT_EQ(refusal({"-np", "2", "--min-np", "1", "-x", "HORA_CPU_OPERATIONS=mpi", "true"}),
            "hrun: --min-np: MPI ends all ranks when one is lost, so an elastic job cannot use it: set "
            "HORA_CPU_OPERATIONS to auto, or leave --min-np out");
}

}  // namespace
}  // namespace hora::hrun
