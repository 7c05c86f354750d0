# SPDX-License-Identifier: Apache-2.0
from ..table import Row

ROW = Row(
    key="b12",
    title="10,000 simulated ranks",
    what="The controller over a simulated network.",
    experiments=lambda settings: [],
    views=lambda: [],
)
