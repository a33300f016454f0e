"""The commands: their names, the groups `--help` shows them in, and the modules that hold them.

Only this table is read for `--help`; a command's module is loaded when the command is used, because loading all of them takes
most of a second.
"""

from __future__ import annotations

from dataclasses import dataclass

PANELS = {
    "measure": "Measure: record a training and see where its time and energy go",
    "explain": "Explain: what limits a training, and what each remedy would bring",
    "improve": "Improve: the best setting within limits",
    "predict": "Predict: settings that were not tried",
    "lab": "Lab: this machine limited like a smaller one, and series of experiments",
    "boards": "Boards: devices and their power modes",
    "fleet": "Fleet: many boards at once",
    "show": "Show: pages and figures",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One command. Its help is the first line of its function's docstring; a test compares the two."""

    name: str
    module: str
    panel: str
    help: str


COMMANDS = (
    Entry("quickstart", "quickstart", "measure", "Characterise this machine: train two networks with 0, 1 and 2 loader workers, and write a report."),
    Entry("doctor", "doctor", "measure", "What can be measured and set here, what is missing, and how to get it."),
    Entry("run", "run", "measure", "Train a network and see where the seconds and joules went, epoch by epoch."),
    Entry("data", "data", "measure", "Generate a dataset of the published size and shape, for `run` and your own scripts."),
    Entry("profile", "profile", "measure", "See where the time of your own training script goes; nothing in it needs to change."),
    Entry("ls", "ls", "measure", "List the recorded runs, oldest first."),
    Entry("show", "show", "measure", "See where the seconds and joules of one run went, epoch by epoch, and what makes the numbers doubtful."),
    Entry("compare", "compare", "measure", "Decide whether two settings really differ, from repeated runs of each."),
    Entry("export", "export", "measure", "Write a run for spreadsheets, notebooks, trace viewers and Prometheus."),
    Entry("import", "import_", "measure", "Convert logs of other tools into runs, for show, compare and report."),
    Entry("rm", "rm", "measure", "Delete recorded runs permanently."),
    Entry("prune", "rm", "measure", "Delete all recorded runs that fit every condition given."),
    Entry("diagnose", "diagnose", "explain", "What limits this training, how is that known, and what would each remedy bring?"),
    Entry("whatif", "whatif", "explain", "How long would this training take with other workers, storage, RAM or batch size? Predicted, without running it."),
    Entry("tune", "tune", "improve", "Find the fastest data loading, and the power mode, for your own training script by short trials of it."),
    Entry("recommend", "recommend", "improve", "Which power mode should this training run in? The best one within your limits, and how sure that is."),
    Entry("sensitivity", "sensitivity", "improve", "Show how strongly time, power and energy depend on each clock and on the number of cores."),
    Entry("choose-device", "choose_device", "improve", "Which board, storage and RAM to buy for a training."),
    Entry("predict", "predict", "predict", "Predict time, power and energy of every power mode from a few profiled ones."),
    Entry("evaluate", "evaluate", "predict", "Measure the error of predictions on a table in which every mode was measured."),
    Entry("prior", "prior", "predict", "List and extend the priors: what was learned from other networks and boards, used by predictions."),
    Entry("lab", "lab", "lab", "Make this machine behave like a smaller one: limit its storage, RAM and cores."),
    Entry("campaign", "campaign", "lab", "Carry out a plan of experiments; started again, it resumes."),
    Entry("reproduce", "reproduce", "lab", "Repeat a paper's experiments here and judge each of its findings."),
    Entry("findings", "findings", "lab", "Which of the papers' findings hold in your own runs: 24 of SIGMETRICS 2023, six of HiPC 2021."),
    Entry("variability", "variability", "lab", "How much do equal runs differ: over time, between units of a board, between software versions?"),
    Entry("devices", "devices", "boards", "List the known boards, and check whether a network fits into their memory."),
    Entry("modes", "modes", "boards", "List, set and restore a board's power modes."),
    Entry("baseload", "baseload", "boards", "Measure the power of an idle board."),
    Entry("round", "round", "fleet", "Plan a federated round: each device's power mode, so that all finish in time with the least energy."),
    Entry("fleet", "fleet", "fleet", "Check, start and stop the boards of a fleet."),
    Entry("report", "report", "show", "Write one self-contained page about a run, several runs, a campaign or power modes; no network needed."),
    Entry("serve", "serve", "show", "Watch training in a browser: stalls, power and clocks as they happen, campaigns, every recorded run."),
    Entry("top", "top", "show", "Watch training in the terminal, as on a board over SSH: stalls, power, clocks and the campaign."),
    Entry("schema", "schema", "show", "What a program can rely on in the JSON that a command prints: its JSON Schema."),
    Entry("figures", "figures", "show", "Draw a campaign for a paper: vector figures one column wide, each with a CSV of what it shows."),
)  # fmt: skip
