// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/message.h"

#include <hora/status.h>

#include <cstring>

namespace hora::elastic {
namespace {

constexpr int kLeaderKinds = 5;
constexpr int kMemberKinds = 8;

bool has_port(MemberMessage::Kind kind) {
  return kind == MemberMessage::Kind::join || kind == MemberMessage::Kind::report;
}

bool has_generation(MemberMessage::Kind kind) {
  return kind == MemberMessage::Kind::formed || kind == MemberMessage::Kind::step;
}

}  // namespace

Bytes encode(const LeaderMessage& message) {
  Writer out;
  out.u8(static_cast<std::uint8_t>(message.kind)).u64(message.generation);
  switch (message.kind) {
    case LeaderMessage::Kind::stop: out.u64(message.lost); [[fallthrough]];
    case LeaderMessage::Kind::out: out.string(message.why.substr(0, kMostWhyBytes)); break;
    case LeaderMessage::Kind::record:
      out.string(message.coordinator).raw(std::as_bytes(std::span(message.secret)));
      out.raw(encode(message.record));
      break;
    case LeaderMessage::Kind::go:
    case LeaderMessage::Kind::plan_change: break;
  }
  return out.take();
}

LeaderMessage decode_leader_message(std::span<const std::byte> bytes) {
  Reader in(bytes);
  LeaderMessage message;
  message.kind = in.enumerator<LeaderMessage::Kind>(kLeaderKinds, "a kind of message");
  message.generation = in.u64();
  switch (message.kind) {
    case LeaderMessage::Kind::stop: message.lost = in.u64(); [[fallthrough]];
    case LeaderMessage::Kind::out: message.why = in.string(kMostWhyBytes); break;
    case LeaderMessage::Kind::record: {
      message.coordinator = in.string(kMostCoordinatorBytes);
      const auto secret = in.raw(message.secret.size());
      std::memcpy(message.secret.data(), secret.data(), secret.size());
      message.record = decode_generation_record(in.raw(in.left()));
      break;
    }
    case LeaderMessage::Kind::go:
    case LeaderMessage::Kind::plan_change: break;
  }
  in.finish();
  return message;
}

Bytes encode(const MemberMessage& message) {
  Writer out;
  out.u8(static_cast<std::uint8_t>(message.kind));
  if (has_port(message.kind)) out.u64(message.port);
  if (has_generation(message.kind)) out.u64(message.generation);
  if (message.kind == MemberMessage::Kind::suspect) out.u64(message.peer);
  if (message.kind == MemberMessage::Kind::report) out.raw(encode(message.report));
  return out.take();
}

MemberMessage decode_member_message(std::span<const std::byte> bytes) {
  Reader in(bytes);
  MemberMessage message;
  message.kind = in.enumerator<MemberMessage::Kind>(kMemberKinds, "a kind of message");
  if (has_port(message.kind))
    message.port = static_cast<std::uint16_t>(in.below(std::size_t{1} << 16, "a port"));
  if (has_generation(message.kind)) message.generation = in.u64();
  if (message.kind == MemberMessage::Kind::suspect) message.peer = in.u64();
  if (message.kind == MemberMessage::Kind::report) message.report = decode_report(in.raw(in.left()));
  in.finish();
  return message;
}

LeaderMessage message_of(const LeaderAction& action) {
  using From = LeaderAction::Kind;
  using To = LeaderMessage::Kind;
  LeaderMessage message;
  message.generation = action.generation;
  switch (action.kind) {
    case From::stop: message.kind = To::stop; return message;
    case From::go: message.kind = To::go; return message;
    case From::plan_change: message.kind = To::plan_change; return message;
    case From::record:
      message.kind = To::record;
      message.record = action.record;
      return message;
    case From::out:
      message.kind = To::out;
      message.why = action.why;
      return message;
    case From::kill:
    case From::end_job: break;
  }
  throw Error(Code::internal, "this action of the leader is no message");
}

MemberMessage message_of(const MemberAction& action) {
  MemberMessage message;
  switch (action.kind) {
    case MemberAction::Kind::suspect:
      message.kind = MemberMessage::Kind::suspect;
      message.peer = action.peer;
      return message;
    case MemberAction::Kind::report:
      message.kind = MemberMessage::Kind::report;
      message.report = action.report;
      return message;
    case MemberAction::Kind::tell_formed:
      message.kind = MemberMessage::Kind::formed;
      message.generation = action.record.generation;
      return message;
    default: throw Error(Code::internal, "this action of a member is no message");
  }
}

Member::Actions deliver(Member& member, const LeaderMessage& message) {
  switch (message.kind) {
    case LeaderMessage::Kind::stop: return member.hear_stop(message.generation);
    case LeaderMessage::Kind::record: return member.hear_record(message.record);
    case LeaderMessage::Kind::go: return member.hear_go(message.generation);
    case LeaderMessage::Kind::out: return member.hear_out(message.why);
    case LeaderMessage::Kind::plan_change: break;
  }
  return {};
}

Leader::Actions deliver(Leader& leader, const MemberInfo& from, const MemberMessage& message, TimePoint now) {
  switch (message.kind) {
    case MemberMessage::Kind::join: return leader.join(from, now);
    case MemberMessage::Kind::step:
    case MemberMessage::Kind::beat: leader.hear_from(from.id, now); return {};
    case MemberMessage::Kind::suspect: return leader.suspect(from.id, message.peer, now);
    case MemberMessage::Kind::formed: return leader.formed(from.id, message.generation, now);
    case MemberMessage::Kind::leave: return leader.let_go(from.id, now);
    case MemberMessage::Kind::finish: return leader.finish(from.id, now);
    case MemberMessage::Kind::report: {
      Report report = message.report;
      report.member = from.id;
      return leader.report(report, now);
    }
  }
  return {};
}

}  // namespace hora::elastic
