// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/dump_file.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>

namespace hora::hrun {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostDumpBytes = std::size_t{256} << 20;
constexpr std::int64_t kMostOfAnything = std::int64_t{1} << 53;
constexpr int kMostRanksInDump = 1 << 20;

[[noreturn]] void refuse_dump(const std::string& why) { throw Error(Code::invalid_argument, why); }

const Json& member_of(const Json& object, const char* name) {
  if (!object.is_object()) refuse_dump(fmt::format("there is no object that could have '{}'", name));
  const auto found = object.find(name);
  if (found == object.end()) refuse_dump(fmt::format("'{}' is missing", name));
  return *found;
}

std::string text_in(const Json& object, const char* name) {
  const Json& value = member_of(object, name);
  if (!value.is_string()) refuse_dump(fmt::format("'{}' is no text", name));
  return value.get<std::string>();
}

std::int64_t whole_number(const Json& value, const char* name, std::int64_t least, std::int64_t most) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t(most));
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    refuse_dump(fmt::format("'{}' is no whole number from {} to {}", name, least, most));
  return value.get<std::int64_t>();
}

std::int64_t number_in(const Json& object, const char* name, std::int64_t least, std::int64_t most) {
  return whole_number(member_of(object, name), name, least, most);
}

double seconds_in(const Json& object, const char* name) {
  const Json& value = member_of(object, name);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    refuse_dump(fmt::format("'{}' is no number of seconds", name));
  return value.get<double>();
}

const Json& list_in(const Json& object, const char* name) {
  const Json& value = member_of(object, name);
  if (!value.is_array()) refuse_dump(fmt::format("'{}' is no list", name));
  return value;
}

DumpedOperation operation_of(const Json& json) {
  DumpedOperation operation;
  operation.name = text_in(json, "name");
  operation.operation = text_in(json, "operation");
  operation.dtype = text_in(json, "dtype");
  for (const auto& extent : list_in(json, "shape"))
    operation.shape.push_back(whole_number(extent, "shape", 0, kMostOfAnything));
  operation.process_set = static_cast<int>(number_in(json, "process_set", 0, kMostRanksInDump));
  operation.submitted = seconds_in(json, "submitted");
  return operation;
}

DumpedMessage message_of(const Json& json) {
  DumpedMessage message;
  message.kind = text_in(json, "kind");
  message.peer = static_cast<int>(number_in(json, "peer", -1, kMostRanksInDump));
  message.tag = static_cast<int>(number_in(json, "tag", -1, std::numeric_limits<int>::max()));
  message.what = text_in(json, "what");
  message.bytes = static_cast<std::uint64_t>(number_in(json, "bytes", 0, kMostOfAnything));
  message.started = seconds_in(json, "started");
  return message;
}

DumpedOperation finished_operation_of(const Json& json) {
  DumpedOperation operation = operation_of(json);
  operation.sequence = static_cast<std::uint64_t>(number_in(json, "sequence", 1, kMostOfAnything));
  operation.status = text_in(json, "status");
  return operation;
}

RankDump dump_of(const Json& json) {
  RankDump dump;
  dump.job = text_in(json, "job");
  dump.size = static_cast<int>(number_in(json, "size", 1, kMostRanksInDump));
  dump.rank = static_cast<int>(number_in(json, "rank", 0, dump.size - 1));
  dump.pid = static_cast<int>(number_in(json, "pid", 0, 1 << 30));
  dump.host = text_in(json, "host");
  dump.status = text_in(json, "status");
  dump.message = text_in(json, "message");
  for (const auto& operation : list_in(json, "pending")) dump.pending.push_back(operation_of(operation));
  if (json.contains("messages")) {  // an older rank tells of none
    for (const auto& message : list_in(json, "messages")) dump.messages.push_back(message_of(message));
  }
  for (const auto& operation : list_in(json, "finished"))
    dump.finished.push_back(finished_operation_of(operation));
  return dump;
}

/// The rank whose dump has this name.
std::optional<int> rank_of_file(const std::string& name) {
  constexpr std::size_t kMostDigits = 7;
  if (!name.starts_with("rank") || !name.ends_with(".json")) return std::nullopt;
  const std::string digits = name.substr(4, name.size() - 9);
  const bool number = !digits.empty() && digits.size() <= kMostDigits &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  if (!number || digits != fmt::to_string(std::stoi(digits))) return std::nullopt;
  return std::stoi(digits);
}

RankDump read_dump(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::file_size(path, error) > kMostDumpBytes || error)
    refuse_dump(error ? error.message() : "it is too large for a dump");
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) refuse_dump("it cannot be read");
  return parse_dump(text);
}

}  // namespace

RankDump parse_dump(std::string_view text) {
  try {
    return dump_of(Json::parse(text));
  } catch (const Json::parse_error& error) {
    if (text.find_first_not_of(" \n\r\t") == std::string_view::npos) refuse_dump("it is empty");
    refuse_dump(fmt::format("it is no JSON from byte {} on: was it cut short?", error.byte));
  } catch (const Json::exception&) {
    refuse_dump("it has a number that is too large");
  }
}

std::vector<RankDump> read_dumps(const std::string& directory) {
  std::vector<RankDump> dumps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string path = entry.path().string();
    const auto rank = rank_of_file(entry.path().filename().string());
    if (!rank) continue;
    try {
      RankDump dump = read_dump(entry.path());
      if (dump.rank != *rank) refuse_dump(fmt::format("it is the dump of rank {}", dump.rank));
      if (!dumps.empty() && (dump.job != dumps.front().job || dump.size != dumps.front().size))
        refuse_dump(
            fmt::format("it is of another job than the dump of rank {}: remove what is left of earlier jobs",
                        dumps.front().rank));
      dumps.push_back(std::move(dump));
    } catch (const Error& why) {
      refuse_dump(fmt::format("{}: {}", path, why.what()));
    }
  }
  if (error) refuse_dump(fmt::format("{}: {}", directory, error.message()));
  if (dumps.empty()) refuse_dump(fmt::format("{}: there is no dump (rank<k>.json) in it", directory));
  std::sort(dumps.begin(), dumps.end(),
            [](const RankDump& one, const RankDump& other) { return one.rank < other.rank; });
  return dumps;
}

}  // namespace hora::hrun
