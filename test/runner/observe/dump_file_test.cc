// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/dump_file.h"

#include "core/watch/recorder.h"
#include "test/support/files.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hora::hrun {
namespace {

using testing::HasSubstr;

std::filesystem::path corpus() {
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "fuzz/corpus/dump";
}

std::string trouble_with(const std::string& name) {
  try {
    static_cast<void>(parse_dump(text_of_file(corpus() / ("broken_" + name + ".json"))));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "nothing";
}

/// A dump as a rank writes it.
Dump written(int rank) {
  const TimePoint now = TimePoint() + std::chrono::seconds(100);
  Dump dump;
  dump.job = "0123abcd";
  dump.member = {rank, 4711, "node7", {}};
  dump.size = 3;
  dump.why = {Code::aborted, "rank 2 is \"gone\"\n"};
  dump.now = now;
  Record record;
  record.name = "grad.\"6\"";
  record.shape = {3, 4};
  record.process_set = 2;
  record.sequence = 1042;
  record.submitted = now - std::chrono::milliseconds(12'300);
  dump.records = {record};
  dump.pending = {record};
  return dump;
}

TEST(ParseDump, ReadsWhatARankWrites) {
  const RankDump dump = parse_dump(to_json(written(1)));
  EXPECT_EQ(dump.job, "0123abcd");
  EXPECT_EQ(dump.rank, 1);
  EXPECT_EQ(dump.size, 3);
  EXPECT_EQ(dump.pid, 4711);
  EXPECT_EQ(dump.host, "node7");
  EXPECT_EQ(dump.status, "aborted");
  EXPECT_EQ(dump.message, "rank 2 is \"gone\"\n");
  ASSERT_EQ(dump.finished.size(), 1u);
  EXPECT_EQ(dump.finished[0].name, "grad.\"6\"");
  EXPECT_EQ(dump.finished[0].operation, "allreduce");
  EXPECT_EQ(dump.finished[0].dtype, "float32");
  EXPECT_EQ(dump.finished[0].shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(dump.finished[0].process_set, 2);
  EXPECT_EQ(dump.finished[0].sequence, 1042u);
  EXPECT_EQ(dump.finished[0].status, "ok");
  ASSERT_EQ(dump.pending.size(), 1u);
  EXPECT_EQ(dump.pending[0].submitted, 12.3);
  EXPECT_EQ(dump.pending[0].sequence, 0u);
}

TEST(ParseDump, ReadsOrRefusesEveryFileOfTheCorpus) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus())) {
    const bool good = entry.path().filename().string().starts_with("good_");
    const std::string text = text_of_file(entry.path());
    if (good) {
      EXPECT_NO_THROW(static_cast<void>(parse_dump(text))) << entry.path();
    } else {
      EXPECT_THROW(static_cast<void>(parse_dump(text)), Error) << entry.path();
    }
    ++files;
  }
  EXPECT_GT(files, 20);
}

TEST(ParseDump, SaysWhatIsWrong) {
  EXPECT_EQ(trouble_with("empty"), "it is empty");
  EXPECT_EQ(trouble_with("blank"), "it is empty");
  EXPECT_EQ(trouble_with("cut"), "it is no JSON from byte 151 on: was it cut short?");
  EXPECT_EQ(trouble_with("list"), "there is no object that could have 'job'");
  EXPECT_EQ(trouble_with("missing_pending"), "'pending' is missing");
  EXPECT_EQ(trouble_with("rank_beyond_size"), "'rank' is no whole number from 0 to 3");
  EXPECT_EQ(trouble_with("rank_huge"), "'rank' is no whole number from 0 to 3");
  EXPECT_EQ(trouble_with("host_number"), "'host' is no text");
  EXPECT_EQ(trouble_with("finished_object"), "'finished' is no list");
  EXPECT_THAT(trouble_with("shape_negative"), HasSubstr("'shape' is no whole number from 0"));
  EXPECT_EQ(trouble_with("submitted_huge"), "it has a number that is too large");
  EXPECT_EQ(trouble_with("no_status"), "'status' is missing");
}

class ReadDumps : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  [[nodiscard]] std::string trouble() const {
    try {
      static_cast<void>(read_dumps(folder_));
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("hora-dumps-" + std::to_string(::getpid()));
};

TEST_F(ReadDumps, AreThoseOfAllRanksInOrder) {
  for (const int rank : {2, 0, 1}) write_dump(written(rank), Folder::named(folder_));
  write("rank1.json.part", "{");
  write("rank01.json", "{");
  write("notes.txt", "hello");
  const auto dumps = read_dumps(folder_);
  ASSERT_EQ(dumps.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(dumps[static_cast<std::size_t>(rank)].rank, rank);
}

TEST_F(ReadDumps, NameTheFileThatIsWrong) {
  EXPECT_THAT(trouble(), HasSubstr("there is no dump (rank<k>.json) in it"));
  write_dump(written(1), Folder::named(folder_));
  write("rank2.json", to_json(written(1)));
  EXPECT_EQ(trouble(), (folder_ / "rank2.json").string() + ": it is the dump of rank 1");
  write("rank2.json", "");
  EXPECT_EQ(trouble(), (folder_ / "rank2.json").string() + ": it is empty");
  Dump other = written(2);
  other.job = "4567";
  write("rank2.json", to_json(other));
  EXPECT_THAT(trouble(), HasSubstr("it is of another job than the dump of rank"));
}

TEST(ReadDumpsOf, ADirectoryThatIsNotThereSaysSo) {
  try {
    static_cast<void>(read_dumps("/nonexistent"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/nonexistent: No such file or directory");
  }
}

}  // namespace
}  // namespace hora::hrun
