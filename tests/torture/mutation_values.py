"""What mutations are made of: a plan, commands with every value given, and values that are wrong somewhere."""

ESCAPES = ("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\rb", "\x9b2J", "\u202eevil", "a\x00b", "tab\tb", "\x7f")
NOT_FINITE = ("nan", "inf", "-inf", "1e999", "NaN", "Infinity")
WORDS = (
    "",
    " ",
    "-",
    "--",
    "none",
    "null",
    "true",
    "[]",
    "{}",
    "0x10",
    "1e3",
    "1,5",
    "١٢",
    "１２",
    "½",
    "../../..",
    "/dev/null",
    "a" * 5000,
    "🚂",
    "\ud83d",
    "*",
    "%s%n",
    "$(id)",
    "'",
    '"',
    "a:b:c",
    "=1+1",
    "sim:",
    "sim:orin-agx?unit=x",
)
NUMBERS = ("-1", "0", "-0.0", "1e-300", "0.5", "99999999999999999999", "1e300", "-1e18", "3.7")

YAML = (
    ".nan",
    ".inf",
    "-.inf",
    "1e999",
    "!!python/object:os.system x",
    "&a [*a]",
    "*a",
    "2026-01-01",
    "~",
    "1_000",
    "0o17",
    "1:30:00",
    "!!binary aGk=",
    "!!set {a, b}",
    "<<: 1",
)
LINES = (
    "wrokers: 2",
    "? x",
    "---",
    "%YAML 9",
    "\ttab: 1",
    "1: 2",
    "~: 1",
    "command: [sleep, '{a}']",
    "folders: {sd: /nowhere}",
    "preset: nothing",
    "storage: floppy",
    "ram: -4GiB",
)
JSON_VALUES = (
    None,
    True,
    -1,
    0,
    10**25,
    1e300,
    float("nan"),
    float("inf"),
    0.5,
    [],
    {},
    [[]],
    {"a": {}},
    "",
    "x" * 5000,
    "edgetrain/99",
    "nan",
    "\ud800",
)

PLAN = """
name: grid
network: lenet5
device: sim:orin-agx
epochs: 1
minibatches: 4
batch_size: 16
learning_rate: 0.01
baseload_s: 1
cache: cold
repeats: 2
order: random
seed: 3
factors:
  workers: [0, 2]
  power_mode: [12/2201.6/1300.5/3199, MODE_30W]
points:
  - {workers: 1, prefetch: 4}
settle:
  wait_s: 5
"""

SIM = ("--device", "sim:orin-agx")
COMMANDS: tuple[tuple[str, ...], ...] = (
    (
        "run",
        "lenet5",
        *SIM,
        "--epochs",
        "1",
        "--minibatches",
        "3",
        "--workers",
        "1",
        "--prefetch",
        "2",
        "--batch-size",
        "16",
        "--dataset-scale",
        "0.1",
        "--learning-rate",
        "0.1",
        "--momentum",
        "0.5",
        "--seed",
        "1",
        "--power-mode",
        "MODE_30W",
        "--ram",
        "4GiB",
        "--storage",
        "sd",
        "--cache",
        "cold",
        "--timing",
        "sync",
        "--optimizer",
        "adam",
        "--classes",
        "10",
    ),
    ("ls", "--network", "lenet5", "--campaign", "x", "-n", "3"),
    ("show", "last", "--store", "{store}"),
    ("compare", "{first}", "vs", "{second}", "--seed", "1"),
    ("export", "last", "--csv", "-o", "{folder}/export"),
    ("report", "last", "-o", "{folder}/report.html", "--title", "x"),
    ("prune", "--older-than", "30d", "--state", "failed", "--keep", "1", "--dry-run"),
    ("modes", "set", "MODE_30W", *SIM, "--sensor-samples", "16", "--dry-run"),
    ("modes", "list", *SIM),
    ("baseload", *SIM, "--seconds", "2", "--wake-on-lan-w", "1", "--dry-run"),
    ("devices", "--fits", "lenet5", "--batch-size", "16", "--workers", "2", "--device", "nano", "--momentum", "0.9"),
    ("data", "lenet5", "--dataset-scale", "0.01", "--seed", "1", "-o", "{folder}/data", "--dry-run"),
    (
        "lab",
        "up",
        "--storage",
        "sd",
        "--page-cache",
        "1GB",
        "--cores",
        "1",
        "--cpu-share",
        "0.5",
        "--shrink",
        "2",
        "--dry-run",
    ),
    ("predict", "plan", "--device", "nano", "--count", "3", "--seed", "1", "--minibatch-ms", "20", "--prior", "none"),
    (
        "recommend",
        "--profiled",
        "{table}",
        "--modes",
        "{table}",
        "--max-power-w",
        "20",
        "--max-time-s",
        "100",
        "--confidence",
        "80",
        "--minibatches",
        "100",
        "--epochs",
        "3",
        "--baseload-w",
        "5",
        "--period",
        "24h",
        "--battery-wh",
        "50",
        "--switch-s",
        "1",
        "--max-cores",
        "8",
        "--between",
        "off",
        "--minimise",
        "energy",
        "--max-energy-j",
        "10000",
    ),
    ("sensitivity", "{table}", "--level", "0.9"),
    (
        "choose-device",
        "lenet5",
        "--samples",
        "1000",
        "--file-size",
        "100kB",
        "--epochs",
        "2",
        "--deadline",
        "2h",
        "--batch-size",
        "16",
        "--max-price-usd",
        "500",
    ),
    ("import", "{table}", "--interval-s", "0.5", "--network", "x", "--device", "orin-agx", "--window", "5:"),
    ("reproduce", "hipc", "--quick", "--section", "workers", "--dry-run"),
    ("campaign", "{plan}", *SIM, "--dry-run"),
    ("evaluate", "{table}", "--profile", "5", "--seeds", "1", "--confidence", "80"),
)
# A large number is a legitimate wish here, and would take its time.
LONG = ("--epochs", "--minibatches", "--dataset-scale", "--seconds", "--samples", "--count", "--seeds", "-n", "--keep")
