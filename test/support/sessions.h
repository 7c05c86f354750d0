// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/join/handshake.h"

#include <utility>

namespace hora {

/// The keys of an initiator and of its responder after a handshake: each receives the frames that the other
/// sends.
inline std::pair<SessionKeys, SessionKeys> make_sessions() {
  Initiator initiator(Secret{1}, {});
  Responder responder(Secret{1});
  auto proof = initiator.prove(responder.answer(initiator.hello()));
  SessionKeys at_responder = responder.check(proof.bytes);
  return {std::move(proof.session), std::move(at_responder)};
}

}  // namespace hora
