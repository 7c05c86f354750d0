// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hora::bench {

/// Tells how near each other the machine's first two processors are at this moment, which a hypervisor may
/// change at any time: prints, as a line of JSON, the time of a flag's round trip between two
/// processes, and how fast what one has written is read by the other. Takes about 50 ms.
void print_fingerprint();

}  // namespace hora::bench
