// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/status_command.h"

#include "runner/observe/http_server.h"
#include "runner/observe/job_socket.h"
#include "test/runner/own_process.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <regex>

namespace hora::hrun {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Answers as hruns do, in a process of its own, until it is ended.
class Answers {
 public:
  Answers(const std::string& folder, const std::string& id) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      JobSocket socket(Folder::private_at(folder), id);
      HttpServer server(socket.take(), HttpServer::For::own_user);
      ::close(ready[1]);
      for (;;) {
        std::vector<pollfd> events;
        server.watch(events);
        ::poll(events.data(), events.size(), 100);
        for (const auto& visit : server.turn(Clock::now())) {
          const bool list = visit.request.path == "/job";
          const int status = visit.request.path == "/dump" ? 503 : 200;
          server.answer(
              visit.visitor,
              {status, "text/plain",
               list ? R"({"np":2,"seconds":7.0,"command":["./train"]})" : visit.request.path + " of " + id},
              Clock::now());
        }
      }
    }
    ::close(ready[1]);
    char nothing = 0;
    EXPECT_EQ(::read(ready[0], &nothing, 1), 0);
    ::close(ready[0]);
  }
  ~Answers() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  [[nodiscard]] int pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

class StatusCommand : public testing::Test {
 protected:
  StatusCommand() {
    std::filesystem::create_directories(session_);
    ::setenv("XDG_RUNTIME_DIR", session_.c_str(), 1);
  }
  ~StatusCommand() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(session_);
  }

  const std::string session_ =
      (std::filesystem::path(testing::TempDir()) / ("hora-session-" + std::to_string(::getpid()))).string();
  const std::string folder_ = session_ + "/hora";
};

Answer of(const std::vector<std::string>& words) { return answer_about_job(words).value(); }

TEST_F(StatusCommand, IsNoneOfOtherWords) {
  EXPECT_FALSE(answer_about_job({}));
  EXPECT_FALSE(answer_about_job({"./status"}));
  EXPECT_FALSE(answer_about_job({"-np", "2", "status"}));
}

TEST_F(StatusCommand, SaysWhatItDoesNotUnderstand) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"status", "--xml"},
                                                {"status", "a", "b"},
                                                {"dump", "--json"},
                                                {"resize"},
                                                {"resize", "many"},
                                                {"resize", "-1"},
                                                {"drain", "b", "0123abcd", "c"},
                                                {"drain", "--json"},
                                                {"status", ""}})
    EXPECT_THROW(of(words), Error) << words.back();
}

TEST_F(StatusCommand, AsksTheJobThatIsMeant) {
  const Answers one(folder_, "0123abcd");
  const Answers other(folder_, "01ff0000");
  for (const std::string& word : {std::string("0123abcd"), std::string("0123abc"), std::to_string(one.pid())})
    EXPECT_EQ(of({"status", word}).text, "/status of 0123abcd") << word;
  EXPECT_EQ(of({"status", "--json", "01ff000"}).text, "/status.json of 01ff0000");
  EXPECT_EQ(of({"status", "01ff000"}).exit_code, 0);
  EXPECT_EQ(of({"dump", "01ff000"}).text, "/dump of 01ff0000");
  EXPECT_EQ(of({"resize", "12", "01ff000"}).text, "/resize/12 of 01ff0000");
  EXPECT_EQ(of({"drain", "user@b", "01ff000"}).text, "/drain/user@b of 01ff0000");
  EXPECT_EQ(of({"dump", "01ff000"}).exit_code, 1) << "as not all ranks have answered";
}

TEST_F(StatusCommand, ListsJobsWhereItIsNotClearWhichIsMeant) {
  const Answers one(folder_, "0123abcd");
  const Answers other(folder_, "01ff0000");
  const Answer all = of({"status"});
  EXPECT_EQ(all.exit_code, 0);
  // Another job of this host may make the columns wider.
  EXPECT_TRUE(std::regex_search(all.text, std::regex("0123abcd .* 2 +7 s +\\./train\n"))) << all.text;
  EXPECT_TRUE(std::regex_search(all.text, std::regex("01ff0000 .* 2 +7 s +\\./train\n"))) << all.text;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"status", "01"}, {"dump"}, {"status", "--json"}, {"status", "x"}}) {
    EXPECT_EQ(of(words).exit_code, 1);
    EXPECT_THAT(of(words).text, AllOf(HasSubstr("0123abcd"), HasSubstr("01ff0000"))) << words.back();
  }
}

TEST_F(StatusCommand, SaysThatAnHrunDoesNotAnswer) {
  const Answers stopped(folder_, "0123abcd");
  ::kill(stopped.pid(), SIGSTOP);
  const Answer answer = of({"status", "0123abc"});
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_THAT(answer.text, HasSubstr("its hrun does not answer; it may be stopped"));
}

TEST_F(StatusCommand, RefusesAFolderThatIsOpenToOthers) {
  std::filesystem::create_directory(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms(0777));
  const Answer answer = of({"status", "0123abc"});
  EXPECT_EQ(answer.exit_code, 1);
}

}  // namespace
}  // namespace hora::hrun
