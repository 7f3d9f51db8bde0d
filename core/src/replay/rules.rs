//! Rules for every stream, queue, device and kernel.

use crate::api::{Class, StreamKind};

/// The known number of outstanding operations is never below the real one.
const QUEUE_MAY_BE_FULL: u64 = 900;

/// Twice the capacity of a queue. So many accepted operations prove that the one before them has ended.
const MORE_THAN_A_QUEUE_HOLDS: u64 = 2048;

pub const fn queue_may_be_full(outstanding: u64) -> bool {
    outstanding >= QUEUE_MAY_BE_FULL
}

pub const fn more_than_a_queue_holds(operations: u64) -> bool {
    operations >= MORE_THAN_A_QUEUE_HOLDS
}

/// The legacy default stream and the streams that synchronize with it wait for each other.
pub const fn in_turn(one: StreamKind, other: StreamKind) -> bool {
    use StreamKind::{Blocking, Legacy, PerThread};
    matches!((one, other), (Legacy, Blocking | PerThread) | (Blocking | PerThread, Legacy))
}

/// Whether a stream may stand at such an operation: the others are done as soon as what they come behind is done.
pub const fn takes_time(class: Class) -> bool {
    !matches!(
        class,
        Class::EventRecord | Class::StreamWaitEvent | Class::WriteValue | Class::AllocateAsync | Class::FreeAsync
    )
}

/// Whether such an operation may never end. A copy or a memset that has begun ends by itself.
pub const fn may_never_end(class: Class) -> bool {
    takes_time(class) && !matches!(class, Class::Copy | Class::Set | Class::CopyAsync | Class::SetAsync)
}

pub const fn fills_device(blocks: u64, resident: u64) -> bool {
    resident > 0 && blocks >= resident
}

/// Parts of the names of libraries' kernels in which GPUs wait for each other. A kernel of the program's own that spins is not among them.
const NAMES: &[&str] = &[
    // NCCL, since 2.19, before, and its kernels on symmetric memory; RCCL and MSCCL have the first two.
    "ncclDevKernel",
    "ncclKernel_",
    "ncclSym",
    "mscclKernel",
    "nvshmem",
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

pub fn waits_for_peers(kernel: &str) -> bool {
    part_of_waiting(kernel).is_some()
}

/// Whether it is NCCL's kernel for sends and receives.
pub fn is_transfer(kernel: &str) -> bool {
    kernel.contains("SendRecv")
}

/// The part of the name that shows it.
pub fn part_of_waiting(kernel: &str) -> Option<&'static str> {
    NAMES.iter().copied().find(|name| kernel.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_full_around_what_a_card_was_seen_to_take() {
        const SEEN: u64 = 1021;
        assert!(queue_may_be_full(SEEN) && !queue_may_be_full(SEEN / 2));
        assert!(!more_than_a_queue_holds(SEEN) && more_than_a_queue_holds(SEEN * 3));
    }

    #[test]
    fn the_legacy_stream_and_blocking_streams_wait_for_each_other() {
        use StreamKind::{Blocking, Legacy, NonBlocking, PerThread, Unknown};
        for kind in [Blocking, Legacy, PerThread, NonBlocking, Unknown] {
            assert_eq!(in_turn(Legacy, kind), matches!(kind, Blocking | PerThread), "{kind:?}");
            assert_eq!(in_turn(kind, Blocking), kind == Legacy, "{kind:?}");
        }
    }

    #[test]
    fn a_grid_fills_a_device_that_holds_no_more_of_its_blocks() {
        assert!(fills_device(264, 264) && !fills_device(263, 264) && !fills_device(1, 0));
    }

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
