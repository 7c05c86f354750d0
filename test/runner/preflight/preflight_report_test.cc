// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/preflight_report.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

HostFacts host(const std::string& name, const std::string& address, int speed) {
  return {name, 4,      std::uint64_t{3} << 30, "0.1.0", "4 ranks share memory", {{address, "eth0", speed}},
          4000, "token"};
}

const std::vector<HostFacts> kHosts{host("a", "10.1.0.1", 10'000), host("b", "10.1.0.2", 10'000),
                                    host("c", "10.1.0.3", 0)};

TEST(PreflightReport, ShowsHostsAndLinks) {
  const std::vector<LinkFacts> links{{1, 0, "", "10.1.0.2", "10.1.0.1", {61.4, 1180, 1175}},
                                     {2, 0, "", "10.1.0.3", "10.1.0.1", {50, 1200, 1200}}};
  EXPECT_EQ(
      report(kHosts, links),
      "hosts\n"
      "  a: 4 cores, 3.0 GiB, Hora 0.1.0\n"
      "    10.1.0.1 (eth0, 10 Gb/s)\n"
      "    4 ranks share memory\n"
      "  b: 4 cores, 3.0 GiB, Hora 0.1.0\n"
      "    10.1.0.2 (eth0, 10 Gb/s)\n"
      "    4 ranks share memory\n"
      "  c: 4 cores, 3.0 GiB, Hora 0.1.0\n"
      "    10.1.0.3 (eth0)\n"
      "    4 ranks share memory\n"
      "links\n"
      "  b - a: 61 us, 1180 MB/s there, 1175 MB/s back; 10.1.0.2 (eth0, 10 Gb/s) - 10.1.0.1 (eth0, 10 Gb/s)\n"
      "  c - a: 50 us, 1200 MB/s there, 1200 MB/s back; 10.1.0.3 (eth0) - 10.1.0.1 (eth0, 10 Gb/s)\n"
      "every host reaches every other\n");
  EXPECT_TRUE(all_reached(links));
}

TEST(PreflightReport, WarnsOfLinksThatCarryLessThanHalfOfWhatTheySay) {
  const std::string text = report(kHosts, {{1, 0, "", "10.1.0.2", "10.1.0.1", {61, 400, 1175}}});
  EXPECT_NE(text.find("    warning: 400 MB/s from b to a are 32 % of the link's 10 Gb/s\n"),
            std::string::npos);
  EXPECT_EQ(text.find("from a to b"), std::string::npos);
}

TEST(PreflightReport, NamesWhoCannotReachWhom) {
  const std::vector<LinkFacts> links{{1, 0, "10.1.0.1:4000: Connection refused", "", "", {}},
                                     {2, 0, "", "", "", {}}};
  const std::string text = report(kHosts, links);
  EXPECT_NE(text.find("  b cannot reach a: 10.1.0.1:4000: Connection refused\n"), std::string::npos);
  EXPECT_NE(text.find("1 of 2 pairs of hosts do not reach each other\n"), std::string::npos);
  EXPECT_FALSE(all_reached(links));
}

TEST(PreflightReport, TravelsAsBytes) {
  EXPECT_EQ(decode_host(encode(kHosts[0])), kHosts[0]);
  const std::vector<LinkFacts> links{{1, 0, "", "10.1.0.2", "10.1.0.1", {61.4, 1180, 1175}}};
  EXPECT_EQ(decode_links(encode(links), 2), links);
  EXPECT_THROW(static_cast<void>(decode_links(encode(links), 1)), Error);
  EXPECT_THROW(static_cast<void>(decode_host(Bytes(3))), Error);
}

}  // namespace
}  // namespace hora::hrun
