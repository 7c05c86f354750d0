// SPDX-License-Identifier: Apache-2.0
#include "core/watch/account.h"

#include "core/base/bytes.h"
#include "core/base/ordinal.h"
#include "core/negotiate/message.h"
#include "core/watch/duration_field.h"

#include <fmt/format.h>

namespace hora {
namespace {

constexpr std::size_t kMostStackBytes = 4 * 1024;

}  // namespace

std::string describe(const Account& account) {
  std::string text =
      account.last.empty()
          ? "it has finished no operation"
          : fmt::format("it finished '{}' {:.1f} s ago, the {} of its operations", account.last,
                        std::chrono::duration<double>(account.since_last).count(), ordinal(account.finished));
  const char* gap = account.stack.starts_with(' ') ? ":\n" : " ";
  if (!account.stack.empty()) text += fmt::format(", and its main thread is at{}{}", gap, account.stack);
  return text;
}

Bytes encode(const Account& account) {
  Writer out;
  out.u64(account.finished).string(account.last);
  write(out, account.since_last);
  out.string(shortened(account.stack, kMostStackBytes));
  return out.take();
}

Account decode_account(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Account account;
  account.finished = in.u64();
  account.last = in.string(kMostNameBytes);
  account.since_last = read_time(in);
  account.stack = in.string(kMostStackBytes);
  in.finish();
  return account;
}

Bytes encode(const Delay& delay) {
  Writer out;
  out.string(shortened(delay.name, kMostNameBytes));
  write(out, delay.time);
  return out.take();
}

Delay decode_delay(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Delay delay;
  delay.name = in.string(kMostNameBytes);
  delay.time = read_time(in);
  in.finish();
  return delay;
}

}  // namespace hora
