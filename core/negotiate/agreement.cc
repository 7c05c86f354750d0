// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/agreement.h"

#include "core/base/operations.h"
#include "core/comm/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  const std::ptrdiff_t skipped = sizes_its_output(a.operation) ? 1 : 0;  // the first dimension may differ
  return std::equal(a.shape.begin() + skipped, a.shape.end(), b.shape.begin() + skipped);
}

// In the order in which a reader would ask: an earlier aspect explains the rest.
const std::array<Aspect, 13> kAspects{{
    {"operation", [](const Request& a, const Request& b) { return a.operation == b.operation; },
     [](const Request& r) { return std::string(name(r.operation)); }},
    {"tensor", same_tensor, [](const Request& r) { return describe(r.dtype, r.shape); }},
    {"order of elements in memory (memory_format)",
     [](const Request& a, const Request& b) { return a.strides == b.strides; },
     [](const Request& r) {
       return r.strides.empty() ? std::string("that of the shape")
                                : fmt::format("strides ({})", fmt::join(r.strides, ", "));
     }},
    {"device", [](const Request& a, const Request& b) { return a.device == b.device; },
     [](const Request& r) { return std::string(r.device == DeviceKind::host ? "CPU" : "GPU"); }},
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
    {"check for finite values",
     [](const Request& a, const Request& b) { return a.check_finite == b.check_finite; },
     [](const Request& r) { return std::string(r.check_finite ? "wanted" : "not wanted"); }},
    {"group of operations", [](const Request& a, const Request& b) { return a.bundle == b.bundle; },
     [](const Request& r) { return r.bundle.empty() ? "none" : fmt::format("that of '{}'", r.bundle); }},
    {"process set", [](const Request& a, const Request& b) { return a.ranks == b.ranks; },
     [](const Request& r) { return fmt::format("[{}]", fmt::join(r.ranks, ", ")); }},
    {"divisor of averages",
     [](const Request& a, const Request& b) { return a.divide_by_initial_size == b.divide_by_initial_size; },
     [](const Request& r) {
       return std::string(r.divide_by_initial_size ? "the initial size" : "the ranks left");
     }},
}};

/// The reasons that ranks which cannot bring their tensor give; empty: all can.
std::string why_ranks_failed(std::span<const Voice> voices, const std::vector<int>& members) {
  std::string text;
  for (const auto& voice : voices) {
    const std::string& why = voice.request->failed_with;
    if (why.empty()) continue;
    text += fmt::format("{}{}'s {}", text.empty() ? "" : "; ",
                        describe_ranks(ranks_of(voice.places, members)), why);
  }
  return text;
}

Decision mismatch(const Aspect& aspect, std::span<const Voice> voices, const std::vector<int>& members) {
  std::vector<std::pair<std::string, RankSet>> values;
  for (const auto& voice : voices) {
    const std::string value = aspect.show(*voice.request);
    auto known = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == value; });
    if (known == values.end()) known = values.insert(values.end(), {value, {}});
    known->second.add(voice.places);
  }
  std::string text;
  for (const auto& [value, places] : values) {
    text +=
        fmt::format("{}{} on {}", text.empty() ? "" : ", ", value, describe_ranks(ranks_of(places, members)));
  }
  return failure(*voices.front().request, Code::mismatch,
                 fmt::format("{} differs between ranks: {}", aspect.label, text));
}

/// The request of each place.
std::vector<const Request*> by_place(std::span<const Voice> voices, std::size_t places) {
  std::vector<const Request*> requests(places);
  for (const auto& voice : voices) {
    for (const auto& [first, end] : voice.places.runs())
      std::fill(requests.begin() + first, requests.begin() + end, voice.request.get());
  }
  return requests;
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
    decision = failure(*requests.front(), Code::mismatch,
                       fmt::format("the gathered rows are too many: {}", error.what()));
  }
}

/// How many rows each place sends to each place.
void exchange_rows(Decision& decision, std::span<const Request* const> requests) {
  const auto places = static_cast<std::int64_t>(requests.size());
  for (const auto* request : requests) {
    for (std::int64_t place = 0; place < places; ++place) {
      decision.rows.push_back(request->splits.empty() ? request->shape.front() / places
                                                      : request->splits.at(static_cast<std::size_t>(place)));
    }
  }
  decision.request.splits.clear();
}

