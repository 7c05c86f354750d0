// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/elastic/generation_record.h"

#include <cstdint>
#include <span>
#include <vector>

namespace hora::elastic {

/// The position of a member at the end of a generation. Its engine has stopped, so this does not change any
/// more: it votes for no step of this generation, writes into no memory of other ranks, and nobody who lives
/// writes into its own. A value.
struct Report {
  MemberId member = 0;
  std::uint64_t generation = 0;
  std::uint64_t voted = 0;  ///< the last step that it voted for: it holds all reduced gradients of this step
  std::uint64_t committed = 0;  ///< the last step that it made: `voted`, or the one before
  bool has_state = false;
  bool leaving = false;  ///< it has been asked to end, as by SIGTERM
  /// Its program is where a step begins, or in a step that does not count yet, which begins again. There a
  /// process that joins is, too. Elsewhere the members do things that a process cannot join.
  bool takes_in = true;
  std::vector<MemberId> unreachable{};  ///< members that it has no connection with, although they may live

  bool operator==(const Report&) const = default;
};

[[nodiscard]] Bytes encode(const Report& report);
/// Throws Error(internal) if these bytes are no report, or the numbers of its steps contradict each other.
[[nodiscard]] Report decode_report(std::span<const std::byte> bytes);

/// The number of steps that count after a generation, from the reports of all its members that go on. Those
/// without state are not asked.
///
/// A step counts if all of them have voted for it. A member makes a step only after it has heard that all
/// members have voted. So if one of them has made the step, all have voted, and the result includes it. If
/// one has not voted, no member can have made the step, and all make it again. Throws Error(internal) if the
/// votes are more than one step apart, or nobody has state.
[[nodiscard]] std::uint64_t resolve(std::span<const Report> reports);

}  // namespace hora::elastic
