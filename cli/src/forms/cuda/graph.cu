// A graph whose nodes come one after the other.
struct Graph {
  CUgraph made;
  CUgraphNode last = nullptr;
  Graph() { CK(cuGraphCreate(&made, 0)); }
  template <class Add, class... Arguments>
  Graph& add(Add function, Arguments... arguments) {
    const CUgraphNode before = last;
    CK(function(&last, made, &before, before != nullptr, arguments...));
    return *this;
  }
  Graph& launches(CUfunction kernel, CUdeviceptr flag) {
    void* parameters[] = {&flag};
    CUDA_KERNEL_NODE_PARAMS node{};
    node.func = kernel, node.kernelParams = parameters;
    node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimX = node.blockDimY = node.blockDimZ = 1;
    return add(cuGraphAddKernelNode, &node);
  }
  Graph& calls(CUhostFn function) {
    const CUDA_HOST_NODE_PARAMS node{function, nullptr};
    return add(cuGraphAddHostNode, &node);
  }
  Graph& memory_operation(CUstreamBatchMemOpType type, CUdeviceptr address, unsigned long long value, unsigned flags) {
    CUcontext context;
    CK(cuCtxGetCurrent(&context));
    CUstreamBatchMemOpParams operation{};
    operation.waitValue.operation = type, operation.waitValue.address = address;
    operation.waitValue.value64 = value, operation.waitValue.flags = flags;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS node{context, 1, &operation, 0};
    return add(cuGraphAddBatchMemOpNode, &node);
  }
  CUresult instantiate(CUgraphExec* ready) { return cuGraphInstantiate(ready, made, 0); }
  CUgraphExec ready() {
    CUgraphExec ready;
    CK(instantiate(&ready));
    return ready;
  }
};
