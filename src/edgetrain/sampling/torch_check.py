"""Whether a Python can train here: torch, a real kernel on the GPU, NumPy and Pillow, tried in a process of its own.

A list of architectures proves nothing: builds without sm_87 in theirs run on Orin, and others with it fail. One kernel
that runs is the proof.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from edgetrain.schema import Finding

TIME_LIMIT_S = 120
# What to do, not where it is written: a wheel has no documents.
JETSON_TORCH = (
    "install the torch wheel that NVIDIA publishes for this JetPack (developer.nvidia.com: PyTorch for Jetson), or "
    "train in NVIDIA's container: edgetrain profile -- docker run --runtime nvidia IMAGE python train.py"
)
# Python 3.6 syntax: JetPack 4's own Python may be asked, too.
SCRIPT = """
import json, sys
found = {"python": sys.version.split()[0]}
try:
    import torch
    found.update(torch=torch.__version__, cuda=torch.version.cuda, gpus=[])
    if torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        found["capability"] = "%d.%d" % torch.cuda.get_device_capability(0)
        try:
            a = torch.ones(64, 64, device="cuda")
            torch.cuda.synchronize()
            found["kernel"] = float((a @ a).relu().sum()) == 64.0 ** 3
        except Exception as error:
            found["kernel_error"] = str(error).strip().splitlines()[0]
    try:
        torch.ones(1).numpy()
    except Exception as error:
        found["numpy_error"] = str(error).strip().splitlines()[0]
except Exception as error:
    found["error"] = "%s: %s" % (type(error).__name__, error)
try:
    import PIL
    found["pillow"] = PIL.__version__
except Exception:
    found["pillow"] = None
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class TorchFacts:
    """What a Python said about torch; None where it said nothing."""

    python: str | None = None
    error: str | None = None  # torch cannot be imported
    torch: str | None = None
    cuda: str | None = None
    gpus: tuple[str, ...] = ()
    capability: str | None = None
    kernel: bool | None = None  # whether a kernel ran and gave the right sum
    kernel_error: str | None = None
    numpy_error: str | None = None
    pillow: str | None = None


def ask(python: str) -> TorchFacts | None:
    """Ask a Python; None where it did not answer in time."""
    try:
        ran = subprocess.run([python, "-c", SCRIPT], capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        return TorchFacts(error=str(error))
    lines = ran.stdout.strip().splitlines()
    try:
        answer = json.loads(lines[-1])
        answer["gpus"] = tuple(answer.get("gpus", ()))
        return TorchFacts(**answer)
    except (ValueError, TypeError, IndexError):
        return TorchFacts(error=ran.stderr.strip()[-300:] or "no answer")


def torch_findings(python: str, on_jetson: bool | None = None) -> list[Finding]:
    """Return what training with this Python would meet."""
    jetson = os.path.exists("/etc/nv_tegra_release") if on_jetson is None else on_jetson
    facts = ask(python)
    if facts is None:
        return [Finding("training", "torch", None, f"{python} did not answer within {TIME_LIMIT_S} s")]
    return judge(python, facts, jetson)


def judge(python: str, facts: TorchFacts, jetson: bool) -> list[Finding]:
    """Return findings from what a Python said; on a Jetson never advise to replace NVIDIA's torch with another."""
    if facts.error is not None:
        detail = f"{python} cannot import it ({facts.error})"
        return [Finding("training", "torch", False, detail, JETSON_TORCH if jetson else "make setup")]
    found = [Finding("training", "torch", True, f"{facts.torch} (Python {facts.python})"), _gpu(facts, jetson)]
    if facts.numpy_error is not None:
        detail = f"torch cannot use the NumPy beside it ({facts.numpy_error}): NVIDIA's wheels need NumPy 1"
        found.append(Finding("training", "NumPy", False, detail, f"{python} -m pip install 'numpy<2'"))
    if not facts.pillow:
        fix = f"{python} -m pip install Pillow"
        found.append(Finding("training", "Pillow", False, "JPEG datasets need Pillow", fix))
    return found


def _gpu(facts: TorchFacts, jetson: bool) -> Finding:
    if facts.kernel:
        return Finding("training", "CUDA", True, f"{facts.cuda}: a kernel ran on {', '.join(facts.gpus)}")
    if facts.gpus:
        why = facts.kernel_error or "its result is wrong"
        seen = f"{facts.gpus[0]} (compute capability {facts.capability})"
        detail = f"torch {facts.torch} sees {seen} but runs no kernel: {why}"
        fix = JETSON_TORCH if jetson else f"a torch build for compute capability {facts.capability} and this driver"
        return Finding("training", "CUDA", False, detail, fix)
    if facts.cuda:
        detail = f"torch is built for CUDA {facts.cuda} but sees no GPU"
        fix = JETSON_TORCH if jetson else "nvidia-smi   # does the driver see one?"
        return Finding("training", "CUDA", False, detail, fix)
    if jetson or any(Path("/dev").glob("nvidia[0-9]*")) or os.path.exists("/dev/nvhost-gpu"):
        detail = "there is a GPU, but this torch is built without CUDA"
        return Finding("training", "CUDA", False, detail, JETSON_TORCH if jetson else "a torch build with CUDA")
    return Finding("training", "CUDA", None, "no NVIDIA GPU here: training runs on the CPU")
