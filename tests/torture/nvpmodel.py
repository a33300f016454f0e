"""Mutates nvpmodel configurations: no crash, and no value silently taken in another unit."""

import random
import tempfile
from pathlib import Path

from edgetrain.device.jetson.nvpmodel import caps, parse
from edgetrain.device.simulated.nvpmodel_file import nvpmodel_text
from tests import boards

FULL = 34_000


def run(count: int = FULL, seed: int = 0) -> str:
    """Mutate files of all eight boards; each must parse, and its caps must be digits that stand in the file."""
    draw = random.Random(seed)
    originals = {name: nvpmodel_text(make()) for name, make in boards.PAIRS.items()}
    named = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            name = draw.choice(list(originals))
            text = _mutate(draw, originals[name])
            if number % 500 == 0:
                # Now and then through the whole device: nothing there may fall over it either.
                root = boards.build(name, Path(folder) / str(number))
                (root / "etc/nvpmodel/nvpmodel_board.conf").write_text(text, errors="replace")
                boards.open_tree(root).modes()
            config = parse(text)
            named += bool(config.problems)
            digits = set(_numbers(text))
            for mode in config.modes:
                found = caps(config, mode, (0, 1, 2, 3))
                for hertz in found.cpu_hz.values():
                    assert hertz % 1000 == 0 and hertz // 1000 in digits, f"CPU {hertz} is nowhere in the file as kHz"
                for hertz in (found.gpu_hz, found.emc_hz):
                    assert hertz is None or hertz in digits, f"{hertz} is nowhere in the file as Hz"
    return (
        f"{count} mutated nvpmodel files (seed {seed}): none crashed the parser, every cap read occurs in the file "
        f"in its own unit; {named} files had problems, which were named."
    )


def _numbers(text: str) -> list[int]:
    found = []
    for word in text.replace("=", " ").replace(">", " ").split():
        try:
            found.append(int(word, 0) if not word.lstrip("-").startswith("0") or word in ("0",) else int(word))
        except ValueError:
            try:
                found.append(int(word, 0))
            except ValueError:
                continue
    return found


def _mutate(draw: random.Random, text: str) -> str:
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(text) or 1)
        kind = draw.randrange(6)
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + chr(draw.randrange(1, 0x2FF)) * draw.randint(1, 5) + text[at:]
        elif kind == 2:
            text = text[:at] + text[at + draw.randint(1, 40) :]
        elif kind == 3:
            lines = text.splitlines()
            draw.shuffle(lines)
            text = "\n".join(lines)
        elif kind == 4:
            text = text[:at] + text[max(0, at - draw.randint(1, 200)) :]
        else:
            text = text.replace(
                draw.choice([" ", "<", ">", "MAX_FREQ", "NAME", "CORE_", "\n"]), draw.choice(["", "  ", "\t"]), 1
            )
        text = text or " "
    return text
