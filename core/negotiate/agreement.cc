// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/agreement.h"

#include "core/comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hora {
namespace {

/// One thing that requests must have in common, and how messages show it.
struct Aspect {
  const char* label;
  bool (*same)(const Request&, const Request&);
  std::string (*show)(const Request&);
};

bool same_tensor(const Request& a, const Request& b) {
  if (a.dtype != b.dtype || a.shape.size() != b.shape.size()) return false;
  const std::ptrdiff_t skipped =
      a.operation == Operation::allgather ? 1 : 0;  // the first dimension may differ
  return std::equal(a.shape.begin() + skipped, a.shape.end(), b.shape.begin() + skipped);
}

// In the order in which a reader would ask: what comes first explains the rest.
const std::array<Aspect, 7> kAspects{{
    {"operation", [](const Request& a, const Request& b) { return a.operation == b.operation; },
     [](const Request& r) { return std::string(name(r.operation)); }},
    {"tensor", same_tensor, [](const Request& r) { return describe(r.dtype, r.shape); }},
    {"reduction", [](const Request& a, const Request& b) { return a.op == b.op; },
     [](const Request& r) { return std::string(name(r.op)); }},
    {"root rank", [](const Request& a, const Request& b) { return a.root == b.root; },
     [](const Request& r) { return fmt::to_string(r.root); }},
    {"prescale factor", [](const Request& a, const Request& b) { return a.prescale == b.prescale; },
     [](const Request& r) { return fmt::to_string(r.prescale); }},
    {"postscale factor", [](const Request& a, const Request& b) { return a.postscale == b.postscale; },
     [](const Request& r) { return fmt::to_string(r.postscale); }},
    {"wire dtype", [](const Request& a, const Request& b) { return a.wire == b.wire; },
     [](const Request& r) { return std::string(name(r.wire)); }},
}};

/// What fails on every rank: `text` says why.
Decision failure(const Request& request, const std::string& text) {
  Decision decision;
  decision.request.operation = request.operation;
  decision.request.name = request.name;
  decision.status = {Code::mismatch,
                     shortened(fmt::format("'{}': {}", request.name, text), kMostMessageBytes)};
  return decision;
}

Decision mismatch(const Aspect& aspect, std::span<const Request* const> requests) {
  std::vector<std::pair<std::string, std::vector<int>>> values;
  for (std::size_t rank = 0; rank < requests.size(); ++rank) {
    const std::string value = aspect.show(*requests[rank]);
    auto known = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == value; });
    if (known == values.end()) known = values.insert(values.end(), {value, {}});
    known->second.push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const auto& [value, ranks] : values) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", value, describe_ranks(ranks));
  }
  return failure(*requests.front(), fmt::format("{} differs between ranks: {}", aspect.label, text));
}

/// The output has the rows of all ranks, one after the other.
void gather_rows(Decision& decision, std::span<const Request* const> requests) {
  std::int64_t total = 0;
  try {
    for (const auto* request : requests) {
      decision.rows.push_back(request->shape.front());
      if (__builtin_add_overflow(total, request->shape.front(), &total)) {
        throw Error(Code::invalid_argument, "their number is over 2^63");
      }
    }
    decision.request.shape.front() = total;
    static_cast<void>(elements(decision.request.shape, decision.request.dtype));
  } catch (const Error& error) {
    decision = failure(*requests.front(), fmt::format("the gathered rows are too many: {}", error.what()));
  }
}

}  // namespace

Decision agree(std::span<const Request* const> requests) {
  const Request& first = *requests.front();
  for (const auto& aspect : kAspects) {
    const bool equal = std::all_of(requests.begin(), requests.end(),
                                   [&](const Request* request) { return aspect.same(first, *request); });
    if (!equal) return mismatch(aspect, requests);
  }
  Decision decision;
  decision.request = first;
  decision.request.absent = false;
  decision.contributed =
      std::any_of(requests.begin(), requests.end(), [](const Request* request) { return !request->absent; });
  if (first.operation == Operation::allgather) gather_rows(decision, requests);
  return decision;
}

}  // namespace hora
