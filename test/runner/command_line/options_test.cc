// SPDX-License-Identifier: Apache-2.0
#include "runner/command_line/options.h"

#include "test/runner/command_line/parsed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace hora::hrun {
namespace {

TEST(ParseOptions, ShowsTheUsageLineForWordsOfAnotherFormOnly) {
  const std::vector<std::vector<std::string>> of_another_form = {
      {}, {"true"}, {"-np", "2"}, {"-np"}, {"-np", "two", "true"}, {"--bogus", "true"}, {"-np", "0", "true"}};
  for (const auto& words : of_another_form) {
    const std::string text = whole_refusal(words);
    EXPECT_EQ(text.find("usage: hrun -np N"), 0u) << text;
    EXPECT_TRUE(text.ends_with("; hrun --help says more\n")) << text;
  }
  const std::vector<std::vector<std::string>> refused = {
      {"-np", "2", "no-such-program-anywhere"},       {"-np", "2", "/etc/passwd"},
      {"-np", "2", "-x", "NO_SUCH_VARIABLE", "true"}, {"-H", "localhost:0", "true"},
      {"-np", "9", "-H", "localhost:2", "true"},      {"--hostfile", "/tmp", "true"},
      {"--config-file", "/no/such/file", "true"}};
  for (const auto& words : refused) {
    const std::string text = whole_refusal(words);
    EXPECT_EQ(text.find("hrun: "), 0u) << text;
    EXPECT_EQ(text.find("usage"), std::string::npos) << text;
    EXPECT_EQ(text.find("--help"), std::string::npos) << text;
  }
}

TEST(ParseOptions, LeavesWhatFollowsTheProgramToTheProgram) {
  const Options options = accepted({"-np", "2", "--no-prefix", "sh", "-np", "7", "--verbose"});
  EXPECT_EQ(options.ranks, 2);
  EXPECT_FALSE(options.prefix);
  EXPECT_FALSE(options.verbose);
  EXPECT_EQ(options.command.size(), 4u);
  EXPECT_EQ(options.command[1], "-np");
  EXPECT_EQ(accepted({"-np", "2", "--", "sh", "-c", "true"}).command[2], "true");
}

TEST(ParseOptions, SaysWhichFilesOfOutputAreOfAnEarlierRunWithMoreRanks) {
  const std::filesystem::path folder = testing::TempDir() + "earlier-" + std::to_string(::getpid());
  const auto notes = [&] {
    return accepted({"-np", "2", "--output-filename", folder.string(), "true"}).notes;
  };
  EXPECT_TRUE(notes().empty());
  for (const char* name : {"rank.0", "rank.1", "rank.x", "rank.3.old", "ranks", "rank.-1"})
    std::filesystem::create_directories(folder / name);
  EXPECT_TRUE(notes().empty());
  for (const char* name : {"rank.2", "rank.3"}) std::filesystem::create_directories(folder / name);
  EXPECT_EQ(notes(), (std::vector<std::string>{
                         "what " + folder.string() +
                         " has of ranks 2 and 3 is of an earlier run with more ranks, and stays there"}));
  EXPECT_TRUE(std::filesystem::exists(folder / "rank.3"));
  std::filesystem::remove_all(folder);
}

TEST(ParseOptions, TakesHostsInEveryForm) {
  EXPECT_EQ(accepted({"-H", "localhost:3", "true"}).ranks, 3);
  EXPECT_EQ(accepted({"-H", "localhost:3", "-np", "2", "true"}).ranks, 2);
  EXPECT_EQ(accepted({"--num-proc", "4", "true"}).hosts, (std::vector<HostSlots>{{"localhost", 4}}));
}

TEST(ParseOptions, ReachesOtherHostsBySsh) {
  const Options options =
      accepted({"-H", "localhost:1,one.invalid:2,me@two.invalid:2", "-np", "3", "-p", "2222", "true"});
  ASSERT_EQ(options.shares.size(), 2u);
  ASSERT_EQ(options.remote_hosts.size(), 1u) << "the last host has no ranks";
  EXPECT_EQ(options.remote_hosts.front().host, "one.invalid");
  const auto& command = options.remote_hosts.front().command;
  EXPECT_TRUE(command.front().ends_with("/ssh"));
  EXPECT_NE(std::find(command.begin(), command.end(), "2222"), command.end());
  EXPECT_TRUE(accepted({"-H", "127.0.0.2:2", "true"}).remote_hosts.empty()) << "that is this machine";
}

TEST(ParseOptions, HandsMpirunNoAddressThatItWouldTakeForAName) {
  EXPECT_EQ(refusal({"--launcher", "mpi", "-H", "me@[fd00::1]:2", "true"}),
            "hrun: me@fd00::1: mpirun takes no IPv6 addresses; give the host a name, in /etc/hosts or "
            "~/.ssh/config");
}

TEST(ParseOptions, StartsMoreRanksThanSlotsWhereThatIsWanted) {
  EXPECT_EQ(
      accepted({"-H", "localhost:2", "-np", "5", "--oversubscribe", "true"}).shares.front().placements.size(),
      5u);
}

TEST(ParseOptions, TellsRanksOfNetworksAndTimes) {
  using Variables = std::vector<std::pair<std::string, std::string>>;
  const Options options = accepted({"-np", "1", "--start-timeout", "7.5", "--network", "10.1.0.0/16",
                                    "--network-interface", "eth0", "true"});
  EXPECT_EQ(options.environment,
            (Variables{{"HORA_START_TIMEOUT", "7.5"}, {"HORA_NETWORK", "10.1.0.0/16,eth0"}}));
  EXPECT_EQ(options.network, "10.1.0.0/16,eth0");
  EXPECT_EQ(options.start_timeout.count(), 7'500);
}

TEST(ParseOptions, TakesTheNumberOfRanksInEveryForm) {
  for (const char* one : {"-np3", "-np=3", "--np=3", "--num-proc=3"})
    EXPECT_EQ(accepted({one, "true"}).ranks, 3);
  for (const char* two : {"-np", "--np", "-n", "--num-proc"})
    EXPECT_EQ(accepted({"-np", "2", two, "3", "true"}).ranks, 3);
}

TEST(ParseOptions, LeavesHorovodsVariablesToHorovodsUsers) {
  EXPECT_EQ(accepted({"-np", "1", "-x", "HOROVOD_RANK=3", "true"}).environment.size(), 1u);
  EXPECT_EQ(refusal({"-np", "1", "--horovod", "-x", "HOROVOD_RANK=3", "true"}),
            "hrun: -x HOROVOD_RANK: hrun itself gives every rank this variable");
}

TEST(ParseOptions, TakesVariablesTimesAndDirectories) {
  const Options options = accepted({"-np", "1", "-x", "A=1", "-x", "B=x=y", "--grace", "0.5", "--timeout",
                                    "60", "--output-filename", "out", "true"});
  EXPECT_EQ(options.environment,
            (std::vector<std::pair<std::string, std::string>>{{"A", "1"}, {"B", "x=y"}}));
  EXPECT_EQ(options.grace.count(), 500);
  EXPECT_EQ(options.timeout->count(), 60'000);
  EXPECT_EQ(options.output_directory, "out");
}

using Variables = std::vector<std::pair<std::string, std::string>>;

TEST(ParseOptions, TellsRanksOfTheTimeline) {
  EXPECT_EQ(accepted({"-np", "1", "--timeline-filename", "t.json", "true"}).environment,
            (Variables{{"HORA_TIMELINE", "t.json"}, {"HORA_TIMELINE_MARK_CYCLES", "0"}}));
  EXPECT_EQ(
      accepted({"-np", "1", "--timeline-filename", "t.json", "--timeline-mark-cycles", "true"}).environment,
      (Variables{{"HORA_TIMELINE", "t.json"}, {"HORA_TIMELINE_MARK_CYCLES", "1"}}));
  EXPECT_EQ(refusal({"-np", "1", "--timeline-filename", "", "true"}),
            "hrun: --timeline-filename needs the name of a file");
  EXPECT_EQ(refusal({"-np", "1", "--timeline-mark-cycles", "true"}),
            "hrun: --timeline-mark-cycles needs --timeline-filename FILE");
}

/// A file of --config-file, for as long as this lives.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { std::ofstream(name_) << text; }
  ~ConfigFile() { ::unlink(name_.c_str()); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_ = testing::TempDir() + "hora-config-" + std::to_string(::getpid()) + ".yaml";
};

TEST(ParseOptions, SayWhereMetricsAreServed) {
  EXPECT_FALSE(accepted({"-np", "1", "true"}).metrics);
  EXPECT_EQ(accepted({"-np", "1", "--metrics", "[::1]:9400", "true"}).metrics,
            (MetricsAddress{"", "::1", 9400}));
  EXPECT_NE(
      refusal({"-np", "1", "--metrics", "node7:9400", "true"}).find("may be reached from other machines"),
      std::string::npos);
  EXPECT_EQ(refusal({"-np", "1", "--launcher", "mpi", "--metrics", "9400", "true"}),
            "hrun: --metrics needs ranks that hrun itself starts: --launcher ssh or slurm");
}

TEST(ParseOptions, TakesFlagsFromAFileThatTheCommandLineOverrules) {
  const ConfigFile file(
      "num-proc: 3\ngrace: 2\nno-prefix: true\nenvironment: {A: 1, B: 2}\nparams: {fusion_threshold_mb: "
      "1}\n");
  const Options plain = accepted({"--config-file", file.name(), "true"});
  EXPECT_EQ(plain.ranks, 3);
  EXPECT_FALSE(plain.prefix);
  EXPECT_EQ(plain.environment, (Variables{{"A", "1"}, {"B", "2"}, {"HORA_FUSION_THRESHOLD", "1048576"}}));
  const Options overruled = accepted({"-np", "2", "-x", "A=5", "--fusion-threshold-mb", "2", "--config-file",
                                      file.name(), "--grace", "1", "true"});
  EXPECT_EQ(overruled.ranks, 2);
  EXPECT_EQ(overruled.grace.count(), 1000);
  EXPECT_EQ(overruled.environment, (Variables{{"B", "2"}, {"A", "5"}, {"HORA_FUSION_THRESHOLD", "2097152"}}));
}

TEST(ParseOptions, NamesTheLineOfAFileThatIsWrong) {
  const ConfigFile file("\nnum-proc: many\n");
  EXPECT_EQ(refusal({"--config-file", file.name(), "true"}),
            "hrun: " + file.name() + ":2: --num-proc: must be a number of ranks from 1 to 65536, not 'many'");
  EXPECT_EQ(refusal({"--config-file", "/nonexistent", "true"}),
            "hrun: /nonexistent: cannot read this file (--config-file)");
}

TEST(ParseOptions, LetsAFileSayWhereOnlyIfTheCommandLineDoesNot) {
  const ConfigFile file("hosts: localhost:3\n");
  EXPECT_EQ(accepted({"--config-file", file.name(), "true"}).ranks, 3);
  EXPECT_EQ(accepted({"--config-file", file.name(), "-H", "localhost:2", "true"}).ranks, 2);
  const ConfigFile hostfile("localhost slots=4\n");
  EXPECT_EQ(accepted({"--hostfile", hostfile.name(), "true"}).ranks, 4);
}

TEST(ParseOptions, TranslatesHorovodsFlags) {
  EXPECT_EQ(
      accepted({"-np", "1", "--no-stall-check", "--log-level=INFO", "true"}).environment,
      (Variables{{"HORA_MISSING_WARNING", "0"}, {"HORA_MISSING_TIMEOUT", "0"}, {"HORA_LOG_LEVEL", "info"}}));
  EXPECT_EQ(accepted({"-np", "1", "-x", "HORA_LOG_LEVEL=error", "--log-level", "INFO", "true"}).environment,
            (Variables{{"HORA_LOG_LEVEL", "error"}}));
  EXPECT_EQ(
      refusal({"-np", "1", "--cycle-time-ms", "3", "true"}),
      "hrun: --cycle-time-ms (there is no cycle to wait for): this flag of Horovod's means nothing here; "
      "leave it out, or add --horovod");
  EXPECT_EQ(refusal({"-np", "1", "--log-level"}), "hrun: --log-level needs a value");
  const ConfigFile file("params: {cycle_time_ms: 3}\n");
  EXPECT_EQ(
      accepted({"-np", "1", "--config-file", file.name(), "true"}).notes,
      std::vector<std::string>{"of what Horovod knows, this means nothing here: --cycle-time-ms (there is "
                               "no cycle to wait for)"});
}

TEST(ParseOptions, MakesAJobOfAPreflight) {
  const Options options = accepted({"--preflight", "-H", "localhost:3"});
  EXPECT_EQ(options.ranks, 1);
  ASSERT_EQ(options.command.size(), 3u);
  EXPECT_EQ(options.command[2], "localhost:3");
  EXPECT_FALSE(options.prefix);
  EXPECT_EQ(refusal({"--preflight", "-np", "2", "true"}),
            "hrun: --preflight starts no program; leave out 'true'");
}

TEST(ParseOptions, BindsRanksOnlyWhereThatIsWanted) {
  EXPECT_EQ(accepted({"-np", "1", "true"}).bind_to, BindTo::none);
  EXPECT_EQ(accepted({"-np", "1", "--bind-to", "numa", "true"}).bind_to, BindTo::numa);
  EXPECT_EQ(refusal({"-np", "1", "--bind-to", "hwthread", "true"}),
            "hrun: --bind-to: must be none, core or numa, not 'hwthread'");
}

TEST(ParseOptions, RefusesWhatMakesNoSense) {
  EXPECT_EQ(refusal({"true"}), "hrun: say how many ranks to start: -np N");
  EXPECT_EQ(refusal({"-np"}), "hrun: -np needs a value");
  EXPECT_EQ(refusal({"-np", "2"}), "hrun: there is no program to start");
  EXPECT_EQ(refusal({}), "hrun: say how many ranks to start: -np N");
  EXPECT_EQ(refusal({"-np", "0", "true"}),
            "hrun: --num-proc: must be a number of ranks from 1 to 65536, not '0'");
  EXPECT_EQ(refusal({"-np", "many", "true"}),
            "hrun: --num-proc: must be a number of ranks from 1 to 65536, not 'many'");
  EXPECT_EQ(refusal({"-np", "1", "--timeout", "soon", "true"}),
            "hrun: --timeout: must be a number of seconds from 0.001 to 10000000, not 'soon'");
  EXPECT_NE(refusal({"-np", "2", "--bogus", "true"}).find("--bogus"), std::string::npos);
  EXPECT_EQ(
      refusal({"-np", "5", "-H", "localhost:4", "true"}),
      "hrun: -np 5 is more than the slots of the hosts, which are 4; --oversubscribe starts as many all "
      "the same");
  EXPECT_EQ(refusal({"-H", "localhost:2,127.0.0.1:2", "true"}),
            "hrun: hosts 'localhost' and '127.0.0.1' are both this machine; name it once with all its slots");
  EXPECT_EQ(refusal({"-np", "1", "--ssh-port", "ssh", "true"}),
            "hrun: --ssh-port: must be a number of a port from 1 to 65535, not 'ssh'");
  EXPECT_EQ(refusal({"-np", "1", "-i", "/nonexistent", "true"}),
            "hrun: --ssh-identity-file /nonexistent: No such file or directory");
  EXPECT_EQ(refusal({"-np", "1", "--network", "", "true"}),
            "hrun: --network needs networks or names of interfaces");
  EXPECT_EQ(refusal({"-np", "1", "--start-timeout", "0", "true"}),
            "hrun: --start-timeout: must be a number of seconds from 0.001 to 10000000, not '0'");
  EXPECT_EQ(refusal({"-np", "1", "/nonexistent/program"}),
            "hrun: cannot start '/nonexistent/program': there is no such file");
  const std::string text = testing::TempDir() + "hora-text-" + std::to_string(::getpid());
  std::ofstream(text) << "no program\n";
  EXPECT_EQ(refusal({"-np", "1", text}),
            "hrun: cannot start '" + text + "': it is not executable (chmod +x makes it so)");
  ::unlink(text.c_str());
  std::ofstream(text) << "#!/no/such/interpreter -u\n";
  ::chmod(text.c_str(), 0700);
  EXPECT_EQ(refusal({"-np", "1", text}), "hrun: cannot start '" + text +
                                             "': its first line is for '/no/such/interpreter', and there is "
                                             "no such program");
  ::unlink(text.c_str());
  EXPECT_EQ(refusal({"-np", "1", "/tmp"}), "hrun: cannot start '/tmp': it is a directory");
  EXPECT_EQ(refusal({"-np", "1", "-x", "HORA_NO_SUCH_VARIABLE", "true"}),
            "hrun: -x HORA_NO_SUCH_VARIABLE: this variable is not set here; give it a value: -x "
            "HORA_NO_SUCH_VARIABLE=VALUE");
  EXPECT_EQ(refusal({"-np", "1", "-x", "HORA_RANK=5", "true"}),
            "hrun: -x HORA_RANK: hrun itself gives every rank this variable");
  EXPECT_EQ(refusal({"-np", "1", "-H", "", "true"}), "hrun: '': there is no host name");
  EXPECT_EQ(refusal({"-np", "1", "--output-filename", "", "true"}),
            "hrun: --output-filename needs the name of a directory");
  EXPECT_EQ(refusal({"-np", "1", "--hostfile", "/nonexistent", "true"}),
            "hrun: /nonexistent: cannot read this hostfile");
}

TEST(ParseOptions, AnswersQuestions) {
  for (const char* question : {"--help", "-h", "--version", "-v", "--check-build", "-cb"}) {
    const Parsed parsed = parse_options({question});
    ASSERT_TRUE(parsed.answer) << question;
    EXPECT_EQ(parsed.answer->exit_code, 0);
    EXPECT_FALSE(parsed.answer->text.empty());
  }
}

/// The answer of `hrun analyze`.
Answer analysis_of(const std::string& directory) {
  const Parsed parsed = parse_options({"analyze", directory});
  EXPECT_TRUE(parsed.answer);
  return parsed.answer.value_or(Answer{});
}

TEST(ParseOptions, AnswersWhatRanksDidDifferently) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("hora-analyze-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "rank0.json")
      << R"({"job":"a","rank":0,"size":2,"pid":1,"host":"b","status":"ok","message":"",)"
      << R"("pending":[],"finished":[]})";
  EXPECT_EQ(analysis_of(folder).exit_code, 0);
  EXPECT_NE(analysis_of(folder).text.find("rank 1 left no dump"), std::string::npos);
  std::ofstream(folder / "rank0.json") << "{";
  EXPECT_EQ(analysis_of(folder).exit_code, 1);
  EXPECT_EQ(
      analysis_of(folder).text,
      fmt::format("hrun: {}/rank0.json: it is no JSON from byte 2 on: was it cut short?\n", folder.string()));
  std::filesystem::remove_all(folder);
}

TEST(ParseOptions, AsksForTheDirectoryOfTheDumps) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"analyze"}, {"analyze", "--all"}, {"analyze", "a", "b"}}) {
    EXPECT_EQ(refusal(words),
              "hrun: hrun analyze DIR needs the directory of the dumps; a program called analyze starts as "
              "./analyze");
  }
}

TEST(Options, SayWhichRankReads) {
  EXPECT_EQ(accepted({"-np", "3", "true"}).reader, 0);
  EXPECT_EQ(accepted({"-np", "3", "--stdin", "2", "true"}).reader, 2);
  EXPECT_EQ(accepted({"-np", "3", "--stdin", "all", "true"}).reader, kEveryRank);
  EXPECT_EQ(accepted({"-np", "1", "--stdin", "all", "true"}).reader, 0);
  EXPECT_EQ(accepted({"-np", "3", "--stdin", "none", "true"}).reader, std::nullopt);
  EXPECT_EQ(refusal({"-np", "3", "--stdin", "3", "true"}),
            "hrun: --stdin 3: there is no such rank; this job has ranks 0 to 2");
  for (const char* word : {"-1", "1.5", "some", ""})
    EXPECT_EQ(refusal({"-np", "3", "--stdin", word, "true"}),
              std::string("hrun: --stdin ") + word + ": expected a rank, all or none");
}

}  // namespace
}  // namespace hora::hrun
