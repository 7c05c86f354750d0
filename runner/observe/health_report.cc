// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/health_report.h"

#include "core/comm/world.h"
#include "runner/command_line/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

namespace hora::hrun {
namespace {

using ReportJson = nlohmann::ordered_json;

double in_seconds(auto time) { return std::chrono::duration<double>(time).count(); }

std::string in_milliseconds(std::chrono::microseconds time) {
  return fmt::format("{:.1f} ms", std::chrono::duration<double, std::milli>(time).count());
}

const JobHealth::Late* late_of(const JobReport& report, int rank) {
  if (!report.health) return nullptr;
  const auto& all = report.health->lateness;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& late) { return late.rank == rank; });
  return found == all.end() ? nullptr : &*found;
}

// --- text ---

std::string say_job(const JobReport& report) {
  return fmt::format("job {}: {} rank{}, started {:.0f} s ago by hrun (pid {} on {}): {}\n", report.id,
                     report.ranks.size(), report.ranks.size() == 1 ? "" : "s", report.seconds, report.pid,
                     report.host, cut(fmt::format("{}", fmt::join(report.command, " "))));
}

std::string say_generation(const GenerationReport& generation) {
  if (generation.number == 0) return "The ranks have not all joined yet.\n";
  const int training = generation.members - generation.hot_spares;
  std::string text =
      fmt::format("generation {}: {} rank{}{}{}; {} processes lost so far, {} replaced\n", generation.number,
                  training, training == 1 ? "" : "s", and_hot_spares(generation.hot_spares),
                  generation.paused ? ", too few to go on" : "", generation.lost, generation.replaced);
  if (const auto& change = generation.last_change) {
    text += fmt::format(
        "the last change, {:.1f} s ago: {}; {:.1f} ms to stop, {:.1f} ms to connect{}\n", change->seconds_ago,
        change->what, 1000 * change->seconds_to_stop, 1000 * change->seconds_to_connect,
        change->seconds_to_next_step
            ? fmt::format(", {:.1f} ms in all to the next step", 1000 * *change->seconds_to_next_step)
            : "");
  }
  return text;
}

std::string say_steps(const JobHealth& health) {
  if (health.steps == 0) return "No step has been repeated yet.\n";
  return fmt::format("{:.1f} steps/s; {} steps so far, the last one {:.1f} s ago\n", health.steps_per_second,
                     health.steps, in_seconds(health.since_step));
}

