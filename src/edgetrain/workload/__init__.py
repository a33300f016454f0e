"""Networks, datasets and the training loop; runs in a child process and is the only home of torch.

Other rooms use `catalog` (what can be trained, without torch), `generate` (datasets of the right shape) and
`datasets.inventory` (what lies in a dataset's folder). The training itself is a program, `python -m
edgetrain.workload --run DIR`, so that what it needs and what it breaks stay in a process of their own.
"""

import os

# A storage medium emulated without root: reads of the dataset wait here, in every process that opens its files.
if os.environ.get("EDGETRAIN_READ_BUCKET"):
    from edgetrain.lab import bucket

    bucket.install()
