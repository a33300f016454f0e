"""The commands: their names, the groups `--help` shows them in, and the modules that hold them.

Only this table is read for `--help`; a command's module is loaded when the command is used, because loading all of them takes
most of a second.
"""

from __future__ import annotations

from dataclasses import dataclass

PANELS = {
    "measure": "Measure: record a training and see where its time and energy go",
    "explain": "Explain: what limits a training, and what each remedy would gain",
    "improve": "Improve: the best setting within limits",
    "predict": "Predict: settings that were not tried",
    "lab": "Lab: limit this machine to a smaller one, and run series of experiments",
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
    Entry("doctor", "doctor", "measure", "Show what can be measured and set on this machine, what is missing, and how to get it."),
    Entry("run", "run", "measure", "Train a network and show where its time and energy went, epoch by epoch."),
    Entry("data", "data", "measure", "Generate a dataset of the published size and shape, for `run` and your own scripts."),
    Entry("profile", "profile", "measure", "Record where the time and energy of your own training script go; the script is not changed."),
    Entry("ls", "ls", "measure", "List the recorded runs, oldest first."),
    Entry("show", "show", "measure", "Show where the time and energy of a run went, epoch by epoch, and the reasons to doubt its numbers."),
    Entry("compare", "compare", "measure", "Decide whether two settings really differ, from repeated runs of each."),
    Entry("export", "export", "measure", "Export a run for spreadsheets, notebooks, trace viewers and Prometheus."),
    Entry("import", "import_", "measure", "Convert logs of other tools into runs, for show, compare and report."),
    Entry("rm", "rm", "measure", "Delete recorded runs permanently."),
    Entry("prune", "rm", "measure", "Delete all recorded runs that meet every given condition."),
    Entry("diagnose", "diagnose", "explain", "Explain what limits a training, with the evidence and the predicted gain of each remedy."),
    Entry("whatif", "whatif", "explain", "Predict how long a recorded training would take with other workers, storage, RAM or batch size."),
    Entry("tune", "tune", "improve", "Find the best DataLoader arguments and power mode for your own training script, by short trials of it."),
    Entry("recommend", "recommend", "improve", "Recommend the best power mode within your limits, with the probability that each limit holds."),
    Entry("sensitivity", "sensitivity", "improve", "Show how strongly time, power and energy depend on each clock and on the number of cores."),
    Entry("choose-device", "choose_device", "improve", "Rank the boards, storage media and RAM sizes that you could buy for a training."),
    Entry("predict", "predict", "predict", "Predict time, power and energy of every power mode from a few profiled ones."),
    Entry("evaluate", "evaluate", "predict", "Measure the error of predictions on a table in which every mode was measured."),
    Entry("prior", "prior", "predict", "List and extend the priors: coefficients fitted to other networks and boards, from which predictions start."),
    Entry("lab", "lab", "lab", "Make this machine behave like a smaller one: limit its storage, RAM and cores."),
    Entry("campaign", "campaign", "lab", "Carry out a plan of experiments; after an interruption the same command resumes it."),
    Entry("reproduce", "reproduce", "lab", "Repeat a paper's experiments here and judge each of its findings."),
    Entry("findings", "findings", "lab", "Check which of the papers' findings hold in your own runs: 24 of SIGMETRICS 2023, six of HiPC 2021."),
    Entry("variability", "variability", "lab", "Show how much equal runs differ: over time, between units of a board, between software versions."),
    Entry("devices", "devices", "boards", "List the known boards, and check whether a network fits into their memory."),
    Entry("modes", "modes", "boards", "List, set and restore a board's power modes."),
    Entry("baseload", "baseload", "boards", "Measure the power of an idle board."),
    Entry("round", "round", "fleet", "Plan a federated round: choose each device's power mode so that all finish in time with the least energy."),
    Entry("fleet", "fleet", "fleet", "Check, start and stop the boards of a fleet."),
    Entry("report", "report", "show", "Write one self-contained HTML page about a run, several runs, a campaign or power modes."),
    Entry("serve", "serve", "show", "Watch training in a browser: live stalls, power and clocks, campaigns, and every recorded run."),
    Entry("top", "top", "show", "Watch training in the terminal, for example over SSH: stalls, power, clocks and the campaign."),
    Entry("schema", "schema", "show", "Print the JSON Schema of the JSON document that a command prints."),
    Entry("figures", "figures", "show", "Draw a campaign as figures for a paper: vector graphics, one column wide, each with a CSV of its data."),
)  # fmt: skip
