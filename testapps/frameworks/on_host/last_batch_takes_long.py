# Rank 1 computes its seventh batch on the host for several thresholds, in a worker of its loader.
# code: none
from training import begin, end, train, work

begin()
train(item=lambda: work(12))
end()
