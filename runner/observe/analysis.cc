// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/analysis.h"

#include "core/base/ordinal.h"
#include "core/comm/world.h"
#include "runner/command_line/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace hora::hrun {
namespace {

using Ranks = std::vector<int>;

/// An operation that some ranks wait for: by its process set and name.
using Key = std::pair<int, std::string>;

/// The ranks that take part in it, and how.
struct Wanted {
  std::map<int, DumpedOperation> by_rank;  ///< of those that have submitted it and wait
  Ranks without;  ///< that never submitted it, though they take part in its process set
  Ranks ahead;    ///< that have finished it already
};

constexpr const char* kAborted = "aborted";

bool was_given_up(const DumpedOperation& operation) { return operation.status == kAborted; }

/// "float32 [3, 4]"
std::string describe_tensor(const DumpedOperation& operation) {
  return fmt::format("{} [{}]", operation.dtype, fmt::join(operation.shape, ", "));
}

/// "'a', 'b' and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < names.size() && i < kMost; ++i) shown.push_back(fmt::format("'{}'", names[i]));
  const std::string text = fmt::format("{}", fmt::join(shown, ", "));
  return names.size() > kMost ? fmt::format("{} and {} more", text, names.size() - kMost) : text;
}

/// Whether all that the rank has ever finished is in its dump, so that operations can be counted.
bool is_complete(const RankDump& dump) {
  return dump.finished.empty() || dump.finished.front().sequence == 1;
}

bool failed(const RankDump& dump) { return dump.status != "ok"; }

/// The operations that the rank had submitted when it wrote the dump, and that had not come to an end.
std::vector<DumpedOperation> unfinished(const RankDump& dump) {
  std::vector<DumpedOperation> all = dump.pending;
  std::copy_if(dump.finished.begin(), dump.finished.end(), std::back_inserter(all), was_given_up);
  std::sort(all.begin(), all.end(), [](const DumpedOperation& one, const DumpedOperation& other) {
    return one.submitted > other.submitted;
  });
  return all;
}

const DumpedOperation* last_finished(const RankDump& dump) {
  const auto found = std::find_if_not(dump.finished.rbegin(), dump.finished.rend(), was_given_up);
  return found == dump.finished.rend() ? nullptr : &*found;
}

std::size_t times_finished(const RankDump& dump, const Key& key) {
  return static_cast<std::size_t>(
      std::count_if(dump.finished.begin(), dump.finished.end(), [&](const DumpedOperation& operation) {
        return !was_given_up(operation) && operation.process_set == key.first && operation.name == key.second;
      }));
}

bool takes_part(const RankDump& dump, int process_set) {
  const auto in_it = [&](const DumpedOperation& operation) { return operation.process_set == process_set; };
  return process_set == 0 || std::any_of(dump.finished.begin(), dump.finished.end(), in_it) ||
         std::any_of(dump.pending.begin(), dump.pending.end(), in_it);
}

/// All dumps of a job, looked at together.
class Comparison {
 public:
  explicit Comparison(const std::vector<RankDump>& dumps) : dumps_(dumps) {
    for (const auto& dump : dumps_) {
      for (const auto& operation : unfinished(dump))
        wanted_[{operation.process_set, operation.name}].by_rank.emplace(dump.rank, operation);
    }
    for (auto& [key, wanted] : wanted_) find_others(key, wanted);
  }

  [[nodiscard]] std::string paragraph() const {
    std::vector<std::string> sentences;
    for (auto&& part : {without_dump(), different_tensors(), never_submitted(), messages(), stuck(),
                        first_difference(), reasons()})
      sentences.insert(sentences.end(), part.begin(), part.end());
    if (sentences.empty()) sentences.push_back(nothing_wrong());
    return fmt::format("{}", fmt::join(sentences, "\n"));
  }

  [[nodiscard]] std::string table() const;

 private:
  void find_others(const Key& key, Wanted& wanted) const {
    const RankDump& one = of(wanted.by_rank.begin()->first);
    for (const auto& dump : dumps_) {
      if (wanted.by_rank.contains(dump.rank) || !takes_part(dump, key.first)) continue;
      const bool further =
          is_complete(dump) && is_complete(one) && times_finished(dump, key) > times_finished(one, key);
      (further ? wanted.ahead : wanted.without).push_back(dump.rank);
    }
  }

