# A CUDA graph of PyTorch's is replayed behind a wait for a value that nothing writes.
# code: LG203
# culprit: cuStreamWaitValue32(_v2)?
import persistent
import torch

stream = torch.cuda.Stream()
words = torch.zeros(4, dtype=torch.int32, device="cuda")
x = torch.zeros(4, device="cuda")
x += 1
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    x += 1
with torch.cuda.stream(stream):
    graph.replay()
    stream.synchronize()
    persistent.wait_for_value(stream.cuda_stream, words.data_ptr(), 1)
    graph.replay()
stream.synchronize()
