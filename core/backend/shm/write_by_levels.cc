// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_by_levels.h"

#include "core/backend/shm/write_guard.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hora::shm {
namespace {

constexpr std::size_t kAtATime = 1024 * 1024;      // bytes, so that who leaves need not wait long
constexpr std::size_t kPartialBytes = 512 * 1024;  // of one rank: they should stay in its own cache
static_assert(kPartialBytes <= kStageBytes);

/// Of a stage, for the partial sums of one level; the last has none.
std::size_t bytes_of_level(const Levels& levels) { return kPartialBytes / (levels.count() - 1) / 64 * 64; }

}  // namespace

WriteByLevels::WriteByLevels(Communicator communicator, Rounds& rounds, RemoteAccess& access)
    : communicator_(std::move(communicator)), rounds_(rounds), access_(access) {}

void WriteByLevels::run(const Levels& levels, std::span<const Segment> segments, const Reduction& reduction) {
  Stepwise steps(reduction);
  Piece piece{levels, segments, {}, size_of(reduction.dtype), steps.partial_bytes()};
  const std::size_t total = total_count(segments);
  const std::size_t most = piece_elements(levels, piece.each, piece.partial);
  for (; piece.whole.begin < total; piece.whole.begin += most) {
    piece.whole.count = std::min(most, total - piece.whole.begin);
    for (std::size_t level = 1; level <= levels.count(); ++level) {
      go_up(piece, level, steps);
      rounds_.phase();
    }
    for (std::size_t level = levels.count() - 1; level > 0; --level) {
      go_down(piece, level);
      if (level > 1) rounds_.phase();
    }
  }
}

/// So many that each level's share of a rank fits its part of the stage.
std::size_t WriteByLevels::piece_elements(const Levels& levels, std::size_t each, std::size_t partial) {
  const std::size_t line = 64 / each;
  const std::size_t room = bytes_of_level(levels) / partial / line * line;
  std::size_t fewest = levels.groups(levels.count()).front().members.size();
  for (std::size_t level = 1; level < levels.count(); ++level) {
    for (const auto& group : levels.groups(level)) fewest = std::min(fewest, group.members.size());
  }
  return room * fewest;
}

void WriteByLevels::go_up(const Piece& piece, std::size_t level, Stepwise& steps) {
  const auto& group = piece.levels.group_of(level, communicator_.place());
  const Range own = own_share(piece, group);
  if (level == 1) return sum_inputs(piece, own, steps);
  const bool last = level == piece.levels.count();
  for_each_part_of(piece, level, own, [&](const Range& range) {
    from_.clear();
    for (const std::size_t part : group.parts)
      from_.push_back(partial_of(piece, level - 1, piece.levels.groups(level - 1)[part], range.begin));
    if (last) return finish(piece, range, steps);
    steps.go_on(from_, partial_of(piece, level, group, range.begin), range.count);
  });
}

void WriteByLevels::sum_inputs(const Piece& piece, const Range& share, Stepwise& steps) {
  if (share.count == 0) return;
  const auto& group = piece.levels.group_of(1, communicator_.place());
  std::byte* partial = partial_of(piece, 1, group, share.begin);
  for_each_segment_of(piece, share, [&](const SegmentRange& range) {
    const WriteGuard guard(communicator_);
    if (!guard.allowed()) return;
    from_.clear();
    for (const int place : group.members)
      from_.push_back(access_.local(place, rounds_.mailbox(place).inputs[range.segment],
                                    range.begin * piece.each, range.count * piece.each));
    steps.begin(from_, partial, range.count);
    partial += range.count * piece.partial;
  });
}

/// From the partial sums in `from_` to one output of each part.
void WriteByLevels::finish(const Piece& piece, const Range& range, Stepwise& steps) {
  const std::size_t below = piece.levels.count() - 1;
  for_each_segment_of(piece, range, [&](const SegmentRange& part) {
    const WriteGuard guard(communicator_);
    if (!guard.allowed()) return;
    to_.clear();
    for (const auto& group : piece.levels.groups(below)) {
      const int place = group.members[holder(piece, group, range.begin)];
      to_.push_back(access_.local(place, rounds_.mailbox(place).outputs[part.segment],
                                  part.begin * piece.each, part.count * piece.each));
    }
    steps.end(from_, to_, part.count);
    for (auto& from : from_) from = static_cast<const std::byte*>(from) + part.count * piece.partial;
  });
}

