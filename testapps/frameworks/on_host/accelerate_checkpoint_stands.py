# Under accelerate, rank 1 writes a checkpoint to a storage that does not answer.
# code: LG208
# needs: torch accelerate
# blame: rank 1 has not called collective \d+ of communicator 0 .*(writes|opens) \S*shard-17\.tar
import accelerate
import torch
from training import Items, LATE_RANK, LATE_STEP, fault, network, rank, shard

path = shard()
accelerator = accelerate.Accelerator()
model = network()
model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=2))
for step, batch in enumerate(loader):
    if rank == LATE_RANK and step == LATE_STEP:
        fault()
        torch.save(accelerator.get_state_dict(model), path)
    loss = model(batch).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
