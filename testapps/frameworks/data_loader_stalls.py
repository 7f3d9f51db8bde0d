# The data loader's worker of rank 1 stops at its sixth item.
# code: LG208
# blame: rank 1 has not called collective 6 of communicator 0 \(AllReduce of 1,048,576 float32, sum\), and its main thread .*data_loader_stalls\.py:20
import time

import torch
from job import dist, rank


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        if rank == 1 and index == 5:
            time.sleep(600)
        return torch.full((1 << 20,), float(index))


for item in torch.utils.data.DataLoader(Items(), num_workers=1, prefetch_factor=1, batch_size=1):
    x = item.cuda()
    dist.all_reduce(x)
torch.cuda.synchronize()
