// SPDX-License-Identifier: Apache-2.0
#include "core/join/secret.h"

#include <hora/status.h>

#include <sodium.h>

namespace hora {

Secret new_secret() {
  if (::sodium_init() < 0)
    throw Error(Code::unavailable, "libsodium cannot start: the system gives no random numbers");
  Secret secret;
  randombytes_buf(secret.data(), secret.size());
  return secret;
}

}  // namespace hora
