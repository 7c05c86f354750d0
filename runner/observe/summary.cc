// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/summary.h"

#include "core/base/folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hora::hrun {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson in_utc(const std::optional<WallTime>& time) {
  if (!time) return nullptr;
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count() % 1000;
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(*time)), millis);
}

OrderedJson json_of(const ProcessSummary& process) {
  OrderedJson json{{"pid", process.pid}};
  const bool exited = process.ending && process.ending->signal == 0;
  const bool killed = process.ending && process.ending->signal != 0;
  json["exit_code"] = exited ? OrderedJson(process.ending->exit_code) : OrderedJson(nullptr);
  json["signal"] = killed ? OrderedJson(process.ending->signal) : OrderedJson(nullptr);
  json["how"] = process.ending ? process.ending->how : "was lost with its host";
  json["started"] = in_utc(process.started);
  json["ended"] = in_utc(process.ended);
  json["seconds"] = nullptr;
  if (process.started && process.ended)
    json["seconds"] = std::chrono::duration<double>(*process.ended - *process.started).count();
  json["ended_by_hrun"] = process.ended_by_hrun;
  return json;
}

OrderedJson json_of(const RankSummary& rank) {
  OrderedJson json{{"rank", rank.rank}, {"host", rank.host}};
  json.update(json_of(static_cast<const ProcessSummary&>(rank)));
  json["lines"] = {{"stdout", rank.output_lines}, {"stderr", rank.error_lines}};
  json["first_cause"] = rank.first_cause;
  json["lost"] = rank.lost;
  json["last_words"] = rank.last_words;
  json["reason"] = rank.reason.empty() ? OrderedJson(nullptr) : OrderedJson(rank.reason);
  json["where"] = rank.where.empty() ? OrderedJson(nullptr) : OrderedJson(rank.where);
  json["earlier"] = OrderedJson::array();
  for (const auto& process : rank.earlier) json["earlier"].push_back(json_of(process));
  return json;
}

}  // namespace

void RankSummary::begin(int process) {
  if (pid != 0) earlier.push_back(*this);
  static_cast<ProcessSummary&>(*this) = {};
  pid = process;
  started = std::chrono::system_clock::now();
}

void RankSummary::end(const Ending& how, std::chrono::system_clock::duration ago, bool told) {
  ending = how;
  ended = std::chrono::system_clock::now() - ago;
  ended_by_hrun = told;
}

std::string to_json(const JobSummary& summary) {
  OrderedJson json{{"command", summary.command},
                   {"np", summary.ranks.size()},
                   {"hosts", summary.hosts},
                   {"exit_code", summary.exit_code}};
  json["first_cause"] = summary.first_cause.empty() ? OrderedJson(nullptr) : OrderedJson(summary.first_cause);
  json["generation"] = summary.generation == 0 ? OrderedJson(nullptr) : OrderedJson(summary.generation);
  json["changes"] = OrderedJson::array();
  for (const auto& change : summary.changes) {
    json["changes"].push_back(
        {{"generation", change.generation},
         {"ranks", change.members},
         {"what", change.what},
         {"seconds", change.seconds},
         {"seconds_to_stop", change.seconds_to_stop},
         {"seconds_to_connect", change.seconds_to_connect},
         {"seconds_to_next_step",
          change.seconds_to_next_step ? OrderedJson(*change.seconds_to_next_step) : OrderedJson(nullptr)}});
  }
  json["ranks"] = OrderedJson::array();
  for (const auto& rank : summary.ranks) json["ranks"].push_back(json_of(rank));
  // Words of programs need not be UTF-8.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

void write_summary(const JobSummary& summary, const std::string& directory) {
  Folder::named(directory).write("summary.json", to_json(summary), 0666);
}

}  // namespace hora::hrun
