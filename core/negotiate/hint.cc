// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/hint.h"

#include "core/comm/world.h"

#include <fmt/format.h>

namespace hora {
namespace {

/// Calls are named as in Python, which most programs are written in.
constexpr const char* kOnAllRanks = "call it on all ranks, not inside `if hvd.rank() == 0`";

constexpr const char* kOnItsRanks =
    "call it on all ranks of the process set, with the same name and the same ranks";

/// The remedy for a call that some ranks have never made.
const char* call_it_everywhere(const std::string& name) {
  return name.starts_with("hora.add_process_set.") ? kOnItsRanks : kOnAllRanks;
}

std::string with_capital(std::string text) {
  text.front() = text.front() == 'r' ? 'R' : text.front();
  return text;
}

}  // namespace

bool is_gradient(const std::string& tensor) { return tensor.starts_with("gradient."); }

std::string hint_for_left(const OneSided& tensor) {
  const std::string gone = describe_ranks(tensor.missing);
  if (is_gradient(tensor.name)) {
    return fmt::format(
        "Did you mean hvd.join()? {} took fewer steps than others: call hvd.join() (C++: Runtime::join) "
        "after its last batch, or backward() on all ranks in every step.",
        with_capital(gone));
  }
  if (tensor.step != 0) {
    return fmt::format(
        "Did you mean hvd.join()? {} called it less often than others: call hvd.join() (C++: Runtime::join) "
        "after its last batch, or call it equally often on all ranks.",
        with_capital(gone));
  }
  return fmt::format("So far only {} called it; {}.", describe_ranks(tensor.asked),
                     call_it_everywhere(tensor.name));
}

std::string describe_left(const OneSided& tensor) {
  return fmt::format("{} has left the job without submitting it\n{}", describe_ranks(tensor.missing),
                     hint_for_left(tensor));
}

std::string describe_removed(const OneSided& tensor) {
  return fmt::format(
      "{} has removed the process set without submitting it\nSo far only {} called it; call it on all ranks "
      "of the set before one of them removes it.",
      describe_ranks(tensor.missing), describe_ranks(tensor.asked));
}

std::string hint_for_waiting(const OneSided& tensor) {
  if (is_gradient(tensor.name)) {
    return fmt::format(
        "{} did not call backward() in this step, and went on: call backward() on all ranks in every step, "
        "or hvd.join() (C++: Runtime::join) after the last batch.",
        with_capital(describe_ranks(tensor.missing)));
  }
  if (tensor.step != 0) {
    return fmt::format("{} did not call it in this step, and went on: call it equally often on all ranks.",
                       with_capital(describe_ranks(tensor.missing)));
  }
  return fmt::format("Only {} called it; {}.", describe_ranks(tensor.asked), call_it_everywhere(tensor.name));
}

}  // namespace hora