void WriteByLevels::go_down(const Piece& piece, std::size_t level) {
  const Range own = own_share(piece, piece.levels.group_of(level, communicator_.place()));
  for_each_part_of(piece, level, own, [&](const Range& range) { hand_out(piece, level, range); });
}

/// From the own output.
void WriteByLevels::hand_out(const Piece& piece, std::size_t level, const Range& range) {
  const auto& group = piece.levels.group_of(level, communicator_.place());
  for_each_segment_of(piece, range, [&](const SegmentRange& part) {
    const WriteGuard guard(communicator_);
    if (!guard.allowed()) return;
    const std::size_t begin = part.begin * piece.each;
    const std::size_t bytes = part.count * piece.each;
    const auto output_of = [&](int place) {
      return access_.local(place, rounds_.mailbox(place).outputs[part.segment], begin, bytes);
    };
    const std::byte* own = output_of(communicator_.place());
    for (const std::size_t below : group.parts) {
      int place = static_cast<int>(below);
      if (level > 1) {
        const auto& members = piece.levels.groups(level - 1)[below].members;
        place = members[holder(piece, piece.levels.groups(level - 1)[below], range.begin)];
      }
      if (place != communicator_.place()) std::memcpy(output_of(place), own, bytes);
    }
  });
}

/// The elements of the piece that a member of a group puts together.
WriteByLevels::Range WriteByLevels::share(const Piece& piece, const Levels::Group& group, std::size_t index) {
  const auto begin_of = [&](std::size_t i) {
    return share_begin(piece.whole.count, piece.each, static_cast<int>(i),
                       static_cast<int>(group.members.size()));
  };
  return {begin_of(index), begin_of(index + 1) - begin_of(index)};
}

/// The member whose share an element of the piece is in.
std::size_t WriteByLevels::holder(const Piece& piece, const Levels::Group& group, std::size_t at) {
  return at / share(piece, group, 0).count;  // all shares are as long as the first, but for the last ones
}

WriteByLevels::Range WriteByLevels::own_share(const Piece& piece, const Levels::Group& group) const {
  const auto index = std::find(group.members.begin(), group.members.end(), communicator_.place());
  return share(piece, group, static_cast<std::size_t>(index - group.members.begin()));
}

/// Where what a group, not the last, has made of an element lies: in the stage of who has it in its share.
std::byte* WriteByLevels::partial_of(const Piece& piece, std::size_t level, const Levels::Group& group,
                                     std::size_t at) const {
  const std::size_t index = holder(piece, group, at);
  return rounds_.stage(group.members[index]) + (level - 1) * bytes_of_level(piece.levels) +
         (at - share(piece, group, index).begin) * piece.partial;
}

/// Visits what lies in one member's share of each part of the own group at this level.
void WriteByLevels::for_each_part_of(const Piece& piece, std::size_t level, const Range& range,
                                     const std::function<void(const Range&)>& visit) const {
  const std::size_t end = range.begin + range.count;
  for (std::size_t at = range.begin; at < end;) {
    std::size_t next = end;
    if (level > 1) {
      for (const std::size_t part : piece.levels.group_of(level, communicator_.place()).parts) {
        const auto& group = piece.levels.groups(level - 1)[part];
        const Range held = share(piece, group, holder(piece, group, at));
        next = std::min(next, held.begin + held.count);
      }
    }
    visit({at, next - at});
    at = next;
  }
}

/// Visits where it lies, a little at a time.
void WriteByLevels::for_each_segment_of(const Piece& piece, const Range& range,
                                        const std::function<void(const SegmentRange&)>& visit) const {
  const std::size_t begin = piece.whole.begin + range.begin;
  for_each_range(piece.segments, begin, begin + range.count, [&](const SegmentRange& whole) {
    const std::size_t step = kAtATime / piece.each;
    for (std::size_t done = 0; done < whole.count; done += step)
      visit({whole.segment, whole.begin + done, std::min(step, whole.count - done)});
  });
}

}  // namespace hora::shm
