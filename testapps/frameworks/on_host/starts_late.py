# Rank 1 comes to the job several thresholds after rank 0.
# code: none
from training import begin, end, is_late, train, work

if is_late():
    work(14)
begin()
train()
end()
