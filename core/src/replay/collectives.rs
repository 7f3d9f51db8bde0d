//! Kernels of libraries in which GPUs wait for each other.
//!
//! A name is all that shows it: from outside, such a kernel is like any other. A kernel that the program wrote itself, and that spins on
//! memory which a peer writes, is therefore not among them.

/// What the name of such a kernel contains, mangled or not.
const NAMES: &[&str] = &[
    // NCCL, since 2.19, before, and its kernels on symmetric memory; RCCL and MSCCL have the first two.
    "ncclDevKernel",
    "ncclKernel_",
    "ncclSym",
    "mscclKernel",
    "nvshmem",
    // DeepEP's dispatch and combine.
    "deep_ep",
    // PyTorch's symmetric memory: barriers, signals, and the reductions on it.
    "symmetric_memory",
    "one_shot_all_reduce",
    "two_shot_all_reduce",
    "multimem_all_reduce",
    // The all-reduce of vLLM and SGLang, and that of TensorRT-LLM and FlashInfer.
    "cross_device_reduce",
    "oneShotAllReduce",
    "twoShotAllReduce",
    "allreduce_fusion_kernel",
];

/// Whether a kernel of this name waits for kernels of other GPUs.
pub fn waits_for_peers(kernel: &str) -> bool {
    part_of_waiting(kernel).is_some()
}

/// The part of a kernel's name that shows that it does.
pub fn part_of_waiting(kernel: &str) -> Option<&'static str> {
    NAMES.iter().copied().find(|name| kernel.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_communication_libraries_wait_for_peers_and_others_do_not() {
        for kernel in [
            "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*)",
            "_ZN4vllm24cross_device_reduce_1stageIfLi2EEEvPNS_8RankDataE",
            "_ZN7deep_ep9internode8dispatchEv",
            "_ZN4c10d16symmetric_memoryL14barrier_kernelEPPj",
        ] {
            assert!(waits_for_peers(kernel), "{kernel}");
        }
        for kernel in ["_ZN2at6native29vectorized_elementwise_kernelEv", "reduce_kernel", "k1", ""] {
            assert!(!waits_for_peers(kernel), "{kernel}");
        }
    }
}
