# SPDX-License-Identifier: Apache-2.0
"""Hello: every rank says who it is, and all ranks add up an array. NumPy only.

    hrun -np 2 python examples/02_hello.py

Expected output (the ranks' lines in any order):
    [0] rank 0 of 2 says hello
    [1] rank 1 of 2 says hello
    [0] the sum over all ranks is [3. 3. 3.]
"""

import hora
import numpy as np

hora.init()  # without hrun: rank 0 of 1
print(f"rank {hora.rank()} of {hora.size()} says hello", flush=True)

total = hora.allreduce(np.full(3, hora.rank() + 1.0), op=hora.Sum)
if hora.rank() == 0:
    print(f"the sum over all ranks is {total}")
