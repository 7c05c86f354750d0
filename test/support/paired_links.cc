// SPDX-License-Identifier: Apache-2.0
#include "test/support/paired_links.h"

#include "core/base/socket_io.h"
#include "test/support/sessions.h"

#include <sys/socket.h>

#include <array>
#include <deque>
#include <set>
#include <utility>

namespace hora {
namespace {

class PairedLinks final : public tcp::Links {
 public:
  PairedLinks(int rank, int ranks) : rank_(rank), lines_(static_cast<std::size_t>(ranks)) {}

  void add(int peer, int fd, SessionKeys keys, const std::string& encryption) {
    Connection connection{Descriptor(fd), std::move(keys)};
    tcp::DataSocket socket = tcp::make_data_socket(connection, encryption);
    owned_.push_back({std::move(socket), std::move(connection.session)});
    lines_[static_cast<std::size_t>(peer)].push_back(&owned_.back());
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return static_cast<int>(lines_.size()); }
  void require(std::span<const int> peers) override { required_.insert(peers.begin(), peers.end()); }
  [[nodiscard]] std::span<tcp::DataLine* const> lines(int peer) const override {
    if (!required_.contains(peer)) throw Error(Code::internal, "a peer that was not required");
    return lines_[static_cast<std::size_t>(peer)];
  }
  void abort(const Status& /*why*/) noexcept override {
    for (const auto& line : owned_) ::shutdown(line.socket.fd(), SHUT_RDWR);
  }

  [[nodiscard]] int count_required() const { return static_cast<int>(required_.size()); }

 private:
  int rank_;
  std::vector<std::vector<tcp::DataLine*>> lines_;
  std::deque<tcp::DataLine> owned_;
  std::set<int> required_;
};

}  // namespace

std::vector<std::shared_ptr<tcp::Links>> paired_links(int ranks, int streams, const std::string& encryption) {
  std::vector<std::shared_ptr<PairedLinks>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_shared<PairedLinks>(rank, ranks));
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      for (int stream = 0; stream < streams; ++stream) {
        std::array<int, 2> ends{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
          throw Error(Code::unavailable, "no pair of sockets");
        auto [keys_of_a, keys_of_b] = make_sessions();
        all[static_cast<std::size_t>(a)]->add(b, ends[0], std::move(keys_of_a), encryption);
        all[static_cast<std::size_t>(b)]->add(a, ends[1], std::move(keys_of_b), encryption);
      }
    }
  }
  return {all.begin(), all.end()};
}

int count_required(const tcp::Links& links) {
  return dynamic_cast<const PairedLinks&>(links).count_required();
}

}  // namespace hora
