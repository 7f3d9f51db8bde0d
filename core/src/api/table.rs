//! The one table of driver functions that LazyGuard interposes.
//!
//! A row is one calling sequence: a [`Class`](super::Class), the arguments in the documentation's order, the hook, and the exported symbols
//! ("forms") that share it. The shim makes exports, pointers and look-up from this table, the core names and classes.
//!
//! An entry point is `id symbol since-version`. A program passes the symbol, without the suffixes `_vN`, `_ptsz` and `_ptds`, and the
//! version to `cuGetProcAddress`. The last two suffixes mark forms whose default stream is the calling thread's own.
//!
//! Must not: reuse an id or change its meaning: records on disk name forms by id. A new form takes the next free id.
//!
//! Arguments are declared by size: `Handle` and `Ptr` are pointers, `u64` is a `CUdeviceptr` or an eight-byte structure by value, `IpcHandle`
//! has 64 bytes. Enums cross as integers, so that unknown values pass unchanged.

/// Calls `$callback!` with every row of the table.
#[macro_export]
macro_rules! with_driver_api {
    ($callback:path) => {
        $callback! {
            // Initialisation and look-up
            Init (flags: u32) => context::init() { 1 cuInit 2000; }
            Lookup (symbol: Ptr, pfn: Ptr, cuda_version: i32, flags: u64)
                => proc_address::get_proc_address(symbol, pfn, cuda_version, flags) { 2 cuGetProcAddress 11030; }
            Lookup (symbol: Ptr, pfn: Ptr, cuda_version: i32, flags: u64, symbol_status: Ptr)
                => proc_address::get_proc_address(symbol, pfn, cuda_version, flags) { 3 cuGetProcAddress_v2 12000; }
            Query (mode: Ptr) => context::observed() { 4 cuModuleGetLoadingMode 11070; }

            // Contexts
            ContextCreate (context_out: Ptr, flags: u32, dev: i32) => context::comes(context_out, dev, false) { 5 cuCtxCreate_v2 3020; }
            ContextCreate (context_out: Ptr, params_array: Ptr, num_params: i32, flags: u32, dev: i32)
                => context::comes(context_out, dev, false) { 6 cuCtxCreate_v3 11040; }
            ContextCreate (context_out: Ptr, ctx_create_params: Ptr, flags: u32, dev: i32)
                => context::comes(context_out, dev, false) { 7 cuCtxCreate_v4 12050; }
            ContextCreate (context_out: Ptr, dev: i32)
                => context::comes(context_out, dev, true) { 8 cuDevicePrimaryCtxRetain 7000; }
            ContextDestroy (context: Handle) => context::destroy(context) { 9 cuCtxDestroy 2000; 10 cuCtxDestroy_v2 4000; }
            ContextDestroy (dev: i32) => context::primary_gone(dev) {
                11 cuDevicePrimaryCtxRelease 7000;
                12 cuDevicePrimaryCtxRelease_v2 11000;
                13 cuDevicePrimaryCtxReset 7000;
                14 cuDevicePrimaryCtxReset_v2 11000;
            }
            ContextCurrent (context: Handle) => context::current() { 15 cuCtxSetCurrent 4000; }
            ContextCurrent (context: Handle) => context::observed() { 16 cuCtxPushCurrent_v2 4000; }
            ContextCurrent (context_out: Ptr) => context::observed() { 17 cuCtxPopCurrent_v2 4000; }
            ContextSynchronize () => context::synchronize(null()) { 18 cuCtxSynchronize 2000; }
            ContextSynchronize (context: Handle) => context::synchronize(context) { 19 cuCtxSynchronize_v2 13000; }
            ContextWait (limit: i32, value: usize) => context::sets_limit(limit, value) { 20 cuCtxSetLimit 3010; }
            Query (pvalue: Ptr, limit: i32) => context::waits_if(false) { 21 cuCtxGetLimit 3010; }
            ContextWait (flags: u32) => context::sets_flags(flags) { 259 cuCtxSetFlags 12010; }
            Query (peer_context: Handle, flags: u32) => context::waits_if(false) { 260 cuCtxEnablePeerAccess 4000; }
            Query (peer_context: Handle) => context::waits_if(false) { 261 cuCtxDisablePeerAccess 4000; }
            ContextWait (ph_ctx: Ptr, desc: Handle, dev: i32, flags: u32)
                => context::waits_if(true) { 262 cuGreenCtxCreate 12040; }
            EventRecord (context: Handle, event: Handle) => event::record_context(context, event) { 22 cuCtxRecordEvent 12050; }
            StreamWaitEvent (context: Handle, event: Handle) => event::context_waits(context, event) { 23 cuCtxWaitEvent 12050; }

            // Modules
            ModuleLoad (module: Ptr, fname: Ptr) => module::load_file(module, fname) { 24 cuModuleLoad 2000; }
            ModuleLoad (module: Ptr, image: Ptr)
                => module::load_data(module, image, Options::NONE) { 25 cuModuleLoadData 2000; }
            ModuleLoad (module: Ptr, image: Ptr, num_options: u32, options: Ptr, option_values: Ptr)
                => module::load_data(module, image, Options { count: num_options, options, values: option_values }) { 26 cuModuleLoadDataEx 2010; }
            ModuleLoad (module: Ptr, fat_cubin: Ptr)
                => module::load_fat_binary(module, fat_cubin) { 27 cuModuleLoadFatBinary 2000; }
            ModuleUnload (module: Handle) => library::unload(module) { 28 cuModuleUnload 2000; }
            FunctionResolve (function: Ptr, module: Handle, name: Ptr)
                => module::get_function(function, module, name) { 29 cuModuleGetFunction 2000; }
            Query (device_pointer: Ptr, bytes: Ptr, module: Handle, name: Ptr)
                => module::get_global(module) { 30 cuModuleGetGlobal_v2 3020; }

            // Libraries and kernels
            LibraryLoad (library: Ptr, code: Ptr, jit_options: Ptr, jit_options_values: Ptr, num_jit_options: u32, library_options: Ptr, library_option_values: Ptr, num_library_options: u32)
                => library::load(library, code, Options { count: num_jit_options, options: jit_options, values: jit_options_values }, Options { count: num_library_options, options: library_options, values: library_option_values }) {
                31 cuLibraryLoadData 12000;
            }
            LibraryLoad (library: Ptr, file_name: Ptr, jit_options: Ptr, jit_options_values: Ptr, num_jit_options: u32, library_options: Ptr, library_option_values: Ptr, num_library_options: u32)
                => library::load(library, null(), Options::NONE, Options::NONE) { 32 cuLibraryLoadFromFile 12000; }
            LibraryUnload (library: Handle) => library::unload(library) { 33 cuLibraryUnload 12000; }
            KernelResolve (p_kernel: Ptr, library: Handle, name: Ptr)
                => library::get_kernel(p_kernel, library, name) { 34 cuLibraryGetKernel 12000; }
            LibraryModule (p_mod: Ptr, library: Handle) => library::uses_library(library) { 35 cuLibraryGetModule 12000; }
            LibraryModule (device_pointer: Ptr, bytes: Ptr, library: Handle, name: Ptr)
                => library::uses_library(library) { 36 cuLibraryGetGlobal 12000; 37 cuLibraryGetManaged 12000; }
            LibraryModule (fptr: Ptr, library: Handle, symbol: Ptr)
                => library::uses_library(library) { 38 cuLibraryGetUnifiedFunction 12000; }
            KernelResolve (kernels: Ptr, num_kernels: u32, lib: Handle)
                => library::enumerate(lib) { 39 cuLibraryEnumerateKernels 12040; }
            LibraryModule (kernel: Handle, param_index: usize, param_offset: Ptr, param_size: Ptr)
                => library::uses_library_of(kernel) { 272 cuKernelGetParamInfo 12040; }
            KernelFunction (p_func: Ptr, kernel: Handle) => library::get_function(p_func, kernel) { 40 cuKernelGetFunction 12000; }
            FunctionLoad (attrib: i32, val: i32, kernel: Handle, dev: i32)
                => library::loads_function(kernel) { 41 cuKernelSetAttribute 12000; }
            FunctionLoad (kernel: Handle, config: i32, dev: i32)
                => library::loads_function(kernel) { 42 cuKernelSetCacheConfig 12000; }
            FunctionLoad (function: Handle) => library::loads_function(function) { 43 cuFuncLoad 12040; }
            FunctionLoad (function: Handle, attrib: i32, value: i32)
                => library::loads_function(function) { 44 cuFuncSetAttribute 9000; }
            FunctionLoad (function: Handle, config: i32)
                => library::loads_function(function) { 45 cuFuncSetCacheConfig 3000; 46 cuFuncSetSharedMemConfig 4020; }
            FunctionLoad (num_blocks: Ptr, function: Handle, block_size: i32, dynamic_s_mem_size: usize)
                => library::loads_function(function) { 47 cuOccupancyMaxActiveBlocksPerMultiprocessor 6050; }
            FunctionLoad (num_blocks: Ptr, function: Handle, block_size: i32, dynamic_s_mem_size: usize, flags: u32)
                => library::loads_function(function) { 48 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags 7000; }
            FunctionLoad (min_grid_size: Ptr, block_size: Ptr, function: Handle, block_size_to_dynamic_s_mem_size: Handle, dynamic_s_mem_size: usize, block_size_limit: i32)
                => library::loads_function(function) { 49 cuOccupancyMaxPotentialBlockSize 6050; }
            FunctionLoad (min_grid_size: Ptr, block_size: Ptr, function: Handle, block_size_to_dynamic_s_mem_size: Handle, dynamic_s_mem_size: usize, block_size_limit: i32, flags: u32)
                => library::loads_function(function) { 50 cuOccupancyMaxPotentialBlockSizeWithFlags 7000; }
            FunctionLoad (dynamic_smem_size: Ptr, function: Handle, num_blocks: i32, block_size: i32)
                => library::loads_function(function) { 51 cuOccupancyAvailableDynamicSMemPerBlock 10020; }
            FunctionLoad (cluster_size: Ptr, function: Handle, config: Ptr)
                => library::loads_function(function) { 52 cuOccupancyMaxPotentialClusterSize 11070; }
            FunctionLoad (num_clusters: Ptr, function: Handle, config: Ptr)
                => library::loads_function(function) { 53 cuOccupancyMaxActiveClusters 11070; }

            // The linker: it compiles, and waits for no work (measured)
            Link (num_options: u32, options: Ptr, option_values: Ptr, state_out: Ptr)
                => context::observed() { 277 cuLinkCreate 5050; 278 cuLinkCreate_v2 6050; }
            Link (state: Handle, input_type: i32, data: Ptr, size: usize, name: Ptr, num_options: u32, options: Ptr, option_values: Ptr)
                => context::observed() { 279 cuLinkAddData 5050; 280 cuLinkAddData_v2 6050; }
            Link (state: Handle, input_type: i32, path: Ptr, num_options: u32, options: Ptr, option_values: Ptr)
                => context::observed() { 281 cuLinkAddFile 5050; 282 cuLinkAddFile_v2 6050; }
            Link (state: Handle, cubin_out: Ptr, size_out: Ptr) => context::links() { 283 cuLinkComplete 5050; }
            Link (state: Handle) => context::observed() { 284 cuLinkDestroy 5050; }

            // Launches
            Launch (function: Handle, grid_dim_x: u32, grid_dim_y: u32, grid_dim_z: u32, block_dim_x: u32, block_dim_y: u32, block_dim_z: u32, shared_mem_bytes: u32, stream: Handle, kernel_params: Ptr, extra: Ptr)
                => launch::kernel(function, stream, Extent { grid: [grid_dim_x, grid_dim_y, grid_dim_z], block: [block_dim_x, block_dim_y, block_dim_z], shared_bytes: shared_mem_bytes }) {
                54 cuLaunchKernel 4000; 55 cuLaunchKernel_ptsz 7000;
            }
            Launch (config: Ptr, function: Handle, kernel_params: Ptr, extra: Ptr)
                => launch::kernel_ex(config, function) { 56 cuLaunchKernelEx 11060; 57 cuLaunchKernelEx_ptsz 11060; }
            Launch (function: Handle, grid_dim_x: u32, grid_dim_y: u32, grid_dim_z: u32, block_dim_x: u32, block_dim_y: u32, block_dim_z: u32, shared_mem_bytes: u32, stream: Handle, kernel_params: Ptr)
                => launch::cooperative(function, stream, Extent { grid: [grid_dim_x, grid_dim_y, grid_dim_z], block: [block_dim_x, block_dim_y, block_dim_z], shared_bytes: shared_mem_bytes }) {
                58 cuLaunchCooperativeKernel 9000; 59 cuLaunchCooperativeKernel_ptsz 9000;
            }
            Launch (launch_params_list: Ptr, num_devices: u32, flags: u32)
                => launch::multi_device(launch_params_list, num_devices) { 60 cuLaunchCooperativeKernelMultiDevice 9000; }
            Launch (function: Handle) => launch::former(function, null(), Extent::of_grid(1, 1)) { 61 cuLaunch 2000; }
            Launch (function: Handle, grid_width: i32, grid_height: i32)
                => launch::former(function, null(), Extent::of_grid(grid_width, grid_height)) { 62 cuLaunchGrid 2000; }
            Launch (function: Handle, grid_width: i32, grid_height: i32, stream: Handle)
                => launch::former(function, stream, Extent::of_grid(grid_width, grid_height)) { 63 cuLaunchGridAsync 2000; }
            HostFunction (stream: Handle, function: Handle, user_data: Ptr)
                => host::launch(stream, function, user_data) { 64 cuLaunchHostFunc 10000; 65 cuLaunchHostFunc_ptsz 10000; }
            HostFunction (stream: Handle, callback: Handle, user_data: Ptr, flags: u32)
                => host::add_callback(stream, callback, user_data, flags) { 66 cuStreamAddCallback 5000; 67 cuStreamAddCallback_ptsz 7000; }

            // Graphs
            GraphLaunch (h_graph_exec: Handle, stream: Handle)
                => graph::launch(h_graph_exec, stream) { 68 cuGraphLaunch 10000; 69 cuGraphLaunch_ptsz 10000; }
            GraphUpload (h_graph_exec: Handle, stream: Handle)
                => stream::submit(stream) { 70 cuGraphUpload 11010; 71 cuGraphUpload_ptsz 11010; }
            GraphNode (ph_graph_node: Ptr, h_graph: Handle, dependencies: Ptr, num_dependencies: usize, node_params: Ptr)
                => graph::add_node(node_params) { 72 cuGraphAddKernelNode 10000; 73 cuGraphAddKernelNode_v2 12000; }
            GraphNode (ph_graph_node: Ptr, h_graph: Handle, dependencies: Ptr, num_dependencies: usize, node_params: Ptr)
                => graph::add_node(node_params) { 74 cuGraphAddNode 12020; }
            GraphNode (ph_graph_node: Ptr, h_graph: Handle, dependencies: Ptr, dependency_data: Ptr, num_dependencies: usize, node_params: Ptr)
                => graph::add_node(node_params) { 75 cuGraphAddNode_v2 12030; }
            GraphNode (h_node: Handle, node_params: Ptr) => graph::add_node(node_params) {
                76 cuGraphKernelNodeSetParams 10000;
                77 cuGraphKernelNodeSetParams_v2 12000;
            }
            GraphNode (h_graph_exec: Handle, h_node: Handle, node_params: Ptr)
                => graph::change_node(h_graph_exec, node_params) {
                78 cuGraphExecKernelNodeSetParams 10010;
                79 cuGraphExecKernelNodeSetParams_v2 12000;
            }
            GraphNode (h_node: Handle, node_params: Ptr) => graph::add_node(node_params) { 80 cuGraphNodeSetParams 12020; }
            GraphNode (h_graph_exec: Handle, h_node: Handle, node_params: Ptr)
                => graph::change_node(h_graph_exec, node_params) { 81 cuGraphExecNodeSetParams 12020; }
            GraphInstantiate (ph_graph_exec: Ptr, h_graph: Handle, ph_error_node: Ptr, log_buffer: Ptr, buffer_size: usize)
                => graph::instantiate(ph_graph_exec, h_graph) { 82 cuGraphInstantiate 10000; 83 cuGraphInstantiate_v2 11000; }
            GraphInstantiate (ph_graph_exec: Ptr, h_graph: Handle, flags: u64)
                => graph::instantiate(ph_graph_exec, h_graph) { 84 cuGraphInstantiateWithFlags 11040; }
            GraphInstantiate (ph_graph_exec: Ptr, h_graph: Handle, instantiate_params: Ptr)
                => graph::instantiate(ph_graph_exec, h_graph) {
                85 cuGraphInstantiateWithParams 12000; 86 cuGraphInstantiateWithParams_ptsz 12000;
            }
            Query (ph_graph: Ptr, flags: u32) => context::observed() { 285 cuGraphCreate 10000; }
            Query (h_graph: Handle) => context::observed() { 286 cuGraphDestroy 10000; }
            GraphInstantiate (h_graph_exec: Handle) => graph::destroy(h_graph_exec) { 87 cuGraphExecDestroy 10000; }
            GraphInstantiate (h_graph_exec: Handle, h_graph: Handle, h_error_node_out: Ptr, update_result_out: Ptr)
                => graph::update(h_graph_exec, h_graph) { 248 cuGraphExecUpdate 10020; }
            GraphInstantiate (h_graph_exec: Handle, h_graph: Handle, result_info: Ptr)
                => graph::update(h_graph_exec, h_graph) { 249 cuGraphExecUpdate_v2 12000; }
            GraphNode (ph_graph_node: Ptr, h_graph: Handle, dependencies: Ptr, num_dependencies: usize, node_params: Ptr)
                => host::add_node(ph_graph_node, h_graph, dependencies, num_dependencies, node_params) { 250 cuGraphAddHostNode 10000; }
            GraphNode (h_node: Handle, node_params: Ptr)
                => host::set_node(h_node, node_params) { 251 cuGraphHostNodeSetParams 10000; }
            GraphNode (h_graph_exec: Handle, h_node: Handle, node_params: Ptr)
                => host::change_node(h_graph_exec, h_node, node_params) { 252 cuGraphExecHostNodeSetParams 10020; }
            Query (h_node: Handle, node_params: Ptr) => host::node_parameters(node_params) { 253 cuGraphHostNodeGetParams 10000; }
            Query (h_node: Handle, node_params: Ptr) => host::any_node_parameters(node_params) { 254 cuGraphNodeGetParams 13020; }
            GraphNode (h_graph_exec: Handle, h_node: Handle, event: Handle) => graph::change_event_node(h_graph_exec, event) {
                255 cuGraphExecEventRecordNodeSetEvent 11010;
                256 cuGraphExecEventWaitNodeSetEvent 11010;
            }
            GraphNode (h_graph_exec: Handle, h_node: Handle, node_params: Ptr)
                => graph::change_other_node(h_graph_exec) { 257 cuGraphExecBatchMemOpNodeSetParams 11070; }
            GraphNode (h_graph_exec: Handle, h_node: Handle, child_graph: Handle)
                => graph::change_other_node(h_graph_exec) { 258 cuGraphExecChildGraphNodeSetParams 11010; }
            Capture (stream: Handle)
                => stream::begin_capture(stream) { 88 cuStreamBeginCapture 10000; 89 cuStreamBeginCapture_ptsz 10000; }
            Capture (stream: Handle, mode: i32)
                => stream::begin_capture(stream) { 90 cuStreamBeginCapture_v2 10010; 91 cuStreamBeginCapture_v2_ptsz 10010; }
            Capture (stream: Handle, h_graph: Handle, dependencies: Ptr, dependency_data: Ptr, num_dependencies: usize, mode: i32)
                => stream::begin_capture(stream) { 92 cuStreamBeginCaptureToGraph 12030; 93 cuStreamBeginCaptureToGraph_ptsz 12030; }
            Capture (stream: Handle, ph_graph: Ptr)
                => stream::end_capture(stream) { 94 cuStreamEndCapture 10000; 95 cuStreamEndCapture_ptsz 10000; }

            // Stream memory operations
            WriteValue (stream: Handle, addr: u64, value: u32, flags: u32) => memop::write(stream, memop::narrow(addr, value, flags)) {
                96 cuStreamWriteValue32 8000; 97 cuStreamWriteValue32_ptsz 8000;
                98 cuStreamWriteValue32_v2 11070; 99 cuStreamWriteValue32_v2_ptsz 11070;
            }
            WriteValue (stream: Handle, addr: u64, value: u64, flags: u32) => memop::write(stream, memop::wide(addr, value, flags)) {
                100 cuStreamWriteValue64 9000; 101 cuStreamWriteValue64_ptsz 9000;
                102 cuStreamWriteValue64_v2 11070; 103 cuStreamWriteValue64_v2_ptsz 11070;
            }
            WaitValue (stream: Handle, addr: u64, value: u32, flags: u32) => memop::wait(stream, memop::narrow(addr, value, flags)) {
                104 cuStreamWaitValue32 8000; 105 cuStreamWaitValue32_ptsz 8000;
                106 cuStreamWaitValue32_v2 11070; 107 cuStreamWaitValue32_v2_ptsz 11070;
            }
            WaitValue (stream: Handle, addr: u64, value: u64, flags: u32) => memop::wait(stream, memop::wide(addr, value, flags)) {
                108 cuStreamWaitValue64 9000; 109 cuStreamWaitValue64_ptsz 9000;
                110 cuStreamWaitValue64_v2 11070; 111 cuStreamWaitValue64_v2_ptsz 11070;
            }
            BatchMemOp (stream: Handle, count: u32, param_array: Ptr, flags: u32) => memop::batch(stream, count, param_array) {
                112 cuStreamBatchMemOp 8000; 113 cuStreamBatchMemOp_ptsz 8000;
                114 cuStreamBatchMemOp_v2 11070; 115 cuStreamBatchMemOp_v2_ptsz 11070;
            }
            ExternalWait (ext_sem_array: Ptr, params_array: Ptr, num_ext_sems: u32, stream: Handle)
                => stream::submit(stream) { 116 cuWaitExternalSemaphoresAsync 10000; 117 cuWaitExternalSemaphoresAsync_ptsz 10000; }
            ExternalSignal (ext_sem_array: Ptr, params_array: Ptr, num_ext_sems: u32, stream: Handle)
                => stream::submit(stream) { 118 cuSignalExternalSemaphoresAsync 10000; 119 cuSignalExternalSemaphoresAsync_ptsz 10000; }

            // Streams
            StreamCreate (ph_stream: Ptr, flags: u32) => stream::create(ph_stream, flags) { 120 cuStreamCreate 2000; }
            StreamCreate (ph_stream: Ptr, flags: u32, priority: i32)
                => stream::create(ph_stream, flags) { 121 cuStreamCreateWithPriority 5050; }
            StreamCreate (ph_stream: Ptr, green_ctx: Handle, flags: u32, priority: i32)
                => stream::create(ph_stream, flags) { 122 cuGreenCtxStreamCreate 12050; }
            StreamDestroy (stream: Handle) => stream::destroy(stream) { 123 cuStreamDestroy 2000; 124 cuStreamDestroy_v2 4000; }
            StreamSynchronize (stream: Handle)
                => stream::completes(stream) { 125 cuStreamSynchronize 2000; 126 cuStreamSynchronize_ptsz 7000; }
            StreamQuery (stream: Handle) => stream::completes(stream) { 127 cuStreamQuery 2000; 128 cuStreamQuery_ptsz 7000; }
            StreamWaitEvent (stream: Handle, event: Handle, flags: u32)
                => event::stream_wait(stream, event) { 129 cuStreamWaitEvent 3020; 130 cuStreamWaitEvent_ptsz 7000; }
            StreamSubmit (stream: Handle, device_pointer: u64, length: usize, flags: u32)
                => stream::submit(stream) { 131 cuStreamAttachMemAsync 6000; 132 cuStreamAttachMemAsync_ptsz 7000; }

            // Events
            EventCreate (ph_event: Ptr, flags: u32) => context::observed() { 133 cuEventCreate 2000; }
            EventRecord (event: Handle, stream: Handle)
                => event::record(event, stream) { 134 cuEventRecord 2000; 135 cuEventRecord_ptsz 7000; }
            EventRecord (event: Handle, stream: Handle, flags: u32)
                => event::record(event, stream) { 136 cuEventRecordWithFlags 11010; 137 cuEventRecordWithFlags_ptsz 11010; }
            EventDestroy (event: Handle) => event::destroy(event) { 138 cuEventDestroy 2000; 139 cuEventDestroy_v2 4000; }
            EventSynchronize (event: Handle) => event::completes(event) { 140 cuEventSynchronize 2000; }
            EventQuery (event: Handle) => event::completes(event) { 141 cuEventQuery 2000; }
            EventQuery (milliseconds: Ptr, start: Handle, event: Handle)
                => event::completes(event) { 288 cuEventElapsedTime 2000; 289 cuEventElapsedTime_v2 12080; }

            // Allocation
            Allocate (device_pointer: Ptr, bytesize: usize)
                => context::allocates(bytesize, device_pointer) { 142 cuMemAlloc_v2 3020; }
            Allocate (device_pointer: Ptr, p_pitch: Ptr, width_in_bytes: usize, height: usize, element_size_bytes: u32)
                => context::allocates(width_in_bytes.wrapping_mul(height), device_pointer) { 143 cuMemAllocPitch_v2 3020; }
            Allocate (device_pointer: Ptr, bytesize: usize, flags: u32)
                => context::allocates(bytesize, device_pointer) { 144 cuMemAllocManaged 6000; }
            Allocate (pp: Ptr, bytesize: usize) => context::allocates(bytesize, pp) { 145 cuMemAllocHost_v2 3020; }
            Allocate (pp: Ptr, bytesize: usize, flags: u32) => context::allocates(bytesize, pp) { 146 cuMemHostAlloc 2020; }
            Allocate (p: Ptr, bytesize: usize, flags: u32)
                => context::allocates(bytesize, p) { 147 cuMemHostRegister 4000; 148 cuMemHostRegister_v2 6050; }
            Free (device_pointer: u64) => context::frees(device_pointer as u64) { 149 cuMemFree_v2 3020; }
            Free (p: Ptr) => context::frees(p as u64) { 150 cuMemFreeHost 2000; 151 cuMemHostUnregister 4000; }

            Free (array: Handle) => context::frees(array as u64) { 263 cuArrayDestroy 2000; 264 cuMipmappedArrayDestroy 5000; }

            // Virtual memory, and memory of other processes
            Query (ptr: u64, size: usize, offset: usize, handle: u64, flags: u64)
                => context::waits_if(false) { 265 cuMemMap 10020; }
            Query (ptr: u64, size: usize) => context::waits_if(false) { 266 cuMemUnmap 10020; }
            Query (ptr: u64, size: usize, desc: Ptr, count: usize) => context::waits_if(false) { 267 cuMemSetAccess 10020; }
            Query (device_pointer: Ptr, handle: IpcHandle, flags: u32)
                => shared::opens(device_pointer, handle) { 268 cuIpcOpenMemHandle 4010; 269 cuIpcOpenMemHandle_v2 11000; }
            Query (handle: Ptr, device_pointer: u64) => shared::exports(handle, device_pointer) { 290 cuIpcGetMemHandle 4010; }
            Query (handle: Ptr, event: Handle) => context::observed() { 291 cuIpcGetEventHandle 4010; }
            Query (event: Ptr, handle: IpcHandle) => context::waits_if(false) { 270 cuIpcOpenEventHandle 4010; }
            Free (device_pointer: u64) => context::frees(device_pointer) { 271 cuIpcCloseMemHandle 4010; }
            Query (handle: Ptr, os_handle: Handle, handle_type: i32)
                => context::observed() { 273 cuMemImportFromShareableHandle 10020; }
            Query (shareable_handle: Ptr, handle: u64, handle_type: i32, flags: u64)
                => context::observed() { 292 cuMemExportToShareableHandle 10020; }
            Query (share_data: Ptr, ptr: u64) => shared::exports(share_data, ptr) { 293 cuMemPoolExportPointer 11020; }
            Query (ptr_out: Ptr, pool: Handle, share_data: Ptr)
                => shared::imports(ptr_out, share_data) { 294 cuMemPoolImportPointer 11020; }

            // Multicast: they wait for the other processes of the group.
            Query (group: u64, device: i32) => context::observed() { 274 cuMulticastAddDevice 12010; }
            Query (group: u64, group_offset: usize, handle: u64, offset: usize, size: usize, flags: u64)
                => context::observed() { 275 cuMulticastBindMem 12010; }
            Query (group: u64, group_offset: usize, ptr: u64, size: usize, flags: u64)
                => context::observed() { 276 cuMulticastBindAddr 12010; }

            // Allocation in stream order
            Query (pool: Handle, min_bytes_to_keep: usize) => context::waits_if(false) { 287 cuMemPoolTrimTo 11020; }
            AllocateAsync (device_pointer: Ptr, bytesize: usize, stream: Handle)
                => copy::allocates(bytesize, device_pointer, stream) { 152 cuMemAllocAsync 11020; 153 cuMemAllocAsync_ptsz 11020; }
            AllocateAsync (device_pointer: Ptr, bytesize: usize, pool: Handle, stream: Handle)
                => copy::allocates(bytesize, device_pointer, stream) {
                154 cuMemAllocFromPoolAsync 11020; 155 cuMemAllocFromPoolAsync_ptsz 11020;
            }
            FreeAsync (device_pointer: u64, stream: Handle)
                => copy::frees(device_pointer, stream) { 156 cuMemFreeAsync 11020; 157 cuMemFreeAsync_ptsz 11020; }

            // Copies
            Copy (dst: u64, src: u64, byte_count: usize)
                => copy::synchronous(dst, byte_count) { 158 cuMemcpy 4000; 159 cuMemcpy_ptds 7000; }
            // Asynchronous for the host, and behind all work of both contexts (documented, and seen on a card).
            CopyAsync (dst_device: u64, dst_context: Handle, src_device: u64, src_context: Handle, byte_count: usize)
                => copy::asynchronous(dst_device, byte_count, std::ptr::null_mut()) { 160 cuMemcpyPeer 4000; 161 cuMemcpyPeer_ptds 7000; }
            Copy (dst_device: u64, src_host: Ptr, byte_count: usize)
                => copy::synchronous(dst_device, byte_count) { 162 cuMemcpyHtoD_v2 3020; 163 cuMemcpyHtoD_v2_ptds 7000; }
            Copy (dst_host: Ptr, src_device: u64, byte_count: usize)
                => copy::synchronous(dst_host as u64, byte_count) { 164 cuMemcpyDtoH_v2 3020; 165 cuMemcpyDtoH_v2_ptds 7000; }
            Copy (dst_device: u64, src_device: u64, byte_count: usize)
                => copy::synchronous(dst_device, byte_count) { 166 cuMemcpyDtoD_v2 3020; 167 cuMemcpyDtoD_v2_ptds 7000; }
            Copy (dst_array: Handle, dst_offset: usize, src_device: u64, byte_count: usize)
                => copy::synchronous(0, byte_count) { 168 cuMemcpyDtoA_v2 3020; 169 cuMemcpyDtoA_v2_ptds 7000; }
            Copy (dst_device: u64, src_array: Handle, src_offset: usize, byte_count: usize)
                => copy::synchronous(dst_device, byte_count) { 170 cuMemcpyAtoD_v2 3020; 171 cuMemcpyAtoD_v2_ptds 7000; }
            Copy (dst_array: Handle, dst_offset: usize, src_host: Ptr, byte_count: usize)
                => copy::synchronous(0, byte_count) { 172 cuMemcpyHtoA_v2 3020; 173 cuMemcpyHtoA_v2_ptds 7000; }
            Copy (dst_host: Ptr, src_array: Handle, src_offset: usize, byte_count: usize)
                => copy::synchronous(dst_host as u64, byte_count) { 174 cuMemcpyAtoH_v2 3020; 175 cuMemcpyAtoH_v2_ptds 7000; }
            Copy (dst_array: Handle, dst_offset: usize, src_array: Handle, src_offset: usize, byte_count: usize)
                => copy::synchronous(0, byte_count) { 176 cuMemcpyAtoA_v2 3020; 177 cuMemcpyAtoA_v2_ptds 7000; }
            Copy (p_copy: Ptr) => copy::synchronous(0, 0) {
                178 cuMemcpy2D_v2 3020; 179 cuMemcpy2D_v2_ptds 7000;
                180 cuMemcpy2DUnaligned_v2 3020; 181 cuMemcpy2DUnaligned_v2_ptds 7000;
                182 cuMemcpy3D_v2 3020; 183 cuMemcpy3D_v2_ptds 7000;
            }
            CopyAsync (p_copy: Ptr)
                => copy::asynchronous(0, 0, std::ptr::null_mut()) { 184 cuMemcpy3DPeer 4000; 185 cuMemcpy3DPeer_ptds 7000; }
            CopyAsync (dst: u64, src: u64, byte_count: usize, stream: Handle)
                => copy::copies(dst, [byte_count; 2], [dst, src], stream) { 186 cuMemcpyAsync 4000; 187 cuMemcpyAsync_ptsz 7000; }
            CopyAsync (dst_device: u64, dst_context: Handle, src_device: u64, src_context: Handle, byte_count: usize, stream: Handle)
                => copy::asynchronous(dst_device, byte_count, stream) { 188 cuMemcpyPeerAsync 4000; 189 cuMemcpyPeerAsync_ptsz 7000; }
            CopyAsync (dst_device: u64, src_host: Ptr, byte_count: usize, stream: Handle)
                => copy::copies(dst_device, [byte_count; 2], [src_host as u64, 0], stream) {
                190 cuMemcpyHtoDAsync_v2 3020; 191 cuMemcpyHtoDAsync_v2_ptsz 7000;
            }
            CopyAsync (dst_host: Ptr, src_device: u64, byte_count: usize, stream: Handle)
                => copy::copies(dst_host as u64, [byte_count; 2], [dst_host as u64, 0], stream) {
                192 cuMemcpyDtoHAsync_v2 3020; 193 cuMemcpyDtoHAsync_v2_ptsz 7000;
            }
            CopyAsync (dst_device: u64, src_device: u64, byte_count: usize, stream: Handle)
                => copy::asynchronous(dst_device, byte_count, stream) { 194 cuMemcpyDtoDAsync_v2 3020; 195 cuMemcpyDtoDAsync_v2_ptsz 7000; }
            CopyAsync (dst_array: Handle, dst_offset: usize, src_host: Ptr, byte_count: usize, stream: Handle)
                => copy::copies(0, [byte_count; 2], [src_host as u64, 0], stream) {
                196 cuMemcpyHtoAAsync_v2 3020; 197 cuMemcpyHtoAAsync_v2_ptsz 7000;
            }
            CopyAsync (dst_host: Ptr, src_array: Handle, src_offset: usize, byte_count: usize, stream: Handle)
                => copy::copies(dst_host as u64, [byte_count; 2], [dst_host as u64, 0], stream) {
                198 cuMemcpyAtoHAsync_v2 3020; 199 cuMemcpyAtoHAsync_v2_ptsz 7000;
            }
            CopyAsync (p_copy: Ptr, stream: Handle)
                => copy::copies_2d(p_copy, stream) { 200 cuMemcpy2DAsync_v2 3020; 201 cuMemcpy2DAsync_v2_ptsz 7000; }
            CopyAsync (p_copy: Ptr, stream: Handle) => copy::copies_3d(p_copy, stream) {
                202 cuMemcpy3DAsync_v2 3020; 203 cuMemcpy3DAsync_v2_ptsz 7000;
                204 cuMemcpy3DPeerAsync 4000; 205 cuMemcpy3DPeerAsync_ptsz 7000;
            }
            CopyAsync (dsts: Ptr, srcs: Ptr, sizes: Ptr, count: usize, attrs: Ptr, attrs_idxs: Ptr, num_attrs: usize, fail_idx: Ptr, stream: Handle)
                => copy::asynchronous(0, 0, stream) { 206 cuMemcpyBatchAsync 12080; 207 cuMemcpyBatchAsync_ptsz 12080; }
            CopyAsync (dsts: Ptr, srcs: Ptr, sizes: Ptr, count: usize, attrs: Ptr, attrs_idxs: Ptr, num_attrs: usize, stream: Handle)
                => copy::asynchronous(0, 0, stream) { 208 cuMemcpyBatchAsync_v2 13000; 209 cuMemcpyBatchAsync_v2_ptsz 13000; }
            CopyAsync (num_ops: usize, op_list: Ptr, fail_idx: Ptr, flags: u64, stream: Handle)
                => copy::asynchronous(0, 0, stream) { 210 cuMemcpy3DBatchAsync 12080; 211 cuMemcpy3DBatchAsync_ptsz 12080; }
            CopyAsync (num_ops: usize, op_list: Ptr, flags: u64, stream: Handle)
                => copy::asynchronous(0, 0, stream) { 212 cuMemcpy3DBatchAsync_v2 13000; 213 cuMemcpy3DBatchAsync_v2_ptsz 13000; }
            CopyAsync (dev_ptr: u64, count: usize, dst_device: i32, stream: Handle)
                => copy::asynchronous(0, count, stream) { 214 cuMemPrefetchAsync 8000; 215 cuMemPrefetchAsync_ptsz 8000; }
            CopyAsync (dev_ptr: u64, count: usize, location: u64, flags: u32, stream: Handle)
                => copy::asynchronous(0, count, stream) { 216 cuMemPrefetchAsync_v2 12020; 217 cuMemPrefetchAsync_v2_ptsz 12020; }
            CopyAsync (dptrs: Ptr, sizes: Ptr, count: usize, prefetch_locs: Ptr, prefetch_loc_idxs: Ptr, num_prefetch_locs: usize, flags: u64, stream: Handle)
                => copy::asynchronous(0, 0, stream) {
                218 cuMemPrefetchBatchAsync 13000; 219 cuMemPrefetchBatchAsync_ptsz 13000;
                220 cuMemDiscardAndPrefetchBatchAsync 13000; 221 cuMemDiscardAndPrefetchBatchAsync_ptsz 13000;
            }
            CopyAsync (dptrs: Ptr, sizes: Ptr, count: usize, flags: u64, stream: Handle)
                => copy::asynchronous(0, 0, stream) { 222 cuMemDiscardBatchAsync 13000; 223 cuMemDiscardBatchAsync_ptsz 13000; }
            Set (dst_device: u64, uc: u8, n: usize)
                => copy::synchronous(dst_device, n) { 224 cuMemsetD8_v2 3020; 225 cuMemsetD8_v2_ptds 7000; }
            Set (dst_device: u64, us: u16, n: usize)
                => copy::synchronous(dst_device, n.wrapping_mul(2)) { 226 cuMemsetD16_v2 3020; 227 cuMemsetD16_v2_ptds 7000; }
            Set (dst_device: u64, ui: u32, n: usize)
                => copy::synchronous(dst_device, n.wrapping_mul(4)) { 228 cuMemsetD32_v2 3020; 229 cuMemsetD32_v2_ptds 7000; }
            Set (dst_device: u64, dst_pitch: usize, uc: u8, width: usize, height: usize)
                => copy::synchronous(dst_device, pitched(dst_pitch, width, height)) {
                230 cuMemsetD2D8_v2 3020; 231 cuMemsetD2D8_v2_ptds 7000;
            }
            Set (dst_device: u64, dst_pitch: usize, us: u16, width: usize, height: usize)
                => copy::synchronous(dst_device, pitched(dst_pitch, width.wrapping_mul(2), height)) {
                232 cuMemsetD2D16_v2 3020; 233 cuMemsetD2D16_v2_ptds 7000;
            }
            Set (dst_device: u64, dst_pitch: usize, ui: u32, width: usize, height: usize)
                => copy::synchronous(dst_device, pitched(dst_pitch, width.wrapping_mul(4), height)) {
                234 cuMemsetD2D32_v2 3020; 235 cuMemsetD2D32_v2_ptds 7000;
            }
            SetAsync (dst_device: u64, uc: u8, n: usize, stream: Handle)
                => copy::sets(dst_device, n, u32::from(uc) * 0x0101_0101, stream) { 236 cuMemsetD8Async 3020; 237 cuMemsetD8Async_ptsz 7000; }
            SetAsync (dst_device: u64, us: u16, n: usize, stream: Handle)
                => copy::sets(dst_device, n.wrapping_mul(2), u32::from(us) * 0x1_0001, stream) { 238 cuMemsetD16Async 3020; 239 cuMemsetD16Async_ptsz 7000; }
            SetAsync (dst_device: u64, ui: u32, n: usize, stream: Handle)
                => copy::sets(dst_device, n.wrapping_mul(4), ui, stream) { 240 cuMemsetD32Async 3020; 241 cuMemsetD32Async_ptsz 7000; }
            SetAsync (dst_device: u64, dst_pitch: usize, uc: u8, width: usize, height: usize, stream: Handle)
                => copy::asynchronous(dst_device, pitched(dst_pitch, width, height), stream) {
                242 cuMemsetD2D8Async 3020; 243 cuMemsetD2D8Async_ptsz 7000;
            }
            SetAsync (dst_device: u64, dst_pitch: usize, us: u16, width: usize, height: usize, stream: Handle)
                => copy::asynchronous(dst_device, pitched(dst_pitch, width.wrapping_mul(2), height), stream) {
                244 cuMemsetD2D16Async 3020; 245 cuMemsetD2D16Async_ptsz 7000;
            }
            SetAsync (dst_device: u64, dst_pitch: usize, ui: u32, width: usize, height: usize, stream: Handle)
                => copy::asynchronous(dst_device, pitched(dst_pitch, width.wrapping_mul(4), height), stream) {
                246 cuMemsetD2D32Async 3020; 247 cuMemsetD2D32Async_ptsz 7000;
            }
        }
    };
}