  [[nodiscard]] const RankDump& of(int rank) const {
    return *std::find_if(dumps_.begin(), dumps_.end(),
                         [&](const RankDump& dump) { return dump.rank == rank; });
  }

  [[nodiscard]] Ranks missing() const {
    Ranks ranks;
    for (int rank = 0; rank < dumps_.front().size; ++rank) {
      const bool there =
          std::any_of(dumps_.begin(), dumps_.end(), [&](const RankDump& dump) { return dump.rank == rank; });
      if (!there) ranks.push_back(rank);
    }
    return ranks;
  }

  [[nodiscard]] const char* when() const {
    return std::any_of(dumps_.begin(), dumps_.end(), failed) ? "before the failure" : "before the dump";
  }

  [[nodiscard]] std::vector<std::string> without_dump() const;
  [[nodiscard]] std::vector<std::string> different_tensors() const;
  [[nodiscard]] std::vector<std::string> never_submitted() const;
  [[nodiscard]] std::vector<std::string> messages() const;
  [[nodiscard]] std::vector<std::string> stuck() const;
  [[nodiscard]] std::vector<std::string> first_difference() const;
  [[nodiscard]] std::vector<std::string> reasons() const;
  [[nodiscard]] std::string nothing_wrong() const;
  [[nodiscard]] std::string say_never_submitted(const Ranks& ranks, const std::vector<Key>& keys) const;
  [[nodiscard]] std::string last_of(int rank) const;
  [[nodiscard]] std::string instead(int rank) const;
  [[nodiscard]] std::vector<std::string> row(const RankDump& dump) const;

  const std::vector<RankDump>& dumps_;
  std::map<Key, Wanted> wanted_;
};

double longest(const Wanted& wanted) {
  double seconds = 0;
  for (const auto& [rank, operation] : wanted.by_rank) seconds = std::max(seconds, operation.submitted);
  return seconds;
}

Ranks waiting_in(const Wanted& wanted) {
  Ranks ranks;
  for (const auto& [rank, operation] : wanted.by_rank) ranks.push_back(rank);
  return ranks;
}

std::vector<std::string> Comparison::without_dump() const {
  const Ranks ranks = missing();
  if (ranks.empty()) return {};
  return {fmt::format("{} left no dump: {} died before {} could write one, or wrote it on another host.",
                      describe_ranks(ranks), ranks.size() == 1 ? "it" : "they",
                      ranks.size() == 1 ? "it" : "they")};
}

/// Whether ranks may bring different first dimensions.
bool rows_may_differ(const std::string& operation) {
  const std::set<std::string> ragged{"allgather", "alltoall", "gather", "scatter"};
  return ragged.contains(operation);
}

/// The properties of a tensor that all ranks must have alike.
std::string must_be_alike(const DumpedOperation& operation) {
  std::string text = fmt::format("{} of {}", operation.operation, describe_tensor(operation));
  if (!rows_may_differ(operation.operation) || operation.shape.empty()) return text;
  const std::vector<std::int64_t> columns(operation.shape.begin() + 1, operation.shape.end());
  return fmt::format("{} of {} [n{}{}]", operation.operation, operation.dtype, columns.empty() ? "" : ", ",
                     fmt::join(columns, ", "));
}

/// "float32 [3] on rank 0, and float32 [4] on ranks 1 and 2"
std::optional<std::string> describe_difference(const std::map<int, DumpedOperation>& by_rank) {
  std::map<std::string, Ranks> kinds;
  for (const auto& [rank, operation] : by_rank) kinds[must_be_alike(operation)].push_back(rank);
  if (kinds.size() < 2) return std::nullopt;
  std::vector<std::pair<std::string, Ranks>> fewest_first(kinds.begin(), kinds.end());
  std::stable_sort(fewest_first.begin(), fewest_first.end(), [](const auto& one, const auto& other) {
    return one.second.size() < other.second.size();
  });
  std::vector<std::string> parts;
  parts.reserve(fewest_first.size());
  for (const auto& [kind, ranks] : fewest_first)
    parts.push_back(fmt::format("{} on {}", kind, describe_ranks(ranks)));
  return fmt::format("{}", fmt::join(parts, ", and "));
}

