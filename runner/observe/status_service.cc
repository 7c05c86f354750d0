// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/status_service.h"

#include "core/base/machine.h"
#include "runner/launch/agent_message.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

namespace hora::hrun {
namespace {

constexpr std::chrono::seconds kToAnswerIn{2};
constexpr std::chrono::milliseconds kPauseBetween{100};  // whoever asks all the time shall not cost the job
constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kJson = "application/json";
constexpr const char* kPrometheus = "text/plain; version=0.0.4; charset=utf-8";

double rounded_seconds(auto time) {
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(time);
  return std::max(0.0, std::chrono::duration<double>(whole).count());
}

GenerationReport report_of(const Generations& generations, TimePoint now) {
  const elastic::GenerationRecord& record = generations.record();
  GenerationReport report;
  report.number = generations.generation();
  report.members = static_cast<int>(record.members.size());
  report.hot_spares = record.hot_spares;
  report.paused = record.paused;
  report.lost = generations.lost().count();
  report.replaced = generations.lost().replaced();
  if (const auto& change = generations.last_change()) report.last_change = change->times(now);
  return report;
}

/// Nothing: the request is no command.
std::optional<JobCommand> command_of(const HttpRequest& request) {
  constexpr std::string_view kResize = "/resize/";
  constexpr std::string_view kDrain = "/drain/";
  if (request.method != "POST") return std::nullopt;
  const std::string_view path = request.path;
  JobCommand command;
  if (path.starts_with(kDrain)) {
    command.kind = JobCommand::Kind::drain;
    command.host = path.substr(kDrain.size());
    return command;
  }
  if (!path.starts_with(kResize)) return std::nullopt;
  const std::string_view number = path.substr(kResize.size());
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), command.ranks);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return command;
}

}  // namespace

StatusService::StatusService(std::string job, const JobSummary& summary,
                             std::function<void(const Question&)> ask, TimePoint now)
    : job_(std::move(job)),
      summary_(summary),
      ask_(std::move(ask)),
      began_(now),
      presence_(summary.ranks.size()) {}

void StatusService::open(JobSocket socket) { own_.emplace(std::move(socket)); }
void StatusService::open(const MetricsAddress& address) { metrics_.emplace(address); }

void StatusService::watch(std::vector<pollfd>& events) const {
  if (own_) own_->server.watch(events);
  if (metrics_) metrics_->server.watch(events);
}

TimePoint StatusService::next() const {
  TimePoint next = TimePoint::max();
  if (own_) next = std::min(next, own_->server.next());
  if (metrics_) next = std::min(next, metrics_->server.next());
  for (const auto* open : {&health_, &dump_}) {
    if (*open) next = std::min(next, (*open)->until);
  }
  return next;
}

void StatusService::turn(TimePoint now) {
  if (own_) serve(own_->server, true, now);
  if (metrics_) serve(metrics_->server, false, now);
  move_on(health_, QuestionKind::health, now);
  move_on(dump_, QuestionKind::dump, now);
}

void StatusService::serve(HttpServer& server, bool own, TimePoint now) {
  for (const auto& visit : server.turn(now)) {
    if (own) {
      serve_own(server, visit, now);
    } else if (!metrics_->for_own_user && !means_loopback(visit.request)) {
      server.answer(visit.visitor, {403, kText, "Ask for it at localhost, 127.0.0.1 or [::1].\n"}, now);
    } else if (visit.request.path != "/metrics") {
      server.answer(visit.visitor, {404, kText, "There is nothing but /metrics.\n"}, now);
    } else if (visit.request.method != "GET") {
      server.answer(visit.visitor, {405, kText, "Only GET.\n"}, now);
    } else {
      want(health_, {&server, visit.visitor, to_prometheus, kPrometheus}, now);
    }
  }
}

void StatusService::serve_own(HttpServer& server, const HttpServer::Visit& visit, TimePoint now) {
  const HttpRequest& request = visit.request;
  const auto is = [&](const char* method, const char* path) {
    return request.method == method && request.path == path;
  };
  if (is("GET", "/job")) return server.answer(visit.visitor, brief(now), now);
  if (is("GET", "/status")) return want(health_, {&server, visit.visitor, describe, kText}, now);
  if (is("GET", "/status.json")) return want(health_, {&server, visit.visitor, to_json, kJson}, now);
  if (is("POST", "/dump")) return want(dump_, {&server, visit.visitor, nullptr, kText}, now);
  if (const auto command = command_of(request)) return server.answer(visit.visitor, carry_out(*command), now);
  server.answer(visit.visitor,
                {404, kText, "There is /job, /status, /status.json, /dump, /resize/N and /drain/HOST.\n"},
                now);
}

HttpResponse StatusService::carry_out(const JobCommand& command) const {
  if (!obey_)
    return {409, kText, "hrun: the job is not elastic (--min-np), or has not started its ranks yet\n"};
  try {
    return {200, kText, obey_(command) + "\n"};
  } catch (const Error& error) {
    return {409, kText, fmt::format("hrun: {}\n", error.what())};
  }
}

