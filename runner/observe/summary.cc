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

OrderedJson json_of(const RankSummary& rank) {
  OrderedJson json{{"rank", rank.rank}, {"host", rank.host}, {"pid", rank.pid}};
  const bool exited = rank.ending && rank.ending->signal == 0;
  const bool killed = rank.ending && rank.ending->signal != 0;
  json["exit_code"] = exited ? OrderedJson(rank.ending->exit_code) : OrderedJson(nullptr);
  json["signal"] = killed ? OrderedJson(rank.ending->signal) : OrderedJson(nullptr);
  json["how"] = rank.ending ? rank.ending->how : "was lost with its host";
  json["started"] = in_utc(rank.started);
  json["ended"] = in_utc(rank.ended);
  json["seconds"] = nullptr;
  if (rank.started && rank.ended)
    json["seconds"] = std::chrono::duration<double>(*rank.ended - *rank.started).count();
  json["lines"] = {{"stdout", rank.output_lines}, {"stderr", rank.error_lines}};
  json["first_cause"] = rank.first_cause;
  json["ended_by_hrun"] = rank.ended_by_hrun;
  json["lost"] = rank.lost;
  json["last_words"] = rank.last_words;
  json["reason"] = rank.reason.empty() ? OrderedJson(nullptr) : OrderedJson(rank.reason);
  json["where"] = rank.where.empty() ? OrderedJson(nullptr) : OrderedJson(rank.where);
  return json;
}

}  // namespace

std::string to_json(const JobSummary& summary) {
  OrderedJson json{{"command", summary.command},
                   {"np", summary.ranks.size()},
                   {"hosts", summary.hosts},
                   {"exit_code", summary.exit_code}};
  json["first_cause"] = summary.first_cause.empty() ? OrderedJson(nullptr) : OrderedJson(summary.first_cause);
  json["generation"] = summary.generation == 0 ? OrderedJson(nullptr) : OrderedJson(summary.generation);
  json["ranks"] = OrderedJson::array();
  for (const auto& rank : summary.ranks) json["ranks"].push_back(json_of(rank));
  // Words of programs need not be UTF-8.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

void write_summary(const JobSummary& summary, const std::string& directory) {
  Folder::named(directory).write("summary.json", to_json(summary), 0666);
}

}  // namespace hora::hrun