std::vector<std::string> Comparison::different_tensors() const {
  std::map<Key, std::map<int, DumpedOperation>> suspects;
  for (const auto& [key, wanted] : wanted_) suspects[key] = wanted.by_rank;
  for (const auto& dump : dumps_) {
    for (const auto& operation : dump.finished) {
      if (operation.status == "mismatch")
        suspects[{operation.process_set, operation.name}].insert_or_assign(dump.rank, operation);
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [key, by_rank] : suspects) {
    if (const auto difference = describe_difference(by_rank))
      sentences.push_back(fmt::format("The ranks disagree about '{}': it is {}.", key.second, *difference));
  }
  return sentences;
}

/// One sentence for each group of ranks that lack something, about what the others have waited for longest.
std::vector<std::string> Comparison::never_submitted() const {
  std::map<Ranks, std::vector<Key>> by_ranks;
  for (const auto& [key, wanted] : wanted_) {
    if (!wanted.without.empty()) by_ranks[wanted.without].push_back(key);
  }
  std::vector<std::pair<double, std::string>> sentences;
  for (auto& [ranks, keys] : by_ranks) {
    std::stable_sort(keys.begin(), keys.end(), [&](const Key& one, const Key& other) {
      return longest(wanted_.at(one)) > longest(wanted_.at(other));
    });
    sentences.emplace_back(longest(wanted_.at(keys.front())), say_never_submitted(ranks, keys));
  }
  std::stable_sort(sentences.begin(), sentences.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  std::vector<std::string> texts;
  texts.reserve(sentences.size());
  for (auto& [seconds, text] : sentences) texts.push_back(std::move(text));
  return texts;
}

std::string Comparison::say_never_submitted(const Ranks& ranks, const std::vector<Key>& keys) const {
  const Wanted& wanted = wanted_.at(keys.front());
  const DumpedOperation& operation = wanted.by_rank.begin()->second;
  std::string text =
      fmt::format("{} never submitted '{}' ({} of {}{}), which {} submitted {:.1f} s {}",
                  describe_ranks(ranks), operation.name, operation.operation, describe_tensor(operation),
                  operation.process_set == 0 ? "" : fmt::format(", process set {}", operation.process_set),
                  describe_ranks(waiting_in(wanted)), longest(wanted), when());
  if (ranks.size() == 1) text += "; " + last_of(ranks.front()) + instead(ranks.front());
  text += '.';
  if (keys.size() == 1) return text;
  std::vector<std::string> others;
  for (std::size_t i = 1; i < keys.size(); ++i) others.push_back(keys[i].second);
  return fmt::format("{} Nor did {} submit {}.", text, ranks.size() == 1 ? "it" : "they", some_of(others));
}

std::string Comparison::last_of(int rank) const {
  const DumpedOperation* last = last_finished(of(rank));
  if (last == nullptr) return "it has finished no operation";
  return fmt::format("its last finished operation was '{}', the {}", last->name, ordinal(last->sequence));
}

/// The operations that a rank waits for and that no other rank has submitted.
std::string Comparison::instead(int rank) const {
  std::vector<std::string> names;
  for (const auto& operation : unfinished(of(rank))) {
    if (wanted_.at({operation.process_set, operation.name}).by_rank.size() == 1)
      names.push_back(operation.name);
  }
  return names.empty()
             ? ""
             : fmt::format(", and it waits for {} instead, which no other rank submitted", some_of(names));
}

/// The message that each rank has waited for longest.
std::vector<std::string> Comparison::messages() const {
  std::vector<std::string> sentences;
  for (const auto& dump : dumps_) {
    if (dump.messages.empty()) continue;
    const DumpedMessage& oldest = dump.messages.front();
    const std::string peer = oldest.peer < 0 ? "any rank" : fmt::format("rank {}", oldest.peer);
    const std::string tag = oldest.tag < 0 ? "any tag" : fmt::format("tag {}", oldest.tag);
    const std::string more =
        dump.messages.size() == 1 ? "" : fmt::format(", and for {} more", dump.messages.size() - 1);
    sentences.push_back(fmt::format("rank {} had waited for {:.1f} s to {} {} {} {} with {}{}.", dump.rank,
                                    oldest.started, oldest.kind, oldest.what,
                                    oldest.kind == "send" ? "to" : "from", peer, tag, more));
  }
  return sentences;
}

/// The operations that all ranks have submitted, and that yet have not come to an end.
std::vector<std::string> Comparison::stuck() const {
  if (!missing().empty()) return {};  // the reason
  std::vector<std::string> names;
  double seconds = 0;
  for (const auto& [key, wanted] : wanted_) {
    if (!wanted.without.empty() || !wanted.ahead.empty() || describe_difference(wanted.by_rank)) continue;
    names.push_back(key.second);
    seconds = std::max(seconds, longest(wanted));
  }
  if (names.empty()) return {};
  return {fmt::format(
      "All ranks submitted {}, the first {:.1f} s {}, and it did not finish: what carries it (the "
      "network, a GPU, a rank that was stopped) is the place to look at.",
      some_of(names), seconds, when())};
}

bool has_joined(const RankDump& dump) {
  const auto is_join = [](const DumpedOperation& operation) { return operation.operation == "join"; };
  return std::any_of(dump.finished.begin(), dump.finished.end(), is_join) ||
         std::any_of(dump.pending.begin(), dump.pending.end(), is_join);
}

/// The operations that a rank has finished with all others, in order.
std::vector<const DumpedOperation*> finished_with_all(const RankDump& dump) {
  std::vector<const DumpedOperation*> all;
  for (const auto& operation : dump.finished) {
    if (operation.process_set == 0 && !was_given_up(operation)) all.push_back(&operation);
  }
  return all;
}

/// Operations are carried out in the same order on all ranks, so the first that differs is where they parted.
std::vector<std::string> Comparison::first_difference() const {
  if (!std::all_of(dumps_.begin(), dumps_.end(), is_complete) ||
      std::any_of(dumps_.begin(), dumps_.end(), has_joined))
    return {};
  const auto first = finished_with_all(dumps_.front());
  for (const auto& dump : dumps_) {
    const auto other = finished_with_all(dump);
    const std::size_t both = std::min(first.size(), other.size());
    for (std::size_t i = 0; i < both; ++i) {
      if (first[i]->name == other[i]->name) continue;
      return {fmt::format("The {} operation of all ranks was '{}' on rank {} and '{}' on rank {}.",
                          ordinal(i + 1), first[i]->name, dumps_.front().rank, other[i]->name, dump.rank)};
    }
  }
  return {};
}

std::vector<std::string> Comparison::reasons() const {
  std::map<std::string, Ranks> by_reason;
  for (const auto& dump : dumps_) {
    if (failed(dump)) by_reason[dump.message].push_back(dump.rank);
  }
  std::vector<std::string> sentences;
  sentences.reserve(by_reason.size());
  for (const auto& [reason, ranks] : by_reason)
    sentences.push_back(fmt::format("{} failed with: {}", describe_ranks(ranks), reason));
  return sentences;
}

std::string Comparison::nothing_wrong() const {
  return "The ranks did the same, and none of them waits for anything.";
}

std::vector<std::string> Comparison::row(const RankDump& dump) const {
  const DumpedOperation* last = last_finished(dump);
  const auto waiting = unfinished(dump);
  const std::string oldest =
      waiting.empty() ? "-"
                      : fmt::format("{} ({:.1f} s)", cut(waiting.front().name), waiting.front().submitted);
  return {fmt::to_string(dump.rank),
          dump.host,
          fmt::to_string(dump.pid),
          fmt::to_string(last == nullptr ? 0 : last->sequence),
          last == nullptr ? "-" : cut(last->name),
          fmt::to_string(waiting.size()),
          oldest,
          dump.status};
}

std::string Comparison::table() const {
  std::vector<std::vector<std::string>> rows{
      {"rank", "host", "pid", "finished", "last finished", "waiting", "waiting longest", "status"}};
  for (const auto& dump : dumps_) rows.push_back(row(dump));
  for (const int rank : missing())
    rows.push_back({fmt::to_string(rank), "-", "-", "-", "-", "-", "-", "no dump"});
  std::stable_sort(rows.begin() + 1, rows.end(), [](const auto& one, const auto& other) {
    return std::stoi(one.front()) < std::stoi(other.front());
  });
  return hrun::table(rows);
}

}  // namespace

std::string analyze(const std::vector<RankDump>& dumps) {
  const Comparison comparison(dumps);
  return fmt::format("{}\n\n{}", comparison.paragraph(), comparison.table());
}

}  // namespace hora::hrun
