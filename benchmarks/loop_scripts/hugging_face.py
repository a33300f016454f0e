"""Hugging Face's Trainer with gradient accumulation over two batches; its clock is a callback."""

import torch
from common import Clock, Pictures, make_network
from transformers import Trainer, TrainerCallback, TrainingArguments

clock = Clock()


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = make_network()

    def forward(self, pictures, labels):
        return {"loss": torch.nn.functional.cross_entropy(self.layers(pictures), labels)}


class Named(Pictures):
    def __getitem__(self, index):
        picture, label = super().__getitem__(index)
        return {"pictures": picture, "labels": torch.tensor(label)}


class Watch(TrainerCallback):
    def on_epoch_begin(self, *args, **kwargs):
        clock.begin()

    def on_step_begin(self, *args, **kwargs):
        clock.got()

    def on_step_end(self, *args, **kwargs):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        clock.stepped(2)

    def on_epoch_end(self, *args, **kwargs):
        clock.end()


if __name__ == "__main__":
    arguments = TrainingArguments(
        output_dir="/tmp/not-used", num_train_epochs=2, per_device_train_batch_size=16, save_strategy="no",
        report_to=[], disable_tqdm=True, logging_strategy="no", remove_unused_columns=False, learning_rate=1e-4,
        gradient_accumulation_steps=2, dataloader_num_workers=2,
    )  # fmt: skip
    Trainer(model=Network(), args=arguments, train_dataset=Named(1600), callbacks=[Watch()]).train()
    clock.report()
