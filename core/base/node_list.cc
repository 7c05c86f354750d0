// SPDX-License-Identifier: Apache-2.0
#include "core/base/node_list.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace hora {
namespace {

constexpr std::size_t kMost = 1 << 17;   // more than any cluster has, and no wait for anybody
constexpr std::size_t kMostDigits = 18;  // of a number in brackets

[[noreturn]] void refuse(std::string_view text, const char* what, std::string_view why) {
  throw Error(Code::invalid_argument, fmt::format("'{}' is no {}: {}", text, what, why));
}

std::optional<std::uint64_t> whole(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// One list of hosts while it is read. A value.
class NodeList {
 public:
  explicit NodeList(std::string_view text) : text_(text), rest_(text) {}

  std::vector<std::string> expand() {
    std::vector<std::string> all;
    for (;;) {
      auto some = next_names();
      if (all.size() + some.size() > kMost) fail("it stands for too many hosts");
      std::move(some.begin(), some.end(), std::back_inserter(all));
      if (rest_.empty()) return all;
      rest_.remove_prefix(1);  // the comma
    }
  }

 private:
  [[noreturn]] void fail(std::string_view why) const { refuse(text_, "list of hosts", why); }

  /// Up to the next comma outside brackets.
  std::vector<std::string> next_names() {
    std::vector<std::string> names{""};
    while (!rest_.empty() && rest_.front() != ',') {
      const auto plain = rest_.substr(0, rest_.find_first_of("[],"));
      for (auto& name : names) name += plain;
      rest_.remove_prefix(plain.size());
      if (rest_.empty() || rest_.front() == ',') break;
      if (rest_.front() == ']') fail("a ']' without its '['");
      names = multiplied(names, next_bracket());
    }
    if (std::any_of(names.begin(), names.end(), [](const auto& name) { return name.empty(); }))
      fail("a name is empty");
    return names;
  }

  [[nodiscard]] std::vector<std::string> multiplied(const std::vector<std::string>& names,
                                                    const std::vector<std::string>& numbers) const {
    if (names.size() * numbers.size() > kMost) fail("it stands for too many hosts");
    std::vector<std::string> all;
    all.reserve(names.size() * numbers.size());
    for (const auto& name : names) {
      for (const auto& number : numbers) all.push_back(name + number);
    }
    return all;
  }

  /// The numbers of a bracket, with their leading zeros.
  std::vector<std::string> next_bracket() {
    const auto end = rest_.find(']');
    if (end == std::string_view::npos) fail("a '[' without its ']'");
    auto inside = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    std::vector<std::string> numbers;
    for (;;) {
      const auto range = inside.substr(0, inside.find(','));
      append_range(range, numbers);
      if (range.size() == inside.size()) return numbers;
      inside.remove_prefix(range.size() + 1);
    }
  }

  void append_range(std::string_view range, std::vector<std::string>& numbers) const {
    const auto dash = range.find('-');
    const auto low = range.substr(0, dash);
    const auto high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    const auto first = whole(low);
    const auto last = whole(high);
    if (!first || !last || std::max(low.size(), high.size()) > kMostDigits)
      fail("in brackets stand numbers and ranges of them, like [08,10-12]");
    if (*last < *first) fail("a range ends before it begins");
    if (numbers.size() + (*last - *first) >= kMost) fail("it stands for too many hosts");
    for (auto number = *first; number <= *last; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  }

  std::string_view text_;
  std::string_view rest_;
};

}  // namespace

std::vector<std::string> expand_node_list(std::string_view text) { return NodeList(text).expand(); }

std::vector<int> expand_task_counts(std::string_view text) {
  const auto fail = [&](std::string_view why) { refuse(text, "list of tasks per node", why); };
  std::vector<int> counts;
  auto rest = text;
  for (;;) {
    const auto item = rest.substr(0, rest.find(','));
    const auto bracket = item.find("(x");
    const bool repeated = bracket != std::string_view::npos;
    if (repeated && item.back() != ')') fail("a '(' without its ')'");
    const auto count = whole(item.substr(0, bracket));
    const auto times = repeated ? whole(item.substr(bracket + 2, item.size() - bracket - 3)) : 1;
    if (!count || !times || *count == 0 || *times == 0) fail("expected numbers like 2(x3),1");
    if (*count > kMost || *times > kMost || counts.size() + *times > kMost) fail("it is too large");
    counts.insert(counts.end(), *times, static_cast<int>(*count));
    if (item.size() == rest.size()) return counts;
    rest.remove_prefix(item.size() + 1);
  }
}

}  // namespace hora
