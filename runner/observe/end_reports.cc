// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/end_reports.h"

#include "core/comm/world.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

namespace hora::hrun {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// All its lines, those behind the first further to the right.
std::string paragraph(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    result += (result.empty() ? "" : "  ") + line + "\n";
  }
  return result;
}

bool ended_badly(const RankSummary& rank) { return !rank.ending || rank.ending->exit_code != 0; }

/// Whether `error` tells of a rank that ended because it did not catch `cause`, an error of Hora. Ranks that
/// have not got `cause` themselves get such an error (core/runtime/on_failure.cc has its words).
bool quotes(const std::string& error, const std::string& cause) {
  return cause.rfind("hora::", 0) == 0 && error.find("uncaught " + first_line(cause)) != std::string::npos;
}

bool have_one_cause(const std::string& one, const std::string& other) {
  return one == other || quotes(one, other) || quotes(other, one);
}

/// " at train.py:31 in step, train.py:40"
std::string at(const EndReport& report) { return report.where.empty() ? "" : " at " + report.where; }

}  // namespace

std::optional<EndReports::Trace> EndReports::take(int rank, const Reply& reply) {
  try {
    if (reply.kind == ReplyKind::gave_up) gave_up_[rank] = decode_gave_up(reply.content);
    if (reply.kind != ReplyKind::ends) return std::nullopt;
    EndReport report = decode_end_report(reply.content);
    std::optional<Trace> trace;
    if (!report.trace.empty()) {
      const bool known = std::any_of(shown_.begin(), shown_.end(), [&](const std::string& error) {
        return have_one_cause(error, report.error);
      });
      if (!known) shown_.insert(report.error);
      trace = Trace{std::exchange(report.trace, {}), !known};
      with_trace_.insert(rank);
    }
    ends_[rank] = std::move(report);
    return trace;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void EndReports::begin(int rank) {
  if (auto report = ends_.extract(rank)) former_.insert_or_assign(rank, std::move(report.mapped()));
  gave_up_.erase(rank);
  with_trace_.erase(rank);
}

const EndReport* EndReports::of(int rank) const {
  const auto found = ends_.find(rank);
  return found == ends_.end() ? nullptr : &found->second;
}

bool EndReports::is_common(int rank, const std::vector<int>& left) const {
  const EndReport* own = of(rank);
  if (own == nullptr) return false;
  std::set<int> alike;
  for (const auto* ends : {&ends_, &former_}) {
    for (const auto& [other, report] : *ends) {
      if (report.error == own->error && report.where == own->where) alike.insert(other);
    }
  }
  const auto others =
      std::count_if(left.begin(), left.end(), [&](int other) { return !alike.contains(other); });
  return alike.size() > std::max<std::size_t>(1, static_cast<std::size_t>(others));
}

std::string EndReports::describe(int first, const JobSummary& summary) const {
  using Kind = std::pair<std::string, std::string>;  // the error, and the place
  std::vector<std::pair<Kind, std::vector<int>>> kinds;
  const auto add = [&](int rank) {
    const EndReport* report = of(rank);
    if (report == nullptr || !ended_badly(summary.ranks[static_cast<std::size_t>(rank)])) return;
    const Kind kind{report->error, at(*report)};
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& other) {
      return other.first.second == kind.second && have_one_cause(other.first.first, kind.first);
    });
    if (known == kinds.end()) {
      kinds.push_back({kind, {rank}});
    } else {
      if (quotes(known->first.first, kind.first)) known->first.first = kind.first;
      known->second.push_back(rank);
    }
  };
  if (first >= 0) add(first);
  for (const auto& rank : summary.ranks) {
    if (rank.rank != first) add(rank.rank);
  }
  std::string text;
  std::string reason;  // that was told last
  std::stable_partition(kinds.begin(), kinds.end(),
                        [&](const auto& kind) { return kind.first.first == kinds.front().first.first; });
  for (auto& [kind, ranks] : kinds) {
    std::sort(ranks.begin(), ranks.end());
    const bool main = kind.first == kinds.front().first.first;
    if (main && reason.empty()) text += "hrun: " + paragraph(reason = kind.first);
    if (main && kind.second.empty()) {
      text += fmt::format("hrun: this ended {}\n", describe_ranks(ranks));
      continue;
    }
    text += fmt::format("hrun: {}{}{}\n", describe_ranks(ranks), kind.second,
                        main ? "" : ": " + first_line(kind.first));
  }
  return text;
}

std::string EndReports::describe_dumps(const JobSummary& summary) const {
  if (gave_up_.empty()) return {};
  std::vector<int> ranks;
  std::set<std::string> folders;
  for (const auto& [rank, report] : gave_up_) {
    ranks.push_back(rank);
    folders.insert(std::filesystem::path(report.dump).parent_path().string());
  }
  std::string text;
  if (std::none_of(summary.ranks.begin(), summary.ranks.end(), ended_badly))
    text = fmt::format("hrun: the job failed, and all ranks ended well: {}\n",
                       first_line(gave_up_.begin()->second.why));
  for (const auto& folder : folders)
    text += fmt::format("hrun: hrun analyze {} compares what {} did last{}\n", folder, describe_ranks(ranks),
                        summary.hosts.size() == 1 ? "" : ", where the files of all hosts are");
  return text;
}

std::string describe_endings(const std::map<int, std::pair<std::string, std::string>>& endings,
                             std::size_t most) {
  std::vector<std::pair<std::pair<std::string, std::string>, std::vector<int>>> groups;
  for (const auto& [rank, ending] : endings) {
    const auto alike = std::find_if(groups.begin(), groups.end(), [&, &wanted = ending](const auto& group) {
      return group.first == wanted;
    });
    if (alike == groups.end()) {
      groups.push_back({ending, {rank}});
    } else {
      alike->second.push_back(rank);
    }
  }
  std::string text;
  std::size_t untold = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto& [ending, ranks] = groups[i];
    if (i < most) {
      const bool were = ranks.size() > 1 && ending.second.starts_with("was ");
      text += fmt::format("hrun: {}{} {}{}\n", describe_ranks(ranks), ending.first, were ? "were" : "",
                          ending.second.substr(were ? 3 : 0));
    } else {
      untold += ranks.size();
    }
  }
  if (untold > 0) text += fmt::format("hrun: and {} more ended by themselves\n", untold);
  return text;
}

}  // namespace hora::hrun
