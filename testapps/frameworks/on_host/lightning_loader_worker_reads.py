# Under Lightning, a data-loader worker of rank 1 reads a file that does not come.
# code: LG208
# needs: torch pytorch_lightning
# blame: rank 1 has not called collective \d+ of communicator 0 .*data-loader worker \(process \d+\), which (reads|opens) \S*shard-17\.tar
import os

import pytorch_lightning as lightning
import torch
from training import Items, fault, network, shard, size

path = shard()
os.environ.update(NODE_RANK="0")


def read_shard():
    fault()
    with open(path) as file:
        file.read()


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Linear(256, 256)

    def training_step(self, batch, _):
        return self.network(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


loader = torch.utils.data.DataLoader(Items(read_shard, 256), batch_size=4, num_workers=2, shuffle=False)
lightning.Trainer(accelerator="gpu", devices=size, strategy="ddp", max_epochs=1, logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False).fit(Model(), loader)
