"""`python -m tests.shared_parts FOLDER WORD...`: `python -m lps WORD...` that notes the parts it computes of a result.

A line of FOLDER/parts.txt is the task of a SLURM array and a part that it begins. Task 1 never ends its first part; the
others end theirs when FOLDER/go exists.
"""

import os
import sys
import time
from pathlib import Path

from lps.__main__ import main
from lps.files import shared_work

if __name__ == "__main__":
    folder, task, compute_parts = Path(sys.argv[1]), os.environ["SLURM_ARRAY_TASK_ID"], shared_work.compute_parts

    def compute_noted(home, names, is_done, compute_part, *more):
        def compute(name: str) -> bool:
            with open(folder / "parts.txt", "a") as file:
                file.write(f"{task} {name}\n")
            while task == "1" or not (folder / "go").exists():
                time.sleep(0.05)
            return compute_part(name)

        return compute_parts(home, names, is_done, compute, *more)

    shared_work.compute_parts = compute_noted
    sys.exit(main(sys.argv[2:]))
