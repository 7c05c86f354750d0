// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/status_command.h"

#include "runner/command_line/table.h"
#include "runner/observe/http.h"
#include "runner/observe/job_socket.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace hora::hrun {
namespace {

constexpr std::chrono::seconds kHrunAnswersIn{5};  // its ranks have two

/// A command, and what hrun is asked for it.
struct Verb {
  const char* name;
  const char* usage;
  const char* method;
  const char* path;
  const char* argument = nullptr;  ///< null: it has none
};
constexpr std::array kVerbs{Verb{"status", "status [JOB] [--json]", "GET", "/status"},
                            Verb{"dump", "dump [JOB]", "POST", "/dump"},
                            Verb{"resize", "resize N [JOB]", "POST", "/resize/", "the number of ranks"},
                            Verb{"drain", "drain HOST [JOB]", "POST", "/drain/", "the host"}};

/// The command that the words ask for.
struct Command {
  HttpRequest request;
  bool lists_jobs = false;  ///< where several are meant
  std::string job;          ///< empty: the one that runs
};

std::optional<Command> command_in(const std::vector<std::string>& words) {
  const auto verb = std::find_if(kVerbs.begin(), kVerbs.end(), [&](const Verb& one) {
    return !words.empty() && words.front() == one.name;
  });
  if (verb == kVerbs.end()) return std::nullopt;
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::invalid_argument, fmt::format("{}: hrun {}; a program called {} starts as ./{}", what,
                                                    verb->usage, verb->name, verb->name));
  };
  Command command{.request = {verb->method, verb->path}, .lists_jobs = verb == kVerbs.begin(), .job = {}};
  bool argument_is_due = verb->argument != nullptr;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--json" && verb == kVerbs.begin()) {
      command.request.path = "/status.json";
      command.lists_jobs = false;
    } else if (word.starts_with('-') || word.empty() || (!argument_is_due && !command.job.empty())) {
      refuse(fmt::format("'{}' means nothing here", word));
    } else if (argument_is_due) {
      const bool is_number = word.find_first_not_of("0123456789") == std::string::npos && word.size() < 9;
      if (std::string_view(verb->name) == "resize" && !is_number)
        refuse(fmt::format("'{}' is no number of ranks", word));
      command.request.path += word;
      argument_is_due = false;
    } else {
      command.job = word;
    }
  }
  if (argument_is_due) refuse(fmt::format("say {}", verb->argument));
  return command;
}

std::vector<RunningJob> jobs_of_this_user() {
  std::vector<RunningJob> all;
  std::optional<Error> trouble;
  for (const auto& folder : job_folders()) {
    try {
      const auto jobs = running_jobs(folder);
      all.insert(all.end(), jobs.begin(), jobs.end());
    } catch (const Error& error) {
      trouble = error;
    }
  }
  if (all.empty() && trouble) throw Error(trouble->status());
  return all;
}

std::string read_all(int socket, TimePoint deadline) {
  std::string text;
  std::array<char, 16 * 1024> buffer{};
  while (await_events(socket, POLLIN, deadline)) {
    const auto got = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0 && text.empty()) throw Error(Code::unavailable, "its hrun is just ending");
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  throw Error(Code::timeout, "its hrun does not answer; it may be stopped");
}

HttpResponse ask_hrun(const RunningJob& job, const HttpRequest& request) {
  const TimePoint deadline = Clock::now() + kHrunAnswersIn;
  try {
    const Descriptor socket = connect_to_job(job.path);
    if (!socket) throw Error(Code::unavailable, std::strerror(errno));
    const std::string text = encode(request);
    write_all(socket.fd(), std::as_bytes(std::span(text)), deadline);
    return parse_response(read_all(socket.fd(), deadline));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("job {} (hrun is process {}): {}", job.id, job.pid, error.what()));
  }
}

/// A row of the list of jobs; the job may just be ending.
std::vector<std::string> row_of(const RunningJob& job) {
  try {
    const auto json = nlohmann::json::parse(ask_hrun(job, {"GET", "/job"}).body);
    return {job.id, fmt::to_string(job.pid), fmt::to_string(json.at("np").get<std::size_t>()),
            fmt::format("{:.0f} s", json.at("seconds").get<double>()),
            cut(fmt::format("{}", fmt::join(json.at("command").get<std::vector<std::string>>(), " ")))};
  } catch (const std::exception&) {
    return {job.id, fmt::to_string(job.pid), "-", "-", "no answer"};
  }
}

std::string list(const std::vector<RunningJob>& jobs) {
  std::vector<std::vector<std::string>> rows{{"job", "hrun", "ranks", "for", "command"}};
  for (const auto& job : jobs) rows.push_back(row_of(job));
  return table(rows);
}

bool is_meant(const RunningJob& job, const std::string& word) {
  return word.empty() || job.id.starts_with(word) || fmt::to_string(job.pid) == word;
}

Answer answer(const Command& command) {
  std::vector<RunningJob> jobs = jobs_of_this_user();
  if (jobs.empty())
    return {"hrun: none of your jobs runs on this host, as far as hrun has started them\n", 1};
  std::vector<RunningJob> meant;
  for (const auto& job : jobs) {
    if (is_meant(job, command.job)) meant.push_back(job);
  }
  if (meant.empty())
    return {
        fmt::format("hrun: no job {} of yours runs on this host; there are:\n{}", command.job, list(jobs)),
        1};
  if (meant.size() > 1 && command.lists_jobs && command.job.empty()) return {list(meant), 0};
  if (meant.size() > 1)
    return {fmt::format("hrun: several jobs run on this host; say which one is meant:\n{}", list(meant)), 1};
  const HttpResponse response = ask_hrun(meant.front(), command.request);
  return {response.body, response.status == 200 ? 0 : 1};
}

}  // namespace

std::optional<Answer> answer_about_job(const std::vector<std::string>& words) {
  const auto command = command_in(words);
  if (!command) return std::nullopt;
  try {
    return answer(*command);
  } catch (const Error& error) {
    return Answer{fmt::format("hrun: {}\n", error.what()), 1};
  }
}

}  // namespace hora::hrun
