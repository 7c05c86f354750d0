// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwy/cache_control.h>

namespace hora {

/// Between two looks at a word that another core is going to write: saves energy, and leaves more to the
/// core's other thread.
inline void pause_briefly() { hwy::Pause(); }

}  // namespace hora
