# Rank 0 evaluates on the host for several thresholds and goes on.
# code: none
from training import begin, end, train, work

begin()
train(step=lambda _: work(12), late_rank=0)
end()
