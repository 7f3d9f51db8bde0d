//! The table of NCCL functions that LazyGuard interposes, and what their arguments mean.
//!
//! A row is `id Class symbol (arguments) => hook(arguments used)`, in the order of `nccl.h`. The shim makes its exports and look-up from
//! this table.
//!
//! Must not: reuse an id or change its meaning: records on disk name functions by id; or name a function whose arguments differ between
//! releases of NCCL.

/// Calls `$callback!` with every row of the table.
#[macro_export]
macro_rules! with_nccl_api {
    ($callback:path) => {
        $callback! {
            // Communicators
            1000 CommunicatorCreate ncclCommInitRank (new: Ptr, ranks: i32, id: UniqueId, rank: i32)
                => create(new, ranks, &id, rank, null());
            1001 CommunicatorCreate ncclCommInitRankConfig (new: Ptr, ranks: i32, id: UniqueId, rank: i32, config: Ptr)
                => create(new, ranks, &id, rank, config);
            1002 CommunicatorCreate ncclCommInitRankScalable (new: Ptr, ranks: i32, rank: i32, ids: i32, id: Ptr, config: Ptr)
                => create(new, ranks, id.cast(), rank, config);
            1003 CommunicatorCreate ncclCommInitAll (new: Ptr, devices: i32, list: Ptr)
                => create_all(new, devices);
            1004 CommunicatorCreate ncclCommSplit (parent: Handle, color: i32, key: i32, new: Ptr, config: Ptr)
                => split(parent, color, new, config);
            1005 CommunicatorEnd ncclCommFinalize (communicator: Handle)
                => published(communicator);
            1006 CommunicatorEnd ncclCommDestroy (communicator: Handle)
                => end(communicator);
            1007 CommunicatorEnd ncclCommAbort (communicator: Handle)
                => end(communicator);
            1008 CommunicatorQuery ncclCommGetAsyncError (communicator: Handle, error: Ptr)
                => asks(communicator, error);

            // Collectives
            1010 Collective ncclReduce (from: Ptr, to: Ptr, count: usize, data_type: i32, operator: i32, root: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator, root });
            1011 Collective ncclBcast (buffer: Ptr, count: usize, data_type: i32, root: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator: NONE, root });
            1012 Collective ncclBroadcast (from: Ptr, to: Ptr, count: usize, data_type: i32, root: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator: NONE, root });
            1013 Collective ncclAllReduce (from: Ptr, to: Ptr, count: usize, data_type: i32, operator: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator, root: NONE });
            1014 Collective ncclReduceScatter (from: Ptr, to: Ptr, count: usize, data_type: i32, operator: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator, root: NONE });
            1015 Collective ncclAllGather (from: Ptr, to: Ptr, count: usize, data_type: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator: NONE, root: NONE });
            1016 Collective ncclAlltoAll (from: Ptr, to: Ptr, count: usize, data_type: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator: NONE, root: NONE });
            1017 Collective ncclGather (from: Ptr, to: Ptr, count: usize, data_type: i32, root: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator: NONE, root });
            1018 Collective ncclScatter (from: Ptr, to: Ptr, count: usize, data_type: i32, root: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator: NONE, root });
            1020 PointToPoint ncclSend (from: Ptr, count: usize, data_type: i32, peer: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator: NONE, root: peer });
            1021 PointToPoint ncclRecv (to: Ptr, count: usize, data_type: i32, peer: i32, communicator: Handle, stream: Handle)
                => operation(communicator, stream, Arguments { count, data_type, operator: NONE, root: peer });
            1022 CollectiveGroup ncclGroupEnd ()
                => published(null());
        }
    };
}

const DATA_TYPES: &str = "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16 float8e4m3 float8e5m2";

pub fn data_type_name(number: u16) -> String {
    name_of(number, DATA_TYPES, "data type")
}

/// The names of `ncclRedOp_t`, by its numbers. An operator that the program has made has a larger one.
const OPERATORS: &str = "sum prod max min avg";

pub fn operator_name(number: u16) -> String {
    name_of(number, OPERATORS, "operator")
}

fn name_of(number: u16, names: &str, what: &str) -> String {
    names.split(' ').nth(number.into()).map_or_else(|| format!("{what} {number}"), str::to_owned)
}
