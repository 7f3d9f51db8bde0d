# Each rank uses two process groups, in another order than the other, and synchronizes in between.
# code: LG208
# blame: ranks wait for each other: (rank 0 waits in collective 2 of communicator 1 for rank 1|rank 1 waits in collective 2 of communicator 2 for rank 0|; ){3}\.
import torch
from job import dist, rank, values

x, all_of_x = values(), torch.empty(2 << 20, device="cuda")
one, two = dist.new_group([0, 1]), dist.new_group([0, 1])


def reduce_in_one():
    dist.all_reduce(x, group=one)
    torch.cuda.synchronize()


def gather_in_two():
    dist.all_gather_into_tensor(all_of_x, x, group=two)
    torch.cuda.synchronize()


reduce_in_one()
gather_in_two()
for use in [reduce_in_one, gather_in_two] if rank == 0 else [gather_in_two, reduce_in_one]:
    use()
