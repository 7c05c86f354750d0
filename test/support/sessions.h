// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/join/handshake.h"

#include <utility>

namespace hora {

/// The keys of a guest and of its host after a handshake: each receives the frames that the other sends.
inline std::pair<SessionKeys, SessionKeys> make_sessions() {
  Guest guest(Secret{1}, {});
  Host host(Secret{1});
  auto proof = guest.prove(host.answer(guest.hello()));
  SessionKeys at_host = host.check(proof.bytes);
  return {std::move(proof.session), std::move(at_host)};
}

}  // namespace hora
