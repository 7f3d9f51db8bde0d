# Each rank uses two process groups, in another order than the other, without waiting in between: both collectives are on one stream.
# code: LG208
# blame: rank 0 has called collective 2 of communicator 1 before collective 2 of communicator 2, and rank 1 the other way round:
import torch
from job import dist, rank, values

x, all_of_x = values(), torch.empty(2 << 20, device="cuda")
one, two = dist.new_group([0, 1]), dist.new_group([0, 1])


def reduce_in_one():
    dist.all_reduce(x, group=one)


def gather_in_two():
    dist.all_gather_into_tensor(all_of_x, x, group=two)


reduce_in_one()
gather_in_two()
torch.cuda.synchronize()
for use in [reduce_in_one, gather_in_two] if rank == 0 else [gather_in_two, reduce_in_one]:
    use()
torch.cuda.synchronize()
