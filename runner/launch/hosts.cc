// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/hosts.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string_view>

namespace hora::hrun {
namespace {

constexpr int kMostSlots = 1 << 16;

/// The quoted text may be anything.
[[noreturn]] void refuse_hosts(const std::string& why) {
  throw Error(Code::invalid_argument, printable(why));
}

int parse_slots(const std::string& text, const std::string& where) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kMostSlots) {
    refuse_hosts(
        fmt::format("'{}': the number of slots must be from 1 to {}, not '{}'", where, kMostSlots, text));
  }
  return slots;
}

/// A name that could be mistaken for an option of ssh, or do things in a shell, is no host.
void check_name(const std::string& host, const std::string& text) {
  if (host.empty()) refuse_hosts(fmt::format("'{}': there is no host name", text));
  const bool sound = std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._-:%@+").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (!sound || host.front() == '-')
    refuse_hosts(fmt::format("'{}': '{}' cannot be the name of a host", text, host));
}

/// "host", "host:4", "[::1]", "[::1]:4", "user@[::1]:4". `slots`: of a host without a number.
HostSlots parse_host(const std::string& text, int slots = 1) {
  const auto at = text.find('@');
  const std::string user = at == std::string::npos ? "" : text.substr(0, at + 1);
  const std::string address = text.substr(user.size());
  const bool bracketed = address.starts_with('[');
  const auto end = bracketed ? address.find(']') : address.find(':');
  if (bracketed && end == std::string::npos)
    refuse_hosts(fmt::format("'{}': the bracket is not closed", text));
  const std::string name = bracketed ? address.substr(1, end - 1) : address.substr(0, end);
  const std::string rest = end == std::string::npos ? "" : address.substr(bracketed ? end + 1 : end);
  check_name(name, text);
  const std::string host = user + name;
  check_name(host, text);
  if (rest.empty()) return {host, slots};
  if (rest.front() != ':') refuse_hosts(fmt::format("'{}': expected ':' and a number after the host", text));
  if (!bracketed && rest.find(':', 1) != std::string::npos) {
    refuse_hosts(fmt::format("'{}': write an IPv6 address in brackets, as in [::1]:4", text));
  }
  return {host, parse_slots(rest.substr(1), text)};
}

HostSlots parse_line(const std::vector<std::string>& words) {
  HostSlots host = parse_host(words.front());
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.starts_with("slots=")) {
      host.slots = parse_slots(word.substr(6), word);
    } else if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) {
      host.most = parse_slots(word.substr(10), word);
    } else {
      refuse_hosts(fmt::format("expected 'host slots=N', found '{}'", word));
    }
  }
  if (host.most != 0 && host.most < host.slots)
    refuse_hosts(fmt::format("max_slots={} is less than slots={}", host.most, host.slots));
  return host;
}

void add(std::vector<HostSlots>& hosts, HostSlots host) {
  const bool twice =
      std::any_of(hosts.begin(), hosts.end(), [&](const auto& other) { return other.host == host.host; });
  if (twice)
    refuse_hosts(fmt::format("host '{}' is named twice; name it once with all its slots", host.host));
  hosts.push_back(std::move(host));
}

}  // namespace

std::string printable(std::string text) {
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return text;
}

int total_slots(const std::vector<HostSlots>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0,
                         [](int sum, const HostSlots& host) { return sum + host.slots; });
}

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto comma = std::min(text.find(',', begin), text.size());
    add(hosts, parse_host(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return hosts;
}

std::string to_text(const HostSlots& host) {
  const auto name = host.host.find('@') + 1;  // 0 without a user
  return host.host.substr(0, name) + with_number(host.host.substr(name), host.slots);
}

std::string with_number(const std::string& host, int number) {
  const bool six = host.find(':') != std::string::npos;
  return six ? fmt::format("[{}]:{}", host, number) : fmt::format("{}:{}", host, number);
}

std::vector<HostSlots> parse_hostfile(const std::string& text, const std::string& file) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream stream(line.substr(0, line.find('#')));
    const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    try {
      add(hosts, parse_line(words));
      hosts.back().where = fmt::format("{}:{}: ", file, number);
    } catch (const Error& error) {
      refuse_hosts(fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
  if (hosts.empty()) refuse_hosts(fmt::format("{}: there is no host in it", file));
  return hosts;
}

std::vector<HostSlots> parse_host_lines(const std::string& text, int slots) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream stream(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    if (words.size() > 1) refuse_hosts(fmt::format("expected 'host' or 'host:slots', found '{}'", line));
    if (words.front().ends_with(":0")) continue;  // it has no slot now
    HostSlots host = parse_host(words.front(), slots);
    const auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& one) { return one.host == host.host; });
    if (known == hosts.end()) {
      hosts.push_back(std::move(host));
    } else {
      known->slots = host.slots;
    }
  }
  return hosts;
}

std::vector<HostSlots> read_hostfile(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    refuse_hosts(fmt::format("{}: a hostfile is expected here, and this is a directory", file));
  std::ifstream stream(file);
  if (!stream) refuse_hosts(fmt::format("{}: cannot read this hostfile", file));
  std::string text;
  try {
    text.assign(std::istreambuf_iterator<char>(stream), {});
  } catch (const std::ios_base::failure& error) {
    refuse_hosts(fmt::format("{}: cannot read this hostfile: {}", file, error.what()));
  }
  return parse_hostfile(text, file);
}

}  // namespace hora::hrun