/// How many of the root's rows each place gets.
void scatter_rows(Decision& decision, std::span<const Voice> voices, const std::vector<int>& members) {
  const auto place = static_cast<int>(
      std::lower_bound(members.begin(), members.end(), decision.request.root) - members.begin());
  decision.request = *std::find_if(voices.begin(), voices.end(), [place](const Voice& voice) {
                        return voice.places.contains(place);
                      })->request;
  auto& root = decision.request;
  if (!root.splits.empty() && root.splits.size() != members.size())
    throw Error(Code::internal, "bad message: splits that are not as many as ranks");
  decision.rows = root.splits.empty() ? scattered_rows(root.shape.front(), static_cast<int>(members.size()))
                                      : root.splits;
  root.splits.clear();
}

}  // namespace

Decision agree(std::span<const Voice> voices, const std::vector<int>& members) {
  const Request& first = *voices.front().request;
  if (const auto why = why_ranks_failed(voices, members); !why.empty())
    return failure(first, Code::rank_failed, why);
  const auto all = [&](const auto& holds) {
    return std::all_of(voices.begin(), voices.end(),
                       [&](const Voice& voice) { return holds(*voice.request); });
  };
  for (const auto& aspect : kAspects) {
    if (!all([&](const Request& request) { return aspect.same(first, request); }))
      return mismatch(aspect, voices, members);
  }
  Decision decision;
  decision.request = first;
  decision.request.absent = false;
  decision.contributed = !all([](const Request& request) { return request.absent; });
  decision.divisor = static_cast<int>(members.size());
  const bool same_address =
      all([&](const Request& request) { return request.symmetric_address == first.symmetric_address; });
  if (!same_address) decision.request.symmetric_address = 0;
  decision.request.padded = same_address && all([](const Request& request) { return request.padded; });
  if (first.operation == Operation::allgather || first.operation == Operation::gather)
    gather_rows(decision, by_place(voices, members.size()));
  if (first.operation == Operation::scatter) scatter_rows(decision, voices, members);
  if (first.operation == Operation::alltoall) exchange_rows(decision, by_place(voices, members.size()));
  return decision;
}

std::vector<int> ranks_of(const RankSet& places, const std::vector<int>& members) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(places.size()));
  for (const auto& [first, end] : places.runs())
    ranks.insert(ranks.end(), members.begin() + first, members.begin() + end);
  return ranks;
}

RankSet places_of(const std::vector<int>& ranks, const std::vector<int>& members) {
  RankSet places;
  for (const int rank : ranks) {
    const auto member = std::lower_bound(members.begin(), members.end(), rank);
    if (member != members.end() && *member == rank)
      places.add(RankSet(static_cast<int>(member - members.begin())));
  }
  return places;
}

std::optional<Request> stand_in(const Request& like) {
  Request request = like;
  request.failed_with.clear();
  request.symmetric_address = 0;  // memory of its own, away from the others'
  switch (traits(like.operation).from_joined) {
    case FromJoined::refused: return std::nullopt;
    case FromJoined::no_rows: request.shape.front() = 0; return request;
    case FromJoined::neutral: {
      const bool zeros =
          like.op == ReduceOp::average || like.op == ReduceOp::sum || like.op == ReduceOp::adasum;
      if (!zeros && like.prescale != 1.0) return std::nullopt;  // neutral values would be scaled
      request.absent = true;
      return request;
    }
  }
  return std::nullopt;
}

Decision agree_without(std::vector<Voice> voices, const RankSet& absent, bool divide_by_initial_size,
                       const std::vector<int>& members) {
  const auto failed = std::any_of(voices.begin(), voices.end(),
                                  [](const Voice& voice) { return !voice.request->failed_with.empty(); });
  if (failed) return agree(voices, members);
  const Request& like = *voices.front().request;
  auto substitute = stand_in(like);
  if (!substitute) {
    return failure(
        like, Code::mismatch,
        fmt::format("{}{} is not supported with join, and {} joined already", name(like.operation),
                    like.operation == Operation::allreduce ? " of this kind with a prescale factor" : "",
                    describe_ranks(ranks_of(absent, members))));
  }
  const auto at = std::find_if(voices.begin(), voices.end(),
                               [&](const Voice& voice) { return voice.places.front() > absent.front(); });
  voices.insert(at, {absent, std::make_shared<const Request>(*std::move(substitute))});
  Decision decision = agree(voices, members);
  if (!decision.status.ok()) return decision;
  decision.joined = absent.list();
  if (!divide_by_initial_size) decision.divisor -= absent.size();
  return decision;
}

Decision failure(const Request& request, Code code, const std::string& text) {
  Decision decision;
  decision.request.operation = request.operation;
  decision.request.name = request.name;
  decision.request.bundle = request.bundle;
  decision.status = {code, shortened(fmt::format("'{}': {}", request.name, text), kMostMessageBytes)};
  return decision;
}

}  // namespace hora
