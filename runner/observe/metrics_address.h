// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <cstdint>
#include <string>

namespace hora::hrun {

/// Where hrun serves metrics (--metrics). A value.
struct MetricsAddress {
  std::string path;        ///< of a local socket, if not empty
  std::string loopback{};  ///< else this address, 127.0.0.1 or ::1,
  std::uint16_t port = 0;  ///< and this port; 0: any that is free

  bool operator==(const MetricsAddress&) const = default;
};

/// "unix:/path", "9400", "127.0.0.1:9400", "localhost:9400" or "[::1]:9400". Throws Error(invalid_argument)
/// that says what is accepted, and of another machine's address why not.
[[nodiscard]] MetricsAddress parse_metrics_address(const std::string& text);

/// A socket that listens as long as this lives.
class MetricsSocket {
 public:
  /// A local socket's file is for this user alone; one that a killed hrun has left is replaced. Throws
  /// Error(unavailable) with the address and the system's reason.
  explicit MetricsSocket(const MetricsAddress& address);
  /// Removes the file.
  ~MetricsSocket();
  MetricsSocket(const MetricsSocket&) = delete;
  MetricsSocket& operator=(const MetricsSocket&) = delete;

  /// To be taken once.
  [[nodiscard]] Descriptor take() { return std::move(listener_); }
  /// Where it listens: "127.0.0.1:9400", "unix:/path".
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  void listen_at_path(const std::string& path);
  void listen_on_loopback(const MetricsAddress& address);

  std::string path_;  // to be removed
  std::string address_;
  Descriptor listener_;
};

}  // namespace hora::hrun