void StatusService::want(std::optional<Open>& open, const Waiting& who, TimePoint now) {
  if (!open) {
    open = Open{};
    open->until = &open == &health_ ? std::max(now, health_told_ + kPauseBetween) : now;
  }
  open->waiting.push_back(who);
}

void StatusService::move_on(std::optional<Open>& open, QuestionKind kind, TimePoint now) {
  if (!open) return;
  if (open->number == 0 && now >= open->until) ask(*open, kind, now);
  if (open->number == 0) return;
  std::erase_if(open->silent, [this](int rank) { return !can_answer(rank); });
  if (generations_ == nullptr && !can_answer(0)) open->job = false;  // else another one may be rank 0 now
  if ((!open->silent.empty() || open->job) && now < open->until) return;
  if (kind == QuestionKind::health) {
    tell_health(*open, now);
  } else {
    tell_dumps(*open, now);
  }
  open.reset();
}

void StatusService::ask(Open& open, QuestionKind kind, TimePoint now) {
  open.number = ++numbers_;
  open.until = now + kToAnswerIn;
  for (int rank = 0; rank < static_cast<int>(presence_.size()); ++rank) open.silent.insert(rank);
  open.job = kind == QuestionKind::health;
  ask_({open.number, kind});
}

bool StatusService::can_answer(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return presence_[index] == Presence::here && !summary_.ranks[index].ending;
}

void StatusService::take(int rank, Reply answer) {
  auto& presence = presence_[static_cast<std::size_t>(rank)];
  if (answer.kind == ReplyKind::arrived) presence = Presence::here;
  if (answer.kind == ReplyKind::left) presence = Presence::left;
  for (auto* open : {&health_, &dump_}) {
    if (answer.number == 0 || !*open || (*open)->number != answer.number) continue;
    try {
      switch (answer.kind) {
        case ReplyKind::health: (*open)->healths[rank] = decode_health(answer.content); break;
        case ReplyKind::job:
          if (rank != (generations_ == nullptr ? 0 : generations_->first_rank())) return;
          (*open)->job_health = decode_job_health(answer.content);
          (*open)->job = false;
          return;
        case ReplyKind::dumped:
        case ReplyKind::failed:
          (*open)->dumps[rank] = {answer.kind == ReplyKind::dumped, std::string(text_of(answer.content))};
          break;
        default: return;
      }
      (*open)->silent.erase(rank);
    } catch (const Error&) {
      return;  // as if it had said nothing
    }
  }
}

void StatusService::tell_health(Open& open, TimePoint now) {
  const JobReport report = this->report(open, now);
  for (const auto& who : open.waiting)
    who.server->answer(who.visitor, {200, who.type, who.face(report)}, now);
  health_told_ = now;
}

void StatusService::tell_dumps(Open& open, TimePoint now) {
  std::string text;
  std::string missed;
  std::set<std::string> folders;
  for (const auto& rank : report(open, now).ranks) {
    const auto dump = open.dumps.find(rank.rank);
    if (dump == open.dumps.end()) {
      missed += why_silent(rank) + "\n";
    } else if (!dump->second.first) {
      missed += fmt::format("rank {} on {}: {}\n", rank.rank, rank.host, dump->second.second);
    } else {
      text += fmt::format("rank {} on {}: {}\n", rank.rank, rank.host, dump->second.second);
      folders.insert(std::filesystem::path(dump->second.second).parent_path().string());
    }
  }
  if (folders.size() == 1)
    text += fmt::format("hrun analyze {} compares them{}\n", *folders.begin(),
                        summary_.hosts.size() == 1 ? "" : ", where they are of all hosts");
  const int status = missed.empty() ? 200 : 503;
  for (const auto& who : open.waiting)
    who.server->answer(who.visitor, {status, who.type, text + missed}, now);
}

JobReport StatusService::report(const Open& open, TimePoint now) const {
  JobReport report{
      job_, ::getpid(), host_name(), summary_.command, rounded_seconds(now - began_), open.job_health, {}};
  if (generations_ != nullptr) report.generation = report_of(*generations_, now);
  const WallTime clock = std::chrono::system_clock::now();
  for (const auto& rank : summary_.ranks) {
    RankReport& one = report.ranks.emplace_back();
    one.rank = rank.rank;
    one.host = rank.host;
    one.pid = rank.pid;
    if (rank.ending) one.ending = rank.ending->how;
    if (rank.started) one.seconds = rounded_seconds(rank.ended.value_or(clock) - *rank.started);
    const auto index = static_cast<std::size_t>(rank.rank);
    if (index < presence_.size()) one.presence = presence_[index];  // else it has not been started yet
    if (const auto found = open.healths.find(rank.rank); found != open.healths.end())
      one.health = found->second;
  }
  return report;
}

/// The entry of this job in a list of jobs.
HttpResponse StatusService::brief(TimePoint now) const {
  const nlohmann::ordered_json json{{"job", job_},
                                    {"pid", ::getpid()},
                                    {"np", summary_.ranks.size()},
                                    {"seconds", rounded_seconds(now - began_)},
                                    {"command", summary_.command}};
  return {200, kJson, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"};
}

}  // namespace hora::hrun
