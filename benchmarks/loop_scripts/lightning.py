"""Lightning's Trainer with validation; its clock is a callback, and every step is waited for."""

import warnings

import torch
from common import Clock, Pictures, make_network
from torch.utils.data import DataLoader

try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning

warnings.filterwarnings("ignore")
clock = Clock()


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = make_network()

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, index):
        torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Watch(lightning.Callback):
    def on_train_epoch_start(self, *args):
        clock.begin()

    def on_train_batch_start(self, *args):
        clock.got()

    def on_train_batch_end(self, *args):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        clock.stepped()

    def on_train_epoch_end(self, *args):
        clock.loop_s += clock.mark - clock.began
        clock.loops += 1


if __name__ == "__main__":
    trainer = lightning.Trainer(
        max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, devices=1,
        enable_model_summary=False, callbacks=[Watch()], log_every_n_steps=1000,
    )  # fmt: skip
    train = DataLoader(Pictures(1600), batch_size=16, num_workers=2)
    trainer.fit(Module(), train, DataLoader(Pictures(160), batch_size=16, num_workers=2))
    clock.report()