std::string say_missed(const JobHealth::Missed& missed) {
  const InFlight& operation = missed.operation;
  const std::uint64_t more =
      missed.all_missing - std::min<std::uint64_t>(missed.all_missing, missed.missing.size());
  return fmt::format("waits for {:.1f} s: '{}' ({}{}); missing: {}{}\n", in_seconds(operation.since),
                     operation.name, operation.what,
                     missed.step == 0 ? "" : fmt::format(", step {}", missed.step),
                     describe_ranks(missed.missing), more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string say_health(const JobReport& report) {
  if (!report.health) {
    const bool can = !report.ranks.empty() && report.ranks.front().health.has_value();
    return can ? "Rank 0's engine is in an operation, and does not say how the job is.\n" : "";
  }
  std::string text = say_steps(*report.health);
  for (const auto& missed : report.health->longest) text += say_missed(missed);
  const std::size_t told = report.health->longest.size();
  if (report.health->waiting > told) text += fmt::format("and {} more\n", report.health->waiting - told);
  return text;
}

std::string state_of(const RankReport& rank) {
  if (!rank.ending.empty()) return rank.ending;
  if (rank.pid == 0) return "not started";
  if (rank.health) return "running";
  switch (rank.presence) {
    case Presence::absent: return "before init";
    case Presence::left: return "after shutdown";
    default: return "no answer";
  }
}

std::vector<std::string> row_of(const JobReport& report, const RankReport& rank) {
  std::vector<std::string> row{fmt::to_string(rank.rank), rank.host,
                               rank.pid == 0 ? "-" : fmt::to_string(rank.pid), state_of(rank),
                               rank.seconds ? fmt::format("{:.1f} s", *rank.seconds) : "-"};
  if (rank.health) {
    const Health& health = *rank.health;
    row.push_back(fmt::to_string(health.finished));
    row.push_back(fmt::format("{:.1f}", static_cast<double>(health.bytes) / 1e6));
    row.push_back(health.last.empty()
                      ? "-"
                      : fmt::format("{} ({:.1f} s)", cut(health.last), in_seconds(health.since_last)));
    row.push_back(health.oldest.empty()
                      ? "0"
                      : fmt::format("{}: {} ({:.1f} s)", health.in_flight, cut(health.oldest.front().name),
                                    in_seconds(health.oldest.front().since)));
  } else {
    row.insert(row.end(), 4, "-");
  }
  if (const auto* late = late_of(report, rank.rank)) {
    row.push_back(in_milliseconds(late->median));
    row.push_back(in_milliseconds(late->p99));
    row.push_back(fmt::format("{:.0f} %", 100 * late->last));
  } else {
    row.insert(row.end(), 3, "-");
  }
  return row;
}

// --- JSON ---

ReportJson json_of(const InFlight& operation) {
  return {{"name", operation.name}, {"what", operation.what}, {"seconds", in_seconds(operation.since)}};
}

ReportJson json_of(const RankReport& rank, const JobHealth::Late* late) {
  ReportJson json{{"rank", rank.rank}, {"host", rank.host}};
  json["pid"] = rank.pid == 0 ? ReportJson(nullptr) : ReportJson(rank.pid);
  json["state"] = state_of(rank);
  json["running"] = rank.pid != 0 && rank.ending.empty();
  json["seconds"] = rank.seconds ? ReportJson(*rank.seconds) : ReportJson(nullptr);
  json["answers"] = rank.health.has_value();
  for (const char* key : {"operations", "bytes", "last_operation", "seconds_since_last_operation",
                          "operations_in_flight", "in_flight", "lateness"})
    json[key] = nullptr;
  if (rank.health) {
    const Health& health = *rank.health;
    json["operations"] = health.finished;
    json["bytes"] = health.bytes;
    if (!health.last.empty()) {
      json["last_operation"] = health.last;
      json["seconds_since_last_operation"] = in_seconds(health.since_last);
    }
    json["operations_in_flight"] = health.in_flight;
    json["in_flight"] = ReportJson::array();
    for (const auto& operation : health.oldest) json["in_flight"].push_back(json_of(operation));
  }
  if (late != nullptr) {
    json["lateness"] = {{"median_seconds", in_seconds(late->median)},
                        {"p99_seconds", in_seconds(late->p99)},
                        {"share_of_steps_as_last", late->last}};
  }
  return json;
}

ReportJson json_of(const JobHealth::Missed& missed) {
  ReportJson json = json_of(missed.operation);
  json["step"] = missed.step == 0 ? ReportJson(nullptr) : ReportJson(missed.step);
  json["missing_ranks"] = missed.missing;
  json["missing"] = missed.all_missing;
  return json;
}

ReportJson json_of(const GenerationReport& generation) {
  ReportJson json{
      {"number", generation.number}, {"ranks", generation.members}, {"hot_spares", generation.hot_spares},
      {"paused", generation.paused}, {"lost", generation.lost},     {"replaced", generation.replaced},
      {"last_change", nullptr}};
  if (const auto& change = generation.last_change) {
    json["last_change"] = {
        {"what", change->what},
        {"seconds_ago", change->seconds_ago},
        {"seconds_to_stop", change->seconds_to_stop},
        {"seconds_to_connect", change->seconds_to_connect},
        {"seconds_to_next_step",
         change->seconds_to_next_step ? ReportJson(*change->seconds_to_next_step) : ReportJson(nullptr)}};
  }
  return json;
}

// --- Prometheus ---

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

/// Metrics, one after the other: each has a head, and then its samples.
class Metrics {
 public:
  void begin(const char* name, const char* type, const char* help) {
    name_ = fmt::format("hora_{}", name);
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type);
  }
  void sample(const std::string& labels, double value) {
    text_ += fmt::format("{}{} {}\n", name_, labels.empty() ? "" : "{" + labels + "}", value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

std::string labels_of(const RankReport& rank) {
  return fmt::format(R"(rank="{}",host="{}")", rank.rank, escaped(rank.host));
}

/// A metric of ranks: of those of which there is a value.
struct RankMetric {
  const char* name;
  const char* type;
  const char* help;
  std::function<std::optional<double>(const RankReport&)> value;
};

RankMetric of_health(const char* name, const char* type, const char* help,
                     const std::function<double(const Health&)>& value) {
  return {name, type, help, [value](const RankReport& rank) {
            return rank.health ? std::optional(value(*rank.health)) : std::nullopt;
          }};
}

double as_double(std::uint64_t number) { return static_cast<double>(number); }

std::vector<RankMetric> rank_metrics() {
  return {
      {"rank_running", "gauge", "Whether the rank's process runs.",
       [](const RankReport& rank) { return rank.pid != 0 && rank.ending.empty() ? 1.0 : 0.0; }},
      {"rank_answers", "gauge", "Whether the rank has said how it is.",
       [](const RankReport& rank) { return rank.health ? 1.0 : 0.0; }},
      {"rank_seconds", "gauge", "For how long the rank's process has run.",
       [](const RankReport& rank) { return rank.seconds; }},
      of_health("operations_total", "counter", "Operations that the rank has finished.",
                [](const Health& health) { return as_double(health.finished); }),
      of_health("tensor_bytes_total", "counter", "Bytes of the tensors that went into these.",
                [](const Health& health) { return as_double(health.bytes); }),
      of_health("operations_in_flight", "gauge",
                "Operations that the rank has submitted, and that have not finished.",
                [](const Health& health) { return as_double(health.in_flight); }),
      of_health("oldest_operation_seconds", "gauge", "How long ago the oldest of these was submitted.",
                [](const Health& health) {
                  return health.oldest.empty() ? 0.0 : in_seconds(health.oldest.front().since);
                }),
      {"seconds_since_last_operation", "gauge", "Since the rank has finished one.",
       [](const RankReport& rank) {
         return rank.health && !rank.health->last.empty() ? std::optional(in_seconds(rank.health->since_last))
                                                          : std::nullopt;
       }},
  };
}

void add_job(Metrics& metrics, const JobHealth& health) {
  metrics.begin("steps_total", "counter", "Steps of the training.");
  metrics.sample("", as_double(health.steps));
  if (health.steps > 0) {
    metrics.begin("steps_per_second", "gauge", "Of the last ten seconds in which there were steps.");
    metrics.sample("", health.steps_per_second);
    metrics.begin("seconds_since_last_step", "gauge", "Since the end of the last step.");
    metrics.sample("", in_seconds(health.since_step));
  }
  metrics.begin("operations_waiting", "gauge",
                "Operations that some ranks have submitted and others have not.");
  metrics.sample("", as_double(health.waiting));
  metrics.begin("longest_waiting_seconds", "gauge", "For how long the first of these has waited.");
  metrics.sample("", health.longest.empty() ? 0.0 : in_seconds(health.longest.front().operation.since));
}

void add_generation(Metrics& metrics, const GenerationReport& generation) {
  metrics.begin("generation", "gauge", "The number of the present generation of an elastic job.");
  metrics.sample("", as_double(generation.number));
  metrics.begin("generation_ranks", "gauge", "How many ranks this generation has.");
  metrics.sample("", generation.members);
  metrics.begin("generation_hot_spares", "gauge", "How many of these ranks are hot spares.");
  metrics.sample("", generation.hot_spares);
  metrics.begin("lost_processes_total", "counter", "Processes that the job has lost.");
  metrics.sample("", generation.lost);
  metrics.begin("replaced_processes_total", "counter", "Those of them in whose place others have joined.");
  metrics.sample("", generation.replaced);
  if (!generation.last_change) return;
  metrics.begin("last_change_seconds", "gauge", "How long the last change of the ranks took.");
  metrics.sample("", generation.last_change->seconds_to_stop + generation.last_change->seconds_to_connect);
  if (!generation.last_change->seconds_to_next_step) return;
  metrics.begin("last_change_to_next_step_seconds", "gauge",
                "How long it took from the notice of the last change until a step counted.");
  metrics.sample("", *generation.last_change->seconds_to_next_step);
}

void add_lateness(Metrics& metrics, const JobReport& report) {
  metrics.begin("lateness_seconds", "summary", "How long others waited for the rank, in the last 256 steps.");
  for (const auto& rank : report.ranks) {
    const auto* late = late_of(report, rank.rank);
    if (late == nullptr) continue;
    metrics.sample(labels_of(rank) + R"(,quantile="0.5")", in_seconds(late->median));
    metrics.sample(labels_of(rank) + R"(,quantile="0.99")", in_seconds(late->p99));
  }
  metrics.begin("last_ratio", "gauge", "The share of these steps in which the rank came last.");
  for (const auto& rank : report.ranks) {
    if (const auto* late = late_of(report, rank.rank)) metrics.sample(labels_of(rank), late->last);
  }
}

}  // namespace

std::string why_silent(const RankReport& rank) {
  const std::string who = describe(Member{rank.rank, rank.pid, rank.host, {}});
  if (rank.pid == 0) return fmt::format("rank {} on {} was not started yet", rank.rank, rank.host);
  if (!rank.ending.empty()) return fmt::format("{} {}", who, rank.ending);
  if (rank.presence == Presence::absent) return fmt::format("{} has not called init yet", who);
  if (rank.presence == Presence::left) return fmt::format("{} has called shutdown", who);
  return fmt::format("{} does not answer: it is stopped, or its host is busy", who);
}

std::string describe(const JobReport& report) {
  std::vector<std::vector<std::string>> rows{{"rank", "host", "pid", "state", "for", "operations", "MB",
                                              "last operation", "in flight", "late: median", "p99",
                                              "last in"}};
  for (const auto& rank : report.ranks) rows.push_back(row_of(report, rank));
  return fmt::format("{}{}{}\n{}", say_job(report),
                     report.generation ? say_generation(*report.generation) : "", say_health(report),
                     table(rows));
}

std::string to_json(const JobReport& report) {
  ReportJson json{{"job", report.id},
                  {"hrun", {{"pid", report.pid}, {"host", report.host}}},
                  {"command", report.command},
                  {"seconds", report.seconds},
                  {"np", report.ranks.size()}};
  for (const char* key : {"generation", "steps", "operations_waiting", "waiting"}) json[key] = nullptr;
  if (report.generation) json["generation"] = json_of(*report.generation);
  if (report.health) {
    const JobHealth& health = *report.health;
    if (health.steps > 0)
      json["steps"] = {{"count", health.steps},
                       {"per_second", health.steps_per_second},
                       {"seconds_since_last", in_seconds(health.since_step)}};
    json["operations_waiting"] = health.waiting;
    json["waiting"] = ReportJson::array();
    for (const auto& missed : health.longest) json["waiting"].push_back(json_of(missed));
  }
  json["ranks"] = ReportJson::array();
  for (const auto& rank : report.ranks) json["ranks"].push_back(json_of(rank, late_of(report, rank.rank)));
  // Names of tensors and words of the command line need not be UTF-8.
  return json.dump(2, ' ', false, ReportJson::error_handler_t::replace) + "\n";
}

std::string to_prometheus(const JobReport& report) {
  Metrics metrics;
  metrics.begin("job_info", "gauge", "The job, by its labels.");
  const std::string program = report.command.empty() ? "" : report.command.front();
  metrics.sample(fmt::format(R"(job_id="{}",program="{}")", report.id, escaped(program)), 1);
  metrics.begin("job_seconds", "gauge", "For how long hrun has run.");
  metrics.sample("", report.seconds);
  metrics.begin("ranks", "gauge", "How many ranks the job has.");
  metrics.sample("", as_double(report.ranks.size()));
  for (const auto& metric : rank_metrics()) {
    metrics.begin(metric.name, metric.type, metric.help);
    for (const auto& rank : report.ranks) {
      if (const auto value = metric.value(rank)) metrics.sample(labels_of(rank), *value);
    }
  }
  if (report.generation) add_generation(metrics, *report.generation);
  if (report.health) add_job(metrics, *report.health);
  if (report.health && !report.health->lateness.empty()) add_lateness(metrics, report);
  return metrics.take();
}

}  // namespace hora::hrun
