// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/rank_state.h"

#include "core/base/log.h"
#include "core/launcher/end_report.h"
#include "core/launcher/launcher_line.h"
#include "core/launcher/question.h"
#include "core/watch/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace hora {
namespace {

constexpr std::chrono::milliseconds kToTellAStack{300};

}  // namespace

Account RankState::account() const {
  Account account{0, {}, {}, main_thread_stack(kToTellAStack)};
  if (const auto last = recorder_.last()) {
    account.finished = last->sequence;
    account.last = last->name;
    account.since_last = in_milliseconds(Clock::now() - last->finished);
  }
  return account;
}

Health RankState::health() const {
  const TimePoint now = Clock::now();
  Health health;
  health.bytes = recorder_.bytes();
  if (const auto last = recorder_.last()) {
    health.finished = last->sequence;
    health.last = last->name;
    health.since_last = in_milliseconds(now - last->finished);
  }
  const auto under_way = table_.under_way();
  health.in_flight = under_way.size();
  for (const auto& record : under_way) {
    if (health.oldest.size() == kMostTold) break;
    Request request;
    request.operation = record.operation;
    request.dtype = record.dtype;
    request.shape = record.shape;
    health.oldest.push_back({record.name, describe(request), in_milliseconds(now - record.submitted)});
  }
  const auto waits = messages_.under_way(now);
  health.in_flight += waits.size();
  for (const auto& wait : waits)
    health.oldest.push_back({title(wait), kind(wait) + " " + wait.what, wait.since});
  std::stable_sort(health.oldest.begin(), health.oldest.end(),
                   [](const InFlight& one, const InFlight& other) { return one.since > other.since; });
  if (health.oldest.size() > kMostTold) health.oldest.resize(kMostTold);
  return health;
}

std::string RankState::write(const Status& why, std::vector<Record> pending) const {
  const int rank = world_.control->rank();
  const TimePoint now = Clock::now();
  const Dump dump{world_.job,
                  world_.members[static_cast<std::size_t>(rank)],
                  world_.control->size(),
                  why,
                  recorder_.records(),
                  std::move(pending),
                  messages_.under_way(now),
                  now};
  const std::lock_guard lock(writing_);
  const Folder folder = config_.dump_directory.empty()
                            ? folder_of_job(std::filesystem::temp_directory_path().string(), world_.job)
                            : Folder::named(config_.dump_directory);
  return hora::write_dump(dump, folder);
}

std::string RankState::write_dump(const std::string& why) const {
  return write({Code::ok, why}, table_.under_way());
}

void RankState::dump(const std::string& why) const {
  try {
    log(LogLevel::warning,
        fmt::format("{}; the last operations of this rank are in {}", why, write_dump(why)));
  } catch (const std::exception& error) {  // the program goes on
    log(LogLevel::warning, fmt::format("{}; {}", why, error.what()));
  }
}

void RankState::tell_of_failure(const Status& why, std::vector<Record> pending) const {
  GaveUp report{why.message, {}};
  std::string trouble;
  try {
    report.dump = std::filesystem::absolute(write(why, std::move(pending))).string();
  } catch (const std::exception& error) {  // the job fails for `why`, whatever becomes of the dump
    trouble = error.what();
  }
  const bool told = trouble.empty() && tell_launcher(ReplyKind::gave_up, encode(report));
  const std::string end =
      trouble.empty() ? fmt::format("the last operations of this rank are in {}", report.dump) : trouble;
  log(told ? LogLevel::info : LogLevel::error, fmt::format("{}; {}", why.message, end));
}

}  // namespace hora
