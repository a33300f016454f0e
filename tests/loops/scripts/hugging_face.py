"""Hugging Face's Trainer; batches accumulated per step come from the command line. Its clock is a callback."""

import sys
import time

import torch
from common import STEP_S, Clock
from transformers import Trainer, TrainerCallback, TrainingArguments

accumulated, batches, workers = (int(word) for word in sys.argv[1:4])
clock = Clock()


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, y):
        clock.count += 1
        time.sleep(STEP_S)
        return {"loss": (self.layer(x) - y).square().mean()}


class Watch(TrainerCallback):
    """Waiting is what lies between the end of one step and the beginning of the next: its batches are fetched there."""

    def on_epoch_begin(self, *args, **kwargs):
        clock.begin()

    def on_step_begin(self, *args, **kwargs):
        clock.got(turns=0)

    def on_step_end(self, *args, **kwargs):
        clock.stepped()

    def on_epoch_end(self, *args, **kwargs):
        clock.end()


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4 * batches

    def __getitem__(self, index):
        time.sleep(0.005)
        return {"x": torch.full((4,), float(index)), "y": torch.zeros(1)}


arguments = TrainingArguments(
    output_dir="/tmp/not-used", num_train_epochs=2, per_device_train_batch_size=4, use_cpu=True, save_strategy="no",
    report_to=[], disable_tqdm=True, logging_strategy="no", remove_unused_columns=False, learning_rate=1e-6,
    gradient_accumulation_steps=accumulated, dataloader_num_workers=workers,
)  # fmt: skip
Trainer(model=Network(), args=arguments, train_dataset=Rows(), callbacks=[Watch()]).train()
clock.report()
