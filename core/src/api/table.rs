//! The one table of driver functions that LazyGuard interposes.
//!
//! Each row is one calling sequence: a [`Class`](super::Class), the arguments in the driver documentation's order, the hook that
//! handles it, and the exported symbols ("forms") that share it. The shim makes its exports, its pointers to the real functions and
//! its look-up map from this table. The core makes names and classes from it. No other file decides what is interposed;
//! `shim/src/hooks/signatures.in` names functions only to check their arguments. `CONTRIBUTING.md` has the steps for a new one.
//!
//! An entry point is `id symbol look-up-name since-version stream-convention`. A program passes the name and version to
//! `cuGetProcAddress`. `per_thread` marks the forms whose default stream is the calling thread's own.
//!
//! Must not: reuse an id or change what one means, because records on disk name forms by id. A new form takes the next free id.
//!
//! Arguments are declared by size and kind: `Handle` and `Ptr` are pointers, and `u64` is a `CUdeviceptr` or an eight-byte
//! structure passed by value; `IpcHandle` is one of 64 bytes. Enums cross as integers, so the shim passes on unchanged a value that this build does not know.

/// Calls `$callback!` with every row of the table.
#[macro_export]
macro_rules! with_driver_api {
    ($callback:path) => {
        $callback! {
            // Initialisation and look-up
            Init (flags: u32)
                => context::init();
            {
                1 cuInit cuInit 2000 legacy;
            }
            Lookup (symbol: Ptr, pfn: Ptr, cuda_version: i32, flags: u64)
                => proc_address::get_proc_address(symbol, pfn, cuda_version, flags);
            {
                2 cuGetProcAddress cuGetProcAddress 11030 legacy;
            }
            Lookup (symbol: Ptr, pfn: Ptr, cuda_version: i32, flags: u64, symbol_status: Ptr)
                => proc_address::get_proc_address(symbol, pfn, cuda_version, flags);
            {
                3 cuGetProcAddress_v2 cuGetProcAddress 12000 legacy;
            }
            Query (mode: Ptr)
                => context::observed();
            {
                4 cuModuleGetLoadingMode cuModuleGetLoadingMode 11070 legacy;
            }

            // Contexts
            ContextCreate (context_out: Ptr, flags: u32, dev: i32)
                => context::comes(context_out, dev, false);
            {
                5 cuCtxCreate_v2 cuCtxCreate 3020 legacy;
            }
            ContextCreate (context_out: Ptr, params_array: Ptr, num_params: i32, flags: u32, dev: i32)
                => context::comes(context_out, dev, false);
            {
                6 cuCtxCreate_v3 cuCtxCreate 11040 legacy;
            }
            ContextCreate (context_out: Ptr, ctx_create_params: Ptr, flags: u32, dev: i32)
                => context::comes(context_out, dev, false);
            {
                7 cuCtxCreate_v4 cuCtxCreate 12050 legacy;
            }
            ContextCreate (context_out: Ptr, dev: i32)
                => context::comes(context_out, dev, true);
            {
                8 cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRetain 7000 legacy;
            }
            ContextDestroy (context: Handle)
                => context::destroy(context);
            {
                9 cuCtxDestroy cuCtxDestroy 2000 legacy;
                10 cuCtxDestroy_v2 cuCtxDestroy 4000 legacy;
            }
            ContextDestroy (dev: i32)
                => context::primary_gone(dev);
            {
                11 cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease 7000 legacy;
                12 cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxRelease 11000 legacy;
                13 cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset 7000 legacy;
                14 cuDevicePrimaryCtxReset_v2 cuDevicePrimaryCtxReset 11000 legacy;
            }
            ContextCurrent (context: Handle)
                => context::observed();
            {
                15 cuCtxSetCurrent cuCtxSetCurrent 4000 legacy;
                16 cuCtxPushCurrent_v2 cuCtxPushCurrent 4000 legacy;
            }
            ContextCurrent (context_out: Ptr)
                => context::observed();
            {
                17 cuCtxPopCurrent_v2 cuCtxPopCurrent 4000 legacy;
            }
            ContextSynchronize ()
                => context::synchronize(null());
            {
                18 cuCtxSynchronize cuCtxSynchronize 2000 legacy;
            }
            ContextSynchronize (context: Handle)
                => context::synchronize(context);
            {
                19 cuCtxSynchronize_v2 cuCtxSynchronize 13000 legacy;
            }
            ContextWait (limit: i32, value: usize)
                => context::sets_limit(limit, value);
            {
                20 cuCtxSetLimit cuCtxSetLimit 3010 legacy;
            }
            Query (pvalue: Ptr, limit: i32)
                => context::waits_for_context();
            {
                21 cuCtxGetLimit cuCtxGetLimit 3010 legacy;
            }
            ContextWait (flags: u32)
                => context::sets_flags(flags);
            {
                259 cuCtxSetFlags cuCtxSetFlags 12010 legacy;
            }
            Query (peer_context: Handle, flags: u32)
                => context::waits_for_context();
            {
                260 cuCtxEnablePeerAccess cuCtxEnablePeerAccess 4000 legacy;
            }
            Query (peer_context: Handle)
                => context::waits_for_context();
            {
                261 cuCtxDisablePeerAccess cuCtxDisablePeerAccess 4000 legacy;
            }
            ContextWait (ph_ctx: Ptr, desc: Handle, dev: i32, flags: u32)
                => context::waits_if(true);
            {
                262 cuGreenCtxCreate cuGreenCtxCreate 12040 legacy;
            }
            EventRecord (context: Handle, event: Handle)
                => event::record_context(context, event);
            {
                22 cuCtxRecordEvent cuCtxRecordEvent 12050 legacy;
            }
            StreamWaitEvent (context: Handle, event: Handle)
                => event::context_waits(context, event);
            {
                23 cuCtxWaitEvent cuCtxWaitEvent 12050 legacy;
            }

            // Modules
            ModuleLoad (module: Ptr, fname: Ptr)
                => module::load_file(module, fname);
            {
                24 cuModuleLoad cuModuleLoad 2000 legacy;
            }
            ModuleLoad (module: Ptr, image: Ptr)
                => module::load_data(module, image, Options::NONE);
            {
                25 cuModuleLoadData cuModuleLoadData 2000 legacy;
            }
            ModuleLoad (module: Ptr, image: Ptr, num_options: u32, options: Ptr, option_values: Ptr)
                => module::load_data(module, image, Options { count: num_options, options, values: option_values });
            {
                26 cuModuleLoadDataEx cuModuleLoadDataEx 2010 legacy;
            }
            ModuleLoad (module: Ptr, fat_cubin: Ptr)
                => module::load_fat_binary(module, fat_cubin);
            {
                27 cuModuleLoadFatBinary cuModuleLoadFatBinary 2000 legacy;
            }
            ModuleUnload (module: Handle)
                => library::unload(module);
            {
                28 cuModuleUnload cuModuleUnload 2000 legacy;
            }
            FunctionResolve (function: Ptr, module: Handle, name: Ptr)
                => module::get_function(function, module, name);
            {
                29 cuModuleGetFunction cuModuleGetFunction 2000 legacy;
            }
            Query (device_pointer: Ptr, bytes: Ptr, module: Handle, name: Ptr)
                => module::get_global(module);
            {
                30 cuModuleGetGlobal_v2 cuModuleGetGlobal 3020 legacy;
            }

            // Libraries and kernels
            LibraryLoad (library: Ptr, code: Ptr, jit_options: Ptr, jit_options_values: Ptr, num_jit_options: u32, library_options: Ptr, library_option_values: Ptr, num_library_options: u32)
                => library::load(library, code, Options { count: num_jit_options, options: jit_options, values: jit_options_values }, Options { count: num_library_options, options: library_options, values: library_option_values });
            {
                31 cuLibraryLoadData cuLibraryLoadData 12000 legacy;
            }
            LibraryLoad (library: Ptr, file_name: Ptr, jit_options: Ptr, jit_options_values: Ptr, num_jit_options: u32, library_options: Ptr, library_option_values: Ptr, num_library_options: u32)
                => library::load(library, null(), Options::NONE, Options::NONE);
            {
                32 cuLibraryLoadFromFile cuLibraryLoadFromFile 12000 legacy;
            }
            LibraryUnload (library: Handle)
                => library::unload(library);
            {
                33 cuLibraryUnload cuLibraryUnload 12000 legacy;
            }
            KernelResolve (p_kernel: Ptr, library: Handle, name: Ptr)
                => library::get_kernel(p_kernel, library, name);
            {
                34 cuLibraryGetKernel cuLibraryGetKernel 12000 legacy;
            }
            LibraryModule (p_mod: Ptr, library: Handle)
                => library::uses_library(library);
            {
                35 cuLibraryGetModule cuLibraryGetModule 12000 legacy;
            }
            LibraryModule (device_pointer: Ptr, bytes: Ptr, library: Handle, name: Ptr)
                => library::uses_library(library);
            {
                36 cuLibraryGetGlobal cuLibraryGetGlobal 12000 legacy;
                37 cuLibraryGetManaged cuLibraryGetManaged 12000 legacy;
            }
            LibraryModule (fptr: Ptr, library: Handle, symbol: Ptr)
                => library::uses_library(library);
            {
                38 cuLibraryGetUnifiedFunction cuLibraryGetUnifiedFunction 12000 legacy;
            }
            KernelResolve (kernels: Ptr, num_kernels: u32, lib: Handle)
                => library::enumerate(lib);
            {
                39 cuLibraryEnumerateKernels cuLibraryEnumerateKernels 12040 legacy;
            }
            LibraryModule (kernel: Handle, param_index: usize, param_offset: Ptr, param_size: Ptr)
                => library::uses_library_of(kernel);
            {
                272 cuKernelGetParamInfo cuKernelGetParamInfo 12040 legacy;
            }
            KernelFunction (p_func: Ptr, kernel: Handle)
                => library::get_function(p_func, kernel);
            {
                40 cuKernelGetFunction cuKernelGetFunction 12000 legacy;
            }
            FunctionLoad (attrib: i32, val: i32, kernel: Handle, dev: i32)
                => library::loads_function(kernel);
            {
                41 cuKernelSetAttribute cuKernelSetAttribute 12000 legacy;
            }
            FunctionLoad (kernel: Handle, config: i32, dev: i32)
                => library::loads_function(kernel);
            {
                42 cuKernelSetCacheConfig cuKernelSetCacheConfig 12000 legacy;
            }
            FunctionLoad (function: Handle)
                => library::loads_function(function);
            {
                43 cuFuncLoad cuFuncLoad 12040 legacy;
            }
            FunctionLoad (function: Handle, attrib: i32, value: i32)
                => library::loads_function(function);
            {
                44 cuFuncSetAttribute cuFuncSetAttribute 9000 legacy;
            }
            FunctionLoad (function: Handle, config: i32)
                => library::loads_function(function);
            {
                45 cuFuncSetCacheConfig cuFuncSetCacheConfig 3000 legacy;
                46 cuFuncSetSharedMemConfig cuFuncSetSharedMemConfig 4020 legacy;
            }
            FunctionLoad (num_blocks: Ptr, function: Handle, block_size: i32, dynamic_s_mem_size: usize)
                => library::loads_function(function);
            {
                47 cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveBlocksPerMultiprocessor 6050 legacy;
            }
            FunctionLoad (num_blocks: Ptr, function: Handle, block_size: i32, dynamic_s_mem_size: usize, flags: u32)
                => library::loads_function(function);
            {
                48 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags 7000 legacy;
            }
            FunctionLoad (min_grid_size: Ptr, block_size: Ptr, function: Handle, block_size_to_dynamic_s_mem_size: Handle, dynamic_s_mem_size: usize, block_size_limit: i32)
                => library::loads_function(function);
            {
                49 cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSize 6050 legacy;
            }
            FunctionLoad (min_grid_size: Ptr, block_size: Ptr, function: Handle, block_size_to_dynamic_s_mem_size: Handle, dynamic_s_mem_size: usize, block_size_limit: i32, flags: u32)
                => library::loads_function(function);
            {
                50 cuOccupancyMaxPotentialBlockSizeWithFlags cuOccupancyMaxPotentialBlockSizeWithFlags 7000 legacy;
            }
            FunctionLoad (dynamic_smem_size: Ptr, function: Handle, num_blocks: i32, block_size: i32)
                => library::loads_function(function);
            {
                51 cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyAvailableDynamicSMemPerBlock 10020 legacy;
            }
            FunctionLoad (cluster_size: Ptr, function: Handle, config: Ptr)
                => library::loads_function(function);
            {
                52 cuOccupancyMaxPotentialClusterSize cuOccupancyMaxPotentialClusterSize 11070 legacy;
            }
            FunctionLoad (num_clusters: Ptr, function: Handle, config: Ptr)
                => library::loads_function(function);
            {
                53 cuOccupancyMaxActiveClusters cuOccupancyMaxActiveClusters 11070 legacy;
            }

            // Launches
            Launch (function: Handle, grid_dim_x: u32, grid_dim_y: u32, grid_dim_z: u32, block_dim_x: u32, block_dim_y: u32, block_dim_z: u32, shared_mem_bytes: u32, stream: Handle, kernel_params: Ptr, extra: Ptr)
                => launch::kernel(function, stream, Extent { grid: [grid_dim_x, grid_dim_y, grid_dim_z], block: [block_dim_x, block_dim_y, block_dim_z], shared_bytes: shared_mem_bytes });
            {
                54 cuLaunchKernel cuLaunchKernel 4000 legacy;
                55 cuLaunchKernel_ptsz cuLaunchKernel 7000 per_thread;
            }
            Launch (config: Ptr, function: Handle, kernel_params: Ptr, extra: Ptr)
                => launch::kernel_ex(config, function);
            {
                56 cuLaunchKernelEx cuLaunchKernelEx 11060 legacy;
                57 cuLaunchKernelEx_ptsz cuLaunchKernelEx 11060 per_thread;
            }
            Launch (function: Handle, grid_dim_x: u32, grid_dim_y: u32, grid_dim_z: u32, block_dim_x: u32, block_dim_y: u32, block_dim_z: u32, shared_mem_bytes: u32, stream: Handle, kernel_params: Ptr)
                => launch::cooperative(function, stream, Extent { grid: [grid_dim_x, grid_dim_y, grid_dim_z], block: [block_dim_x, block_dim_y, block_dim_z], shared_bytes: shared_mem_bytes });
            {
                58 cuLaunchCooperativeKernel cuLaunchCooperativeKernel 9000 legacy;
                59 cuLaunchCooperativeKernel_ptsz cuLaunchCooperativeKernel 9000 per_thread;
            }
            Launch (launch_params_list: Ptr, num_devices: u32, flags: u32)
                => launch::multi_device(launch_params_list, num_devices);
            {
                60 cuLaunchCooperativeKernelMultiDevice cuLaunchCooperativeKernelMultiDevice 9000 legacy;
            }
            Launch (function: Handle)
                => launch::kernel(function, null(), Extent::of_grid(1, 1));
            {
                61 cuLaunch cuLaunch 2000 legacy;
            }
            Launch (function: Handle, grid_width: i32, grid_height: i32)
                => launch::kernel(function, null(), Extent::of_grid(grid_width, grid_height));
            {
                62 cuLaunchGrid cuLaunchGrid 2000 legacy;
            }
            Launch (function: Handle, grid_width: i32, grid_height: i32, stream: Handle)
                => launch::kernel(function, stream, Extent::of_grid(grid_width, grid_height));
            {
                63 cuLaunchGridAsync cuLaunchGridAsync 2000 legacy;
            }
            HostFunction (stream: Handle, function: Handle, user_data: Ptr)
                => host::launch(stream, function, user_data);
            {
                64 cuLaunchHostFunc cuLaunchHostFunc 10000 legacy;
                65 cuLaunchHostFunc_ptsz cuLaunchHostFunc 10000 per_thread;
            }
            HostFunction (stream: Handle, callback: Handle, user_data: Ptr, flags: u32)
                => host::add_callback(stream, callback, user_data, flags);
            {
                66 cuStreamAddCallback cuStreamAddCallback 5000 legacy;
                67 cuStreamAddCallback_ptsz cuStreamAddCallback 7000 per_thread;
            }

            // Graphs
            GraphLaunch (h_graph: Handle, stream: Handle)
                => graph::launch(h_graph, stream);
            {
                68 cuGraphLaunch cuGraphLaunch 10000 legacy;
            }
            GraphLaunch (h_graph_exec: Handle, stream: Handle)
                => graph::launch(h_graph_exec, stream);
            {
                69 cuGraphLaunch_ptsz cuGraphLaunch 10000 per_thread;
            }
            GraphUpload (h_graph: Handle, stream: Handle)
                => stream::submit(stream);
            {
                70 cuGraphUpload cuGraphUpload 11010 legacy;
            }
            GraphUpload (h_graph_exec: Handle, stream: Handle)
                => stream::submit(stream);
            {
                71 cuGraphUpload_ptsz cuGraphUpload 11010 per_thread;
            }
            GraphNode (ph_graph_node: Ptr, h_graph: Handle, dependencies: Ptr, num_dependencies: usize, node_params: Ptr)
                => graph::add_kernel_node(node_params);
            {
                72 cuGraphAddKernelNode cuGraphAddKernelNode 10000 legacy;
            }
            GraphNode (ph_graph_node: Ptr, h_graph: Handle, dependencies: Ptr, num_dependencies: usize, node_params: Ptr)
                => graph::add_kernel_node(node_params);
            {
                73 cuGraphAddKernelNode_v2 cuGraphAddKernelNode 12000 legacy;
            }
            GraphNode (ph_graph_node: Ptr, h_graph: Handle, dependencies: Ptr, num_dependencies: usize, node_params: Ptr)
                => graph::add_node(node_params);
            {
                74 cuGraphAddNode cuGraphAddNode 12020 legacy;
            }
            GraphNode (ph_graph_node: Ptr, h_graph: Handle, dependencies: Ptr, dependency_data: Ptr, num_dependencies: usize, node_params: Ptr)
                => graph::add_node(node_params);
            {
                75 cuGraphAddNode_v2 cuGraphAddNode 12030 legacy;
            }
            GraphNode (h_node: Handle, node_params: Ptr)
                => graph::add_kernel_node(node_params);
            {
                76 cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams 10000 legacy;
                77 cuGraphKernelNodeSetParams_v2 cuGraphKernelNodeSetParams 12000 legacy;
            }
            GraphNode (h_graph_exec: Handle, h_node: Handle, node_params: Ptr)
                => graph::change_kernel_node(h_graph_exec, node_params);
            {
                78 cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams 10010 legacy;
                79 cuGraphExecKernelNodeSetParams_v2 cuGraphExecKernelNodeSetParams 12000 legacy;
            }
            GraphNode (h_node: Handle, node_params: Ptr)
                => graph::add_node(node_params);
            {
                80 cuGraphNodeSetParams cuGraphNodeSetParams 12020 legacy;
            }
            GraphNode (h_graph_exec: Handle, h_node: Handle, node_params: Ptr)
                => graph::change_node(h_graph_exec, node_params);
            {
                81 cuGraphExecNodeSetParams cuGraphExecNodeSetParams 12020 legacy;
            }
            GraphInstantiate (ph_graph_exec: Ptr, h_graph: Handle, ph_error_node: Ptr, log_buffer: Ptr, buffer_size: usize)
                => graph::instantiate(ph_graph_exec, h_graph);
            {
                82 cuGraphInstantiate cuGraphInstantiate 10000 legacy;
                83 cuGraphInstantiate_v2 cuGraphInstantiate 11000 legacy;
            }
            GraphInstantiate (ph_graph_exec: Ptr, h_graph: Handle, flags: u64)
                => graph::instantiate(ph_graph_exec, h_graph);
            {
                84 cuGraphInstantiateWithFlags cuGraphInstantiateWithFlags 11040 legacy;
            }
            GraphInstantiate (ph_graph_exec: Ptr, h_graph: Handle, instantiate_params: Ptr)
                => graph::instantiate(ph_graph_exec, h_graph);
            {
                85 cuGraphInstantiateWithParams cuGraphInstantiateWithParams 12000 legacy;
                86 cuGraphInstantiateWithParams_ptsz cuGraphInstantiateWithParams 12000 per_thread;
            }
            GraphInstantiate (h_graph_exec: Handle)
                => graph::destroy(h_graph_exec);
            {
                87 cuGraphExecDestroy cuGraphExecDestroy 10000 legacy;
            }
            GraphInstantiate (h_graph_exec: Handle, h_graph: Handle, h_error_node_out: Ptr, update_result_out: Ptr)
                => graph::update(h_graph_exec, h_graph);
            {
                248 cuGraphExecUpdate cuGraphExecUpdate 10020 legacy;
            }
            GraphInstantiate (h_graph_exec: Handle, h_graph: Handle, result_info: Ptr)
                => graph::update(h_graph_exec, h_graph);
            {
                249 cuGraphExecUpdate_v2 cuGraphExecUpdate 12000 legacy;
            }
            GraphNode (ph_graph_node: Ptr, h_graph: Handle, dependencies: Ptr, num_dependencies: usize, node_params: Ptr)
                => host::add_node(ph_graph_node, h_graph, dependencies, num_dependencies, node_params);
            {
                250 cuGraphAddHostNode cuGraphAddHostNode 10000 legacy;
            }
            GraphNode (h_node: Handle, node_params: Ptr)
                => host::set_node(h_node, node_params);
            {
                251 cuGraphHostNodeSetParams cuGraphHostNodeSetParams 10000 legacy;
            }
            GraphNode (h_graph_exec: Handle, h_node: Handle, node_params: Ptr)
                => host::change_node(h_graph_exec, h_node, node_params);
            {
                252 cuGraphExecHostNodeSetParams cuGraphExecHostNodeSetParams 10020 legacy;
            }
            Query (h_node: Handle, node_params: Ptr)
                => host::node_parameters(node_params);
            {
                253 cuGraphHostNodeGetParams cuGraphHostNodeGetParams 10000 legacy;
            }
            Query (h_node: Handle, node_params: Ptr)
                => host::any_node_parameters(node_params);
            {
                254 cuGraphNodeGetParams cuGraphNodeGetParams 13020 legacy;
            }
            GraphNode (h_graph_exec: Handle, h_node: Handle, event: Handle)
                => graph::change_event_node(h_graph_exec, event);
            {
                255 cuGraphExecEventRecordNodeSetEvent cuGraphExecEventRecordNodeSetEvent 11010 legacy;
                256 cuGraphExecEventWaitNodeSetEvent cuGraphExecEventWaitNodeSetEvent 11010 legacy;
            }
            GraphNode (h_graph_exec: Handle, h_node: Handle, node_params: Ptr)
                => graph::change_other_node(h_graph_exec);
            {
                257 cuGraphExecBatchMemOpNodeSetParams cuGraphExecBatchMemOpNodeSetParams 11070 legacy;
            }
            GraphNode (h_graph_exec: Handle, h_node: Handle, child_graph: Handle)
                => graph::change_other_node(h_graph_exec);
            {
                258 cuGraphExecChildGraphNodeSetParams cuGraphExecChildGraphNodeSetParams 11010 legacy;
            }
            Capture (stream: Handle)
                => stream::begin_capture(stream);
            {
                88 cuStreamBeginCapture cuStreamBeginCapture 10000 legacy;
                89 cuStreamBeginCapture_ptsz cuStreamBeginCapture 10000 per_thread;
            }
            Capture (stream: Handle, mode: i32)
                => stream::begin_capture(stream);
            {
                90 cuStreamBeginCapture_v2 cuStreamBeginCapture 10010 legacy;
                91 cuStreamBeginCapture_v2_ptsz cuStreamBeginCapture 10010 per_thread;
            }
            Capture (stream: Handle, h_graph: Handle, dependencies: Ptr, dependency_data: Ptr, num_dependencies: usize, mode: i32)
                => stream::begin_capture(stream);
            {
                92 cuStreamBeginCaptureToGraph cuStreamBeginCaptureToGraph 12030 legacy;
                93 cuStreamBeginCaptureToGraph_ptsz cuStreamBeginCaptureToGraph 12030 per_thread;
            }
            Capture (stream: Handle, ph_graph: Ptr)
                => stream::end_capture(stream);
            {
                94 cuStreamEndCapture cuStreamEndCapture 10000 legacy;
                95 cuStreamEndCapture_ptsz cuStreamEndCapture 10000 per_thread;
            }

            // Stream memory operations
            WriteValue (stream: Handle, addr: u64, value: u32, flags: u32)
                => memop::write(stream, addr, u64::from(value), flags);
            {
                96 cuStreamWriteValue32 cuStreamWriteValue32 8000 legacy;
                97 cuStreamWriteValue32_ptsz cuStreamWriteValue32 8000 per_thread;
                98 cuStreamWriteValue32_v2 cuStreamWriteValue32 11070 legacy;
                99 cuStreamWriteValue32_v2_ptsz cuStreamWriteValue32 11070 per_thread;
            }
            WriteValue (stream: Handle, addr: u64, value: u64, flags: u32)
                => memop::write(stream, addr, value, flags);
            {
                100 cuStreamWriteValue64 cuStreamWriteValue64 9000 legacy;
                101 cuStreamWriteValue64_ptsz cuStreamWriteValue64 9000 per_thread;
                102 cuStreamWriteValue64_v2 cuStreamWriteValue64 11070 legacy;
                103 cuStreamWriteValue64_v2_ptsz cuStreamWriteValue64 11070 per_thread;
            }
            WaitValue (stream: Handle, addr: u64, value: u32, flags: u32)
                => memop::wait(stream, addr, u64::from(value), flags);
            {
                104 cuStreamWaitValue32 cuStreamWaitValue32 8000 legacy;
                105 cuStreamWaitValue32_ptsz cuStreamWaitValue32 8000 per_thread;
                106 cuStreamWaitValue32_v2 cuStreamWaitValue32 11070 legacy;
                107 cuStreamWaitValue32_v2_ptsz cuStreamWaitValue32 11070 per_thread;
            }
            WaitValue (stream: Handle, addr: u64, value: u64, flags: u32)
                => memop::wait(stream, addr, value, flags);
            {
                108 cuStreamWaitValue64 cuStreamWaitValue64 9000 legacy;
                109 cuStreamWaitValue64_ptsz cuStreamWaitValue64 9000 per_thread;
                110 cuStreamWaitValue64_v2 cuStreamWaitValue64 11070 legacy;
                111 cuStreamWaitValue64_v2_ptsz cuStreamWaitValue64 11070 per_thread;
            }
            BatchMemOp (stream: Handle, count: u32, param_array: Ptr, flags: u32)
                => memop::batch(stream, count, param_array);
            {
                112 cuStreamBatchMemOp cuStreamBatchMemOp 8000 legacy;
                113 cuStreamBatchMemOp_ptsz cuStreamBatchMemOp 8000 per_thread;
                114 cuStreamBatchMemOp_v2 cuStreamBatchMemOp 11070 legacy;
                115 cuStreamBatchMemOp_v2_ptsz cuStreamBatchMemOp 11070 per_thread;
            }
            ExternalWait (ext_sem_array: Ptr, params_array: Ptr, num_ext_sems: u32, stream: Handle)
                => stream::submit(stream);
            {
                116 cuWaitExternalSemaphoresAsync cuWaitExternalSemaphoresAsync 10000 legacy;
                117 cuWaitExternalSemaphoresAsync_ptsz cuWaitExternalSemaphoresAsync 10000 per_thread;
            }
            ExternalSignal (ext_sem_array: Ptr, params_array: Ptr, num_ext_sems: u32, stream: Handle)
                => stream::submit(stream);
            {
                118 cuSignalExternalSemaphoresAsync cuSignalExternalSemaphoresAsync 10000 legacy;
                119 cuSignalExternalSemaphoresAsync_ptsz cuSignalExternalSemaphoresAsync 10000 per_thread;
            }

            // Streams
            StreamCreate (ph_stream: Ptr, flags: u32)
                => stream::create(ph_stream, flags);
            {
                120 cuStreamCreate cuStreamCreate 2000 legacy;
            }
            StreamCreate (ph_stream: Ptr, flags: u32, priority: i32)
                => stream::create(ph_stream, flags);
            {
                121 cuStreamCreateWithPriority cuStreamCreateWithPriority 5050 legacy;
            }
            StreamCreate (ph_stream: Ptr, green_ctx: Handle, flags: u32, priority: i32)
                => stream::create(ph_stream, flags);
            {
                122 cuGreenCtxStreamCreate cuGreenCtxStreamCreate 12050 legacy;
            }
            StreamDestroy (stream: Handle)
                => stream::destroy(stream);
            {
                123 cuStreamDestroy cuStreamDestroy 2000 legacy;
                124 cuStreamDestroy_v2 cuStreamDestroy 4000 legacy;
            }
            StreamSynchronize (stream: Handle)
                => stream::completes(stream);
            {
                125 cuStreamSynchronize cuStreamSynchronize 2000 legacy;
                126 cuStreamSynchronize_ptsz cuStreamSynchronize 7000 per_thread;
            }
            StreamQuery (stream: Handle)
                => stream::completes(stream);
            {
                127 cuStreamQuery cuStreamQuery 2000 legacy;
                128 cuStreamQuery_ptsz cuStreamQuery 7000 per_thread;
            }
            StreamWaitEvent (stream: Handle, event: Handle, flags: u32)
                => event::stream_wait(stream, event);
            {
                129 cuStreamWaitEvent cuStreamWaitEvent 3020 legacy;
                130 cuStreamWaitEvent_ptsz cuStreamWaitEvent 7000 per_thread;
            }
            StreamSubmit (stream: Handle, device_pointer: u64, length: usize, flags: u32)
                => stream::submit(stream);
            {
                131 cuStreamAttachMemAsync cuStreamAttachMemAsync 6000 legacy;
                132 cuStreamAttachMemAsync_ptsz cuStreamAttachMemAsync 7000 per_thread;
            }

            // Events
            EventCreate (ph_event: Ptr, flags: u32)
                => context::observed();
            {
                133 cuEventCreate cuEventCreate 2000 legacy;
            }
            EventRecord (event: Handle, stream: Handle)
                => event::record(event, stream);
            {
                134 cuEventRecord cuEventRecord 2000 legacy;
                135 cuEventRecord_ptsz cuEventRecord 7000 per_thread;
            }
            EventRecord (event: Handle, stream: Handle, flags: u32)
                => event::record(event, stream);
            {
                136 cuEventRecordWithFlags cuEventRecordWithFlags 11010 legacy;
                137 cuEventRecordWithFlags_ptsz cuEventRecordWithFlags 11010 per_thread;
            }
            EventDestroy (event: Handle)
                => event::destroy(event);
            {
                138 cuEventDestroy cuEventDestroy 2000 legacy;
                139 cuEventDestroy_v2 cuEventDestroy 4000 legacy;
            }
            EventSynchronize (event: Handle)
                => event::completes(event);
            {
                140 cuEventSynchronize cuEventSynchronize 2000 legacy;
            }
            EventQuery (event: Handle)
                => event::completes(event);
            {
                141 cuEventQuery cuEventQuery 2000 legacy;
            }

            // Allocation
            Allocate (device_pointer: Ptr, bytesize: usize)
                => context::allocates(bytesize, device_pointer);
            {
                142 cuMemAlloc_v2 cuMemAlloc 3020 legacy;
            }
            Allocate (device_pointer: Ptr, p_pitch: Ptr, width_in_bytes: usize, height: usize, element_size_bytes: u32)
                => context::allocates(width_in_bytes.wrapping_mul(height), device_pointer);
            {
                143 cuMemAllocPitch_v2 cuMemAllocPitch 3020 legacy;
            }
            Allocate (device_pointer: Ptr, bytesize: usize, flags: u32)
                => context::allocates(bytesize, device_pointer);
            {
                144 cuMemAllocManaged cuMemAllocManaged 6000 legacy;
            }
            Allocate (pp: Ptr, bytesize: usize)
                => context::allocates(bytesize, pp);
            {
                145 cuMemAllocHost_v2 cuMemAllocHost 3020 legacy;
            }
            Allocate (pp: Ptr, bytesize: usize, flags: u32)
                => context::allocates(bytesize, pp);
            {
                146 cuMemHostAlloc cuMemHostAlloc 2020 legacy;
            }
            Allocate (p: Ptr, bytesize: usize, flags: u32)
                => context::allocates(bytesize, p);
            {
                147 cuMemHostRegister cuMemHostRegister 4000 legacy;
                148 cuMemHostRegister_v2 cuMemHostRegister 6050 legacy;
            }
            Free (device_pointer: u64)
                => context::frees(device_pointer as u64);
            {
                149 cuMemFree_v2 cuMemFree 3020 legacy;
            }
            Free (p: Ptr)
                => context::frees(p as u64);
            {
                150 cuMemFreeHost cuMemFreeHost 2000 legacy;
                151 cuMemHostUnregister cuMemHostUnregister 4000 legacy;
            }

            Free (array: Handle)
                => context::frees(array as u64);
            {
                263 cuArrayDestroy cuArrayDestroy 2000 legacy;
                264 cuMipmappedArrayDestroy cuMipmappedArrayDestroy 5000 legacy;
            }

            // Virtual memory, and memory of other processes
            Query (ptr: u64, size: usize, offset: usize, handle: u64, flags: u64)
                => context::waits_for_context();
            {
                265 cuMemMap cuMemMap 10020 legacy;
            }
            Query (ptr: u64, size: usize)
                => context::waits_for_context();
            {
                266 cuMemUnmap cuMemUnmap 10020 legacy;
            }
            Query (ptr: u64, size: usize, desc: Ptr, count: usize)
                => context::waits_for_context();
            {
                267 cuMemSetAccess cuMemSetAccess 10020 legacy;
            }
            Query (device_pointer: Ptr, handle: IpcHandle, flags: u32)
                => context::waits_for_context();
            {
                268 cuIpcOpenMemHandle cuIpcOpenMemHandle 4010 legacy;
                269 cuIpcOpenMemHandle_v2 cuIpcOpenMemHandle 11000 legacy;
            }
            Query (event: Ptr, handle: IpcHandle)
                => context::waits_for_context();
            {
                270 cuIpcOpenEventHandle cuIpcOpenEventHandle 4010 legacy;
            }
            Free (device_pointer: u64)
                => context::frees(device_pointer);
            {
                271 cuIpcCloseMemHandle cuIpcCloseMemHandle 4010 legacy;
            }

            // Allocation in stream order
            AllocateAsync (device_pointer: Ptr, bytesize: usize, stream: Handle)
                => copy::allocates(bytesize, device_pointer, stream);
            {
                152 cuMemAllocAsync cuMemAllocAsync 11020 legacy;
                153 cuMemAllocAsync_ptsz cuMemAllocAsync 11020 per_thread;
            }
            AllocateAsync (device_pointer: Ptr, bytesize: usize, pool: Handle, stream: Handle)
                => copy::allocates(bytesize, device_pointer, stream);
            {
                154 cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync 11020 legacy;
                155 cuMemAllocFromPoolAsync_ptsz cuMemAllocFromPoolAsync 11020 per_thread;
            }
            FreeAsync (device_pointer: u64, stream: Handle)
                => copy::frees(device_pointer, stream);
            {
                156 cuMemFreeAsync cuMemFreeAsync 11020 legacy;
                157 cuMemFreeAsync_ptsz cuMemFreeAsync 11020 per_thread;
            }

            // Copies
            Copy (dst: u64, src: u64, byte_count: usize)
                => copy::synchronous(dst, byte_count);
            {
                158 cuMemcpy cuMemcpy 4000 legacy;
                159 cuMemcpy_ptds cuMemcpy 7000 per_thread;
            }
            // Asynchronous for the host, and behind all work of both contexts (documented, and seen on a card).
            CopyAsync (dst_device: u64, dst_context: Handle, src_device: u64, src_context: Handle, byte_count: usize)
                => copy::asynchronous(dst_device, byte_count, std::ptr::null_mut());
            {
                160 cuMemcpyPeer cuMemcpyPeer 4000 legacy;
                161 cuMemcpyPeer_ptds cuMemcpyPeer 7000 per_thread;
            }
            Copy (dst_device: u64, src_host: Ptr, byte_count: usize)
                => copy::synchronous(dst_device, byte_count);
            {
                162 cuMemcpyHtoD_v2 cuMemcpyHtoD 3020 legacy;
                163 cuMemcpyHtoD_v2_ptds cuMemcpyHtoD 7000 per_thread;
            }
            Copy (dst_host: Ptr, src_device: u64, byte_count: usize)
                => copy::synchronous(dst_host as u64, byte_count);
            {
                164 cuMemcpyDtoH_v2 cuMemcpyDtoH 3020 legacy;
                165 cuMemcpyDtoH_v2_ptds cuMemcpyDtoH 7000 per_thread;
            }
            Copy (dst_device: u64, src_device: u64, byte_count: usize)
                => copy::synchronous(dst_device, byte_count);
            {
                166 cuMemcpyDtoD_v2 cuMemcpyDtoD 3020 legacy;
                167 cuMemcpyDtoD_v2_ptds cuMemcpyDtoD 7000 per_thread;
            }
            Copy (dst_array: Handle, dst_offset: usize, src_device: u64, byte_count: usize)
                => copy::synchronous(0, byte_count);
            {
                168 cuMemcpyDtoA_v2 cuMemcpyDtoA 3020 legacy;
                169 cuMemcpyDtoA_v2_ptds cuMemcpyDtoA 7000 per_thread;
            }
            Copy (dst_device: u64, src_array: Handle, src_offset: usize, byte_count: usize)
                => copy::synchronous(dst_device, byte_count);
            {
                170 cuMemcpyAtoD_v2 cuMemcpyAtoD 3020 legacy;
                171 cuMemcpyAtoD_v2_ptds cuMemcpyAtoD 7000 per_thread;
            }
            Copy (dst_array: Handle, dst_offset: usize, src_host: Ptr, byte_count: usize)
                => copy::synchronous(0, byte_count);
            {
                172 cuMemcpyHtoA_v2 cuMemcpyHtoA 3020 legacy;
                173 cuMemcpyHtoA_v2_ptds cuMemcpyHtoA 7000 per_thread;
            }
            Copy (dst_host: Ptr, src_array: Handle, src_offset: usize, byte_count: usize)
                => copy::synchronous(dst_host as u64, byte_count);
            {
                174 cuMemcpyAtoH_v2 cuMemcpyAtoH 3020 legacy;
                175 cuMemcpyAtoH_v2_ptds cuMemcpyAtoH 7000 per_thread;
            }
            Copy (dst_array: Handle, dst_offset: usize, src_array: Handle, src_offset: usize, byte_count: usize)
                => copy::synchronous(0, byte_count);
            {
                176 cuMemcpyAtoA_v2 cuMemcpyAtoA 3020 legacy;
                177 cuMemcpyAtoA_v2_ptds cuMemcpyAtoA 7000 per_thread;
            }
            Copy (p_copy: Ptr)
                => copy::synchronous(0, 0);
            {
                178 cuMemcpy2D_v2 cuMemcpy2D 3020 legacy;
                179 cuMemcpy2D_v2_ptds cuMemcpy2D 7000 per_thread;
                180 cuMemcpy2DUnaligned_v2 cuMemcpy2DUnaligned 3020 legacy;
                181 cuMemcpy2DUnaligned_v2_ptds cuMemcpy2DUnaligned 7000 per_thread;
                182 cuMemcpy3D_v2 cuMemcpy3D 3020 legacy;
                183 cuMemcpy3D_v2_ptds cuMemcpy3D 7000 per_thread;
            }
            CopyAsync (p_copy: Ptr)
                => copy::asynchronous(0, 0, std::ptr::null_mut());
            {
                184 cuMemcpy3DPeer cuMemcpy3DPeer 4000 legacy;
                185 cuMemcpy3DPeer_ptds cuMemcpy3DPeer 7000 per_thread;
            }
            CopyAsync (dst: u64, src: u64, byte_count: usize, stream: Handle)
                => copy::copies(dst, byte_count, [dst, src], stream);
            {
                186 cuMemcpyAsync cuMemcpyAsync 4000 legacy;
                187 cuMemcpyAsync_ptsz cuMemcpyAsync 7000 per_thread;
            }
            CopyAsync (dst_device: u64, dst_context: Handle, src_device: u64, src_context: Handle, byte_count: usize, stream: Handle)
                => copy::asynchronous(dst_device, byte_count, stream);
            {
                188 cuMemcpyPeerAsync cuMemcpyPeerAsync 4000 legacy;
                189 cuMemcpyPeerAsync_ptsz cuMemcpyPeerAsync 7000 per_thread;
            }
            CopyAsync (dst_device: u64, src_host: Ptr, byte_count: usize, stream: Handle)
                => copy::copies(dst_device, byte_count, [src_host as u64, 0], stream);
            {
                190 cuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync 3020 legacy;
                191 cuMemcpyHtoDAsync_v2_ptsz cuMemcpyHtoDAsync 7000 per_thread;
            }
            CopyAsync (dst_host: Ptr, src_device: u64, byte_count: usize, stream: Handle)
                => copy::copies(dst_host as u64, byte_count, [dst_host as u64, 0], stream);
            {
                192 cuMemcpyDtoHAsync_v2 cuMemcpyDtoHAsync 3020 legacy;
                193 cuMemcpyDtoHAsync_v2_ptsz cuMemcpyDtoHAsync 7000 per_thread;
            }
            CopyAsync (dst_device: u64, src_device: u64, byte_count: usize, stream: Handle)
                => copy::asynchronous(dst_device, byte_count, stream);
            {
                194 cuMemcpyDtoDAsync_v2 cuMemcpyDtoDAsync 3020 legacy;
                195 cuMemcpyDtoDAsync_v2_ptsz cuMemcpyDtoDAsync 7000 per_thread;
            }
            CopyAsync (dst_array: Handle, dst_offset: usize, src_host: Ptr, byte_count: usize, stream: Handle)
                => copy::copies(0, byte_count, [src_host as u64, 0], stream);
            {
                196 cuMemcpyHtoAAsync_v2 cuMemcpyHtoAAsync 3020 legacy;
                197 cuMemcpyHtoAAsync_v2_ptsz cuMemcpyHtoAAsync 7000 per_thread;
            }
            CopyAsync (dst_host: Ptr, src_array: Handle, src_offset: usize, byte_count: usize, stream: Handle)
                => copy::copies(dst_host as u64, byte_count, [dst_host as u64, 0], stream);
            {
                198 cuMemcpyAtoHAsync_v2 cuMemcpyAtoHAsync 3020 legacy;
                199 cuMemcpyAtoHAsync_v2_ptsz cuMemcpyAtoHAsync 7000 per_thread;
            }
            CopyAsync (p_copy: Ptr, stream: Handle)
                => copy::copies_2d(p_copy, stream);
            {
                200 cuMemcpy2DAsync_v2 cuMemcpy2DAsync 3020 legacy;
                201 cuMemcpy2DAsync_v2_ptsz cuMemcpy2DAsync 7000 per_thread;
            }
            CopyAsync (p_copy: Ptr, stream: Handle)
                => copy::copies_3d(p_copy, stream);
            {
                202 cuMemcpy3DAsync_v2 cuMemcpy3DAsync 3020 legacy;
                203 cuMemcpy3DAsync_v2_ptsz cuMemcpy3DAsync 7000 per_thread;
                204 cuMemcpy3DPeerAsync cuMemcpy3DPeerAsync 4000 legacy;
                205 cuMemcpy3DPeerAsync_ptsz cuMemcpy3DPeerAsync 7000 per_thread;
            }
            CopyAsync (dsts: Ptr, srcs: Ptr, sizes: Ptr, count: usize, attrs: Ptr, attrs_idxs: Ptr, num_attrs: usize, fail_idx: Ptr, stream: Handle)
                => copy::asynchronous(0, 0, stream);
            {
                206 cuMemcpyBatchAsync cuMemcpyBatchAsync 12080 legacy;
                207 cuMemcpyBatchAsync_ptsz cuMemcpyBatchAsync 12080 per_thread;
            }
            CopyAsync (dsts: Ptr, srcs: Ptr, sizes: Ptr, count: usize, attrs: Ptr, attrs_idxs: Ptr, num_attrs: usize, stream: Handle)
                => copy::asynchronous(0, 0, stream);
            {
                208 cuMemcpyBatchAsync_v2 cuMemcpyBatchAsync 13000 legacy;
                209 cuMemcpyBatchAsync_v2_ptsz cuMemcpyBatchAsync 13000 per_thread;
            }
            CopyAsync (num_ops: usize, op_list: Ptr, fail_idx: Ptr, flags: u64, stream: Handle)
                => copy::asynchronous(0, 0, stream);
            {
                210 cuMemcpy3DBatchAsync cuMemcpy3DBatchAsync 12080 legacy;
                211 cuMemcpy3DBatchAsync_ptsz cuMemcpy3DBatchAsync 12080 per_thread;
            }
            CopyAsync (num_ops: usize, op_list: Ptr, flags: u64, stream: Handle)
                => copy::asynchronous(0, 0, stream);
            {
                212 cuMemcpy3DBatchAsync_v2 cuMemcpy3DBatchAsync 13000 legacy;
                213 cuMemcpy3DBatchAsync_v2_ptsz cuMemcpy3DBatchAsync 13000 per_thread;
            }
            CopyAsync (dev_ptr: u64, count: usize, dst_device: i32, stream: Handle)
                => copy::asynchronous(0, count, stream);
            {
                214 cuMemPrefetchAsync cuMemPrefetchAsync 8000 legacy;
                215 cuMemPrefetchAsync_ptsz cuMemPrefetchAsync 8000 per_thread;
            }
            CopyAsync (dev_ptr: u64, count: usize, location: u64, flags: u32, stream: Handle)
                => copy::asynchronous(0, count, stream);
            {
                216 cuMemPrefetchAsync_v2 cuMemPrefetchAsync 12020 legacy;
                217 cuMemPrefetchAsync_v2_ptsz cuMemPrefetchAsync 12020 per_thread;
            }
            CopyAsync (dptrs: Ptr, sizes: Ptr, count: usize, prefetch_locs: Ptr, prefetch_loc_idxs: Ptr, num_prefetch_locs: usize, flags: u64, stream: Handle)
                => copy::asynchronous(0, 0, stream);
            {
                218 cuMemPrefetchBatchAsync cuMemPrefetchBatchAsync 13000 legacy;
                219 cuMemPrefetchBatchAsync_ptsz cuMemPrefetchBatchAsync 13000 per_thread;
                220 cuMemDiscardAndPrefetchBatchAsync cuMemDiscardAndPrefetchBatchAsync 13000 legacy;
                221 cuMemDiscardAndPrefetchBatchAsync_ptsz cuMemDiscardAndPrefetchBatchAsync 13000 per_thread;
            }
            CopyAsync (dptrs: Ptr, sizes: Ptr, count: usize, flags: u64, stream: Handle)
                => copy::asynchronous(0, 0, stream);
            {
                222 cuMemDiscardBatchAsync cuMemDiscardBatchAsync 13000 legacy;
                223 cuMemDiscardBatchAsync_ptsz cuMemDiscardBatchAsync 13000 per_thread;
            }
            Set (dst_device: u64, uc: u8, n: usize)
                => copy::synchronous(dst_device, n);
            {
                224 cuMemsetD8_v2 cuMemsetD8 3020 legacy;
                225 cuMemsetD8_v2_ptds cuMemsetD8 7000 per_thread;
            }
            Set (dst_device: u64, us: u16, n: usize)
                => copy::synchronous(dst_device, n.wrapping_mul(2));
            {
                226 cuMemsetD16_v2 cuMemsetD16 3020 legacy;
                227 cuMemsetD16_v2_ptds cuMemsetD16 7000 per_thread;
            }
            Set (dst_device: u64, ui: u32, n: usize)
                => copy::synchronous(dst_device, n.wrapping_mul(4));
            {
                228 cuMemsetD32_v2 cuMemsetD32 3020 legacy;
                229 cuMemsetD32_v2_ptds cuMemsetD32 7000 per_thread;
            }
            Set (dst_device: u64, dst_pitch: usize, uc: u8, width: usize, height: usize)
                => copy::synchronous(dst_device, pitched(dst_pitch, width, height));
            {
                230 cuMemsetD2D8_v2 cuMemsetD2D8 3020 legacy;
                231 cuMemsetD2D8_v2_ptds cuMemsetD2D8 7000 per_thread;
            }
            Set (dst_device: u64, dst_pitch: usize, us: u16, width: usize, height: usize)
                => copy::synchronous(dst_device, pitched(dst_pitch, width.wrapping_mul(2), height));
            {
                232 cuMemsetD2D16_v2 cuMemsetD2D16 3020 legacy;
                233 cuMemsetD2D16_v2_ptds cuMemsetD2D16 7000 per_thread;
            }
            Set (dst_device: u64, dst_pitch: usize, ui: u32, width: usize, height: usize)
                => copy::synchronous(dst_device, pitched(dst_pitch, width.wrapping_mul(4), height));
            {
                234 cuMemsetD2D32_v2 cuMemsetD2D32 3020 legacy;
                235 cuMemsetD2D32_v2_ptds cuMemsetD2D32 7000 per_thread;
            }
            SetAsync (dst_device: u64, uc: u8, n: usize, stream: Handle)
                => copy::asynchronous(dst_device, n, stream);
            {
                236 cuMemsetD8Async cuMemsetD8Async 3020 legacy;
                237 cuMemsetD8Async_ptsz cuMemsetD8Async 7000 per_thread;
            }
            SetAsync (dst_device: u64, us: u16, n: usize, stream: Handle)
                => copy::asynchronous(dst_device, n.wrapping_mul(2), stream);
            {
                238 cuMemsetD16Async cuMemsetD16Async 3020 legacy;
                239 cuMemsetD16Async_ptsz cuMemsetD16Async 7000 per_thread;
            }
            SetAsync (dst_device: u64, ui: u32, n: usize, stream: Handle)
                => copy::asynchronous(dst_device, n.wrapping_mul(4), stream);
            {
                240 cuMemsetD32Async cuMemsetD32Async 3020 legacy;
                241 cuMemsetD32Async_ptsz cuMemsetD32Async 7000 per_thread;
            }
            SetAsync (dst_device: u64, dst_pitch: usize, uc: u8, width: usize, height: usize, stream: Handle)
                => copy::asynchronous(dst_device, pitched(dst_pitch, width, height), stream);
            {
                242 cuMemsetD2D8Async cuMemsetD2D8Async 3020 legacy;
                243 cuMemsetD2D8Async_ptsz cuMemsetD2D8Async 7000 per_thread;
            }
            SetAsync (dst_device: u64, dst_pitch: usize, us: u16, width: usize, height: usize, stream: Handle)
                => copy::asynchronous(dst_device, pitched(dst_pitch, width.wrapping_mul(2), height), stream);
            {
                244 cuMemsetD2D16Async cuMemsetD2D16Async 3020 legacy;
                245 cuMemsetD2D16Async_ptsz cuMemsetD2D16Async 7000 per_thread;
            }
            SetAsync (dst_device: u64, dst_pitch: usize, ui: u32, width: usize, height: usize, stream: Handle)
                => copy::asynchronous(dst_device, pitched(dst_pitch, width.wrapping_mul(4), height), stream);
            {
                246 cuMemsetD2D32Async cuMemsetD2D32Async 3020 legacy;
                247 cuMemsetD2D32Async_ptsz cuMemsetD2D32Async 7000 per_thread;
            }
        }
    };
}
