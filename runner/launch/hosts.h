// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hora::hrun {

/// A machine and how many ranks it takes. A value.
struct HostSlots {
  std::string host;
  int slots = 1;
  std::string where = {};  ///< in a hostfile, for messages: "file:line: "
  int most = 0;            ///< max_slots of a hostfile, which --oversubscribe keeps to; 0: no limit
  bool operator==(const HostSlots&) const = default;
};

/// The slots of all of them together.
[[nodiscard]] int total_slots(const std::vector<HostSlots>& hosts);
/// The text with '?' for bytes that do things to a terminal.
[[nodiscard]] std::string printable(std::string text);

/// "a:4,b:4"; a host without a number has one slot. A host is whatever ssh takes for one: a name, an address,
/// an alias of its configuration, or "user@name". IPv6 addresses stand in brackets. Throws
/// Error(invalid_argument) that says which part is wrong.
[[nodiscard]] std::vector<HostSlots> parse_hosts(const std::string& text);

/// The same of one host, as parse_hosts reads it.
[[nodiscard]] std::string to_text(const HostSlots& host);
/// "host:number", as of a port; an IPv6 address in brackets.
[[nodiscard]] std::string with_number(const std::string& host, int number);

/// One host per line: "a slots=4 max_slots=8" (Horovod, Open MPI), "a:4" or "a"; "#" begins a comment. Throws
/// Error(invalid_argument) that names the file and the line.
[[nodiscard]] std::vector<HostSlots> parse_hostfile(const std::string& text, const std::string& file);
[[nodiscard]] std::vector<HostSlots> read_hostfile(const std::string& file);

/// One host per line: "a:4", or "a" with `slots`; "a:0" is left out. Of several lines about a host the last
/// one counts. There may be none. Throws Error(invalid_argument) that quotes the line.
[[nodiscard]] std::vector<HostSlots> parse_host_lines(const std::string& text, int slots);

}  // namespace hora::hrun
