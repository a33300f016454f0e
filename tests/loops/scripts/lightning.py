"""Lightning's Trainer, with validation; batches accumulated per step come from the command line."""

import sys
import time
import warnings

import pytorch_lightning
import torch
from common import STEP_S, Clock, Slow, Stream
from torch.utils.data import DataLoader

warnings.filterwarnings("ignore")
accumulated, kind = int(sys.argv[1]), sys.argv[2]
clock = Clock()


class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        time.sleep(STEP_S)
        return self.layer(batch).square().mean()

    def validation_step(self, batch, index):
        self.layer(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)


class Watch(pytorch_lightning.Callback):
    def on_train_epoch_start(self, *args):
        clock.begin()

    def on_train_batch_start(self, *args):
        clock.got()

    def on_train_batch_end(self, *args):
        clock.stepped()

    def on_train_epoch_end(self, *args):
        clock.loop_s += clock.mark - clock.began
        clock.loops += 1


data = (Slow if kind == "map" else Stream)(100, 0.012)
trainer = pytorch_lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, callbacks=[Watch()], accumulate_grad_batches=accumulated, log_every_n_steps=1000,
)  # fmt: skip
trainer.fit(Module(), DataLoader(data, batch_size=4, num_workers=1), DataLoader(Slow(16, 0.002), batch_size=4))
clock.report()
