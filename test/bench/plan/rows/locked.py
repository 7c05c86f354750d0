# SPDX-License-Identifier: Apache-2.0
from ..table import Row

ROW = Row(
    key="b11",
    title="a locked schedule",
    what="Steps without any control message.",
    experiments=lambda settings: [],
    views=lambda: [],
)
