"""What the rehearsal checks in the guest, and the page that says what was proved and what was not."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rehearse import Answer, Guest

VENV = "/opt/edgetrain"
EDGETRAIN = f"{VENV}/bin/edgetrain"
USER = "ada"
WINDOW_S = 0.43  # 512 conversions of three channels at 2 x 140 µs
HWMON = "/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon*"
CPU = "/sys/devices/system/cpu"
GPU = "/sys/devices/platform/bus@0/17000000.gpu"
# What the registers are set to (guest/board): millivolts x milliamperes, in steps of 8 mV and 20 mA.
RAILS_W = {"VDD_GPU_SOC_w": 19.0 * 1.6, "VDD_CPU_CV_w": 19.0 * 0.4, "VIN_SYS_5V0_w": 5.0 * 2.6}
TRAIN = """
import time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=16, num_workers=1):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        time.sleep(0.05)
"""
SETTINGS = (
    f"for f in {CPU}/cpu[1-9]*/online {CPU}/cpufreq/policy*/scaling_m*_freq {GPU}/devfreq/*/m??_freq "
    f"{CPU}/cpu*/cpuidle/state*/disable {HWMON}/samples; do echo $f $(cat $f 2>&1); done"
)


@dataclass(frozen=True)
class Result:
    """One check: what it proves, whether it holds, and the figures."""

    proves: str
    passed: bool
    detail: str


Check = Callable[[Guest], str]  # returns the figures; raises AssertionError where it does not hold
CHECKS: dict[str, tuple[str, Check]] = {}


def check(name: str, proves: str) -> Callable[[Check], Check]:
    """Add a check."""

    def add(function: Check) -> Check:
        CHECKS[name] = (proves, function)
        return function

    return add


def expect(true: bool, text: object) -> None:
    """Raise AssertionError with the reason where something does not hold."""
    if not true:
        raise AssertionError(str(text)[-700:])


def document(answer: Answer) -> dict[str, Any]:
    """Return the JSON document that a command printed."""
    expect(answer.status == 0, answer.text)
    found: dict[str, Any] = json.loads(answer.text[answer.text.index("{") :])
    return found


def settings_of(guest: Guest) -> dict[str, str]:
    """Return what every setting of the board reads now, by file; whatever else the line carried is left out."""
    lines = guest.run(SETTINGS).text.splitlines()
    return dict(line.split(" ", 1) for line in lines if line.startswith("/sys/") and " " in line)


def expect_as_before(before: dict[str, str], guest: Guest) -> None:
    """Raise AssertionError that names what differs from the settings read before."""
    after = settings_of(guest)
    changed = [
        f"{name} was {before.get(name)}, is {after.get(name)}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    expect(bool(before) and not changed, f"not as before: {'; '.join(changed) or 'no setting was read'}")


def prepare(guest: Guest) -> str:
    """Install the wheels in the guest, offline."""
    if guest.run(f"test -x {EDGETRAIN}").status == 0:
        return "installed before"
    guest.run(f"python3 -m venv {VENV}", 300)
    pip = f"{VENV}/bin/pip --disable-pip-version-check -q install --no-index --no-deps"
    done = guest.run(f"{pip} /opt/rehearse/wheels/*.whl && {EDGETRAIN} --version", 1500)
    expect(done.status == 0, done.text)
    guest.run(f"ln -sf {EDGETRAIN} /usr/local/bin/edgetrain; chmod 755 /root /opt")
    return done.text.strip().splitlines()[-1]


@check("install", "the wheel installs on aarch64, in the guest and offline, and starts")
def install(guest: Guest) -> str:
    version = prepare(guest)
    machine = guest.run("uname -m; uname -r").text.split()
    expect(machine[0] == "aarch64", machine)
    return f"{version} on {machine[0]}, kernel {machine[1]}"


@check(
    "doctor", "`doctor` works as root: board, rails, temperatures, clocks and controls are found through real drivers"
)
def doctor(guest: Guest) -> str:
    found = document(guest.run("edgetrain doctor --json", 600))
    device = found["device"]
    expect((device["name"], device["l4t"], device["jetpack"]) == ("orin-agx-64gb", "36.4.4", "6"), device)
    expect(found["power"]["columns"] == list(RAILS_W), found["power"])
    works = {finding["what"]: finding["works"] for finding in found["findings"]}
    for what in ("power per rail", "GPU load and clock", "temperatures", "power modes"):
        expect(works[what] is True, works)
    expect(works["memory clock and load"] is False, works)  # the emulator has no BPMP
    problems = [
        finding["detail"]
        for finding in found["findings"]
        if "9-0045" in finding["detail"] or "1-0045" in finding["detail"]
    ]
    expect(any("no label" in problem for problem in problems), found["findings"])
    return f"{device['name']}, L4T {device['l4t']}; {sum(value is True for value in works.values())} things work"


@check("user", "`doctor` and `modes list` work without root, where debugfs may not be entered")
def user(guest: Guest) -> str:
    found = document(guest.run("edgetrain doctor --json", 600, USER))
    expect(found["power"] is not None, found["power"])  # on this kernel every user may read hwmon
    listed = document(guest.run("edgetrain modes list --json", 300, USER))
    refused = guest.run("edgetrain modes set 2/729.6/612", 300, USER)
    expect(refused.status == 1 and "sudo" in refused.text, refused.text)
    return f"{listed['custom_modes']} custom modes listed; setting one is refused with the sudo line"


@check(
    "rails",
    "rails are right at NVIDIA's boot setting (512 samples, update_interval 430), read through the real ina3221 driver",
)
def rails(guest: Guest) -> str:
    guest.run(f"for h in {HWMON}; do echo 512 > $h/samples; echo 430 > $h/update_interval; done")
    shown = guest.run(f"cat {HWMON}/samples {HWMON}/update_interval").text.split()
    expect(shown[:2] == ["512", "1"], shown)  # the driver leaves the samples out and rounds
    power = document(guest.run("edgetrain doctor --json", 600))["power"]
    expect(abs(power["refresh_s"] - WINDOW_S) < 0.01, power)
    script = "import sys, json; from edgetrain.device import open_device; from pathlib import Path\n"
    script += "p = [p for p in open_device('jetson').probes() if p.name == 'rails'][0]\n"
    script += "print(json.dumps(dict(zip(p.columns, p.read()))))"
    guest.run(f"cat > /tmp/rails.py <<'PY'\n{script}\nPY")
    row = document(guest.run(f"{VENV}/bin/python /tmp/rails.py"))
    for column, watts in RAILS_W.items():
        expect(abs(row[column] - watts) <= 0.02 * watts + 0.4, row)
    return f"`update_interval` reads 1; edgetrain uses a window of {power['refresh_s']:.2f} s; " + ", ".join(
        f"{column[:-2]} {row[column]:.2f} W" for column in RAILS_W
    )


@check("sampler", "the sampler reads the rails once per averaging window, not without pause")
def sampler(guest: Guest) -> str:
    seconds = 60
    command = (
        f"mkdir -p /tmp/run && sleep {seconds} & {VENV}/bin/python -m edgetrain.sampling --run /tmp/run --device jetson"
    )
    guest.run(f"rm -rf /tmp/run; mkdir -p /tmp/run; {command} --watch-pid $! 2>/tmp/sampler.err", seconds + 120)
    account = document(guest.run("cat /tmp/run/sampler.json"))
    reads = account["per_probe"]["rails"]["reads"]
    expect(account["state"].startswith("ended"), account)
    expect(0.7 * seconds / WINDOW_S <= reads <= 1.2 * seconds / WINDOW_S + 5, account)
    return (
        f"{reads} readings in {account['wall_s']:.0f} s; all of sampling took {account['cpu_share']:.1%} of one "
        "emulated core"
    )


@check(
    "modes", "`modes set` and `restore` work on real cpufreq, devfreq and hotplug while a whole cluster goes offline"
)
def modes(guest: Guest) -> str:
    before = settings_of(guest)
    done = document(guest.run("edgetrain modes set 2/729.6/612 --json", 300))
    now = done["now"]
    expect((now["cores"], now["cpu_hz"], now["gpu_hz"]) == (2, 729_600_000, 612_000_000), done)
    online = guest.run(f"cat {CPU}/online").text.strip()
    busy = guest.run(f"cat {CPU}/cpufreq/policy2/scaling_max_freq")
    expect(online == "0-1" and busy.status != 0 and "busy" in busy.text, online + busy.text)
    held = guest.run(f"cat {CPU}/cpufreq/policy0/scaling_m??_freq {GPU}/devfreq/*/m??_freq").text.split()
    expect(held == ["729600", "729600", "612000000", "612000000"], held)
    document(guest.run("edgetrain modes restore --json", 300))
    expect_as_before(before, guest)
    return f"{len(done['writes'])} values written and read back; policy2 answered EBUSY while offline; all as before"


@check("offline", "a cluster that was offline before is set with the rest and has its own clocks back afterwards")
def offline(guest: Guest) -> str:
    clock = f"{CPU}/cpufreq/policy2/scaling_max_freq"
    guest.run(f"echo 1190400 > {clock}; echo 0 > {CPU}/cpu2/online; echo 0 > {CPU}/cpu3/online")
    document(guest.run("edgetrain modes set 4/729.6/612 --json", 300))
    expect(guest.run(f"cat {clock}").text.strip() == "729600", "the cluster was not set")
    document(guest.run("edgetrain modes restore --json", 300))
    expect(guest.run(f"cat {CPU}/online").text.strip() == "0-1", "the cluster is not offline again")
    guest.run(f"echo 1 > {CPU}/cpu2/online; echo 1 > {CPU}/cpu3/online")
    found = guest.run(f"cat {clock}").text.strip()
    guest.run(f"echo 2201600 > {clock}")
    expect(found == "1190400", found)
    return "its maximum of 1190.4 MHz, unreadable at the start, was learned when it came online and restored"


@check("sudo", "a user sets modes through edgetrain-control and real sudo, and a killed caller's board is put back")
def sudo(guest: Guest) -> str:
    before = settings_of(guest)
    expect(guest.run("edgetrain modes install-control").status == 0, "not installed")
    findings = document(guest.run("edgetrain doctor --json", 600, USER))["findings"]
    fixes = [finding["fix"] for finding in findings if "edgetrain-control" in finding["what"]]
    expect(len(fixes) == 1 and "NOPASSWD" in fixes[0], fixes)
    line = re.findall(r"echo '(.*?)'", fixes[0])[0]
    expect(line == f"{USER} ALL=(root) NOPASSWD: /usr/local/sbin/edgetrain-control session", line)
    guest.run("chmod 777 /usr/local/sbin")
    unsafe = [
        f
        for f in document(guest.run("edgetrain doctor --json", 600, USER))["findings"]
        if "edgetrain-control" in f["what"]
    ]
    guest.run("chmod 755 /usr/local/sbin")
    expect("NOPASSWD" not in str(unsafe), unsafe)
    guest.run(f"echo '{line}' > /etc/sudoers.d/edgetrain; chmod 440 /etc/sudoers.d/edgetrain")
    document(guest.run("edgetrain modes set 2/729.6/612 --json", 300, USER))
    expect(guest.run(f"cat {CPU}/online").text.strip() == "0-1", "the mode is not in force")
    document(guest.run("edgetrain modes restore --json", 300, USER))
    expect_as_before(before, guest)
    script = "import time; from edgetrain.device import ModeRequest, open_device\nd = open_device('jetson')\n"
    script += "with d.control().hold(ModeRequest(d.modes().find_mode('2/729.6/612'))):\n"
    script += "    print('held', flush=True); time.sleep(600)\n"
    guest.run(f"cat > /tmp/hold.py <<'PY'\n{script}\nPY\nchmod 644 /tmp/hold.py")
    start = f"su - {USER} -c '{VENV}/bin/python /tmp/hold.py' > /tmp/hold.out 2>&1 &"
    guest.run(f"{start} while ! grep -q held /tmp/hold.out; do sleep 1; done", 120)
    expect(guest.run(f"cat {CPU}/online").text.strip() == "0-1", "the mode is not held")
    guest.run("pkill -9 -f /tmp/hold.py; sleep 15")
    expect_as_before(before, guest)  # the killed caller's board was put back
    return "set, restored, and put back within 15 s of `kill -9`; no sudoers line while others can write the folder"


@check(
    "hot", "heat is recognised: throttling is reported, `set` says why it fails, and the thermal cap is not restored"
)
def hot(guest: Guest) -> str:
    before = settings_of(guest)
    heat = "temp() { v=$(($2 * 256)); i2cset -f -y 1 $1 0 $(( ((v & 255) << 8) | (v >> 8 & 255) )) w; }"
    guest.run(f"{heat}; temp 0x48 105; temp 0x49 105; sleep 12")
    states = guest.run("for d in /sys/class/thermal/cooling_device*; do echo $(cat $d/type $d/cur_state); done").text
    capped = guest.run(f"cat {CPU}/cpufreq/policy0/scaling_max_freq").text.strip()
    expect(int(capped) < 2_201_600 and re.search(r"cpufreq\S* [1-9]", states) is not None, states + capped)
    refused = guest.run("edgetrain modes set 4/2201.6/612", 300)
    expect(refused.status == 1 and "throttling" in refused.text and "cool" in refused.text, refused.text)
    low = guest.run("edgetrain modes set 4/115.2/306 --json", 300)
    expect(low.status == 0, low.text)
    guest.run(f"{heat}; temp 0x48 45; temp 0x49 43; sleep 12")
    document(guest.run("edgetrain modes restore --json", 300))
    expect_as_before(before, guest)
    mhz = int(capped) / 1000
    return f"at 105 °C the kernel capped the CPU at {mhz:g} MHz; the snapshot taken then restored 2201.6 MHz"


@check("profile", "`profile` records an unmodified torch script, with energy from the real driver's rails")
def profile(guest: Guest) -> str:
    guest.run(f"cat > /home/{USER}/train.py <<'PY'\n{TRAIN}\nPY")
    done = guest.run(f"edgetrain profile -- {VENV}/bin/python train.py", 900, USER)
    expect(done.status == 0, done.text)
    summary = document(guest.run("edgetrain show last --json", 300, USER))
    counts = [epoch["minibatches"] for epoch in summary["epochs"]]
    expect(summary["state"] == "finished" and counts == [16, 16], counts)
    watts, whole = summary["power_w"]["median"], sum(RAILS_W.values())
    expect(abs(watts - whole) < 0.05 * whole, summary["power_w"])
    energy = sum(epoch["energy_j"] for epoch in summary["epochs"])
    return (
        f"32 minibatches, {watts:.1f} W (registers: {whole:.1f} W), {energy:.0f} J in {len(summary['epochs'])} epochs"
    )


def run_all(guest: Guest, only: str = "") -> list[Result]:
    """Run the checks; every one is tried."""
    results = []
    for name, (proves, function) in CHECKS.items():
        if only and only not in name and name != "install":
            continue
        print(f"rehearse: {name} ...", flush=True)
        try:
            results.append(Result(proves, True, function(guest)))
        except (AssertionError, TimeoutError, KeyError, ValueError) as error:
            results.append(Result(proves, False, f"{type(error).__name__}: {error}"))
        print(f"rehearse: {name}: {'yes' if results[-1].passed else 'NO'}, {results[-1].detail}", flush=True)
    return results


PAGE = """# Rehearsal on an emulated AGX Orin

