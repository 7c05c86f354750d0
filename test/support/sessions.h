// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/handshake.h"

#include <utility>

namespace hora {

/// The keys of a guest and of its host after a handshake: what one sends, the other receives.
inline std::pair<SessionKeys, SessionKeys> make_sessions() {
  Guest guest(Secret{1}, {});
  Host host(Secret{1});
  auto proof = guest.prove(host.answer(guest.hello()));
  SessionKeys at_host = host.check(proof.bytes);
  return {std::move(proof.session), std::move(at_host)};
}

}  // namespace hora
