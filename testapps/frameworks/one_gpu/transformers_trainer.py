# Transformers: its trainer trains a small language model for ten steps.
# code: none
# needs: torch transformers accelerate
# hang-after: 5s
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        text = (torch.arange(32) * (index + 1)) % 100
        return {"input_ids": text, "labels": text}


torch.manual_seed(0)
network = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=32, n_embd=64, n_layer=2, n_head=2))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=4, max_steps=10, logging_strategy="no", save_strategy="no", report_to=[], disable_tqdm=True, seed=0
    )
    trainer = Trainer(network, arguments, train_dataset=Texts())
    trainer.remove_callback(PrinterCallback)
    outcome = trainer.train()
print(f"{outcome.global_step} steps, loss below 5: {outcome.training_loss < 5}")