{verdict}

QEMU emulates the processor; Debian's arm64 kernel ({release}) runs its own `ina3221`, `ina238`, `lm75`, thermal,
`cpufreq-dt`, devfreq and CPU hotplug code on a device tree that says AGX Orin. The i2c bus below the power monitors and
the GPU behind devfreq are simulated (`tools/rehearse/kmod`). Booted in {boot_s:.0f} s.

| proved | holds | figures |
|---|---|---|
{rows}

Not proved, because the emulator has no such thing: the memory clock (BPMP, EMC caps), nvpmodel and its masks,
jetson_clocks, tegrastats, the fan and nvfancontrol, CUDA and the GPU's real clocks and load, NVIDIA's kernels (5.10,
5.15, 6.8), JetPack's own Python and torch, zones that answer EAGAIN, over-current counters. Times here say nothing
about a board: the processor is emulated.

`make rehearse`, {date}.
"""


def page(results: list[Result], boot_s: float, release: str) -> str:
    """Return the results page."""
    failed = [result for result in results if not result.passed]
    held = len(results) - len(failed)
    verdict = f"**{held} of {len(results)} checks hold on real kernel drivers; no real board was used.**"
    lines = []
    for result in results:
        detail = " ".join(result.detail.split())[:300].replace("|", "/")
        lines.append(f"| {result.proves} | {'yes' if result.passed else '**no**'} | {detail} |")
    rows = "\n".join(lines)
    date = datetime.date.today().isoformat()
    return PAGE.format(verdict=verdict, release=release, boot_s=boot_s, rows=rows, date=date)
