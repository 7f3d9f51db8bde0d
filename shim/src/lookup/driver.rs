//! The real driver: its functions, by entry point, and those that the guard calls itself.
//!
//! The guard adopts the first driver, and leaves a second copy alone ([`PassThrough::SecondDriver`]). A hook calls the function whose place it takes,
//! the driver's or an interposer's; the first reference that it is bound for sets that for good. The guard's own calls go to the driver.
//!
//! Must not: replace the adopted driver, or allocate.

use super::adopted::{own_calls, Adopted};
use super::dynamic::Dynamic;
use super::dynamic_linker::{self, open_loaded};
use super::link_map::object_of;
use super::objects::{file_name, Loaded};
use crate::runtime::hot::HOT;
use lazyguard_core::api::{EntryPoint, DRIVER_ENTRY_POINTS, ENTRY_POINTS};
use lazyguard_core::report::PassThrough;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The functions that the hooks call; null until adopted. The entries of those in [`HOT`] stay empty: see [`real_of`].
static REAL: [AtomicPtr<c_void>; ENTRY_POINTS.len()] = [const { AtomicPtr::new(null_mut()) }; ENTRY_POINTS.len()];

#[inline(always)]
fn real_of(index: usize) -> &'static AtomicPtr<c_void> {
    const LAUNCH: usize = EntryPoint::named("cuLaunchKernel").index();
    const LAUNCH_EX: usize = EntryPoint::named("cuLaunchKernelEx").index();
    match index {
        LAUNCH => &HOT.launches[0],
        LAUNCH_EX => &HOT.launches[1],
        _ => &REAL[index],
    }
}

/// Its own functions tell its pointers.
pub static ADOPTED: Adopted<{ DRIVER_ENTRY_POINTS.len() }> = Adopted::new(0, PassThrough::SecondDriver);
static IS_KEPT: AtomicBool = AtomicBool::new(false);

/// `None` only where the program calls a hook that it was never given.
#[inline]
pub fn real(entry_point: EntryPoint) -> Option<*mut c_void> {
    let function = real_of(entry_point.index()).load(Ordering::Relaxed);
    (!function.is_null()).then_some(function)
}

pub fn adopt(object: &Loaded<'_>) -> bool {
    let dynamic = object.dynamic();
    // A shell around another library has no function of its own.
    is_driver(dynamic, object.file_name())
        && ADOPTED.is_free_for(object)
        && dynamic.defines(c"cuInit").is_some()
        && ADOPTED.adopt(object, || OWN.look_up(Some(dynamic)))
}

/// Whether an object is the driver, by its own name or its file's.
pub fn is_driver(dynamic: Dynamic, path: &[u8]) -> bool {
    let is_own = |soname| soname == c"libcuda.so.1" || soname == c"libcuda.so";
    dynamic.soname().map_or_else(|| file_name(path).starts_with(b"libcuda.so"), is_own)
}

/// A driver that is there at the start is not unloaded. A handle would run its constructors at once, before the C library's.
pub fn is_there_from_the_start() {
    IS_KEPT.store(ADOPTED.is_there(), Ordering::Relaxed);
}

/// The guard asks the driver from its own threads.
pub fn keep_loaded() {
    if !ADOPTED.is_there() || IS_KEPT.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Some(map) = object_of(ADOPTED.addresses().start as *const c_void) {
        open_loaded(map.path());
    }
}

/// Whether the hook calls this very function; the first one that it is wanted for, it does.
pub fn calls(entry_point: EntryPoint, function: *mut c_void) -> bool {
    let place = real_of(entry_point.index());
    let called = place.load(Ordering::Relaxed);
    if !called.is_null() {
        return called == function;
    }
    let is_driver_s = ADOPTED.function(entry_point) == function;
    let may_be = ADOPTED.is_there() && !function.is_null();
    if !may_be || !is_driver_s && !dynamic_linker::addresses_of_another().contains(&(function as u64)) {
        return false;
    }
    let stored = place.compare_exchange(null_mut(), function, Ordering::Relaxed, Ordering::Relaxed);
    stored.is_ok() || stored == Err(function)
}

/// A function that the driver gave out but does not export.
pub fn remember(entry_point: EntryPoint, pointer: *mut c_void) {
    for place in ADOPTED.place(entry_point).into_iter().chain([real_of(entry_point.index())]) {
        let _ = place.compare_exchange(null_mut(), pointer, Ordering::Relaxed, Ordering::Relaxed);
    }
}

pub type Handle = *mut c_void;

pub const SUCCESS: i32 = 0;
/// The result without a driver, or without the function in it.
pub const NOT_FOUND: i32 = 500;
/// `CU_LIBRARY_BINARY_IS_PRESERVED`: the driver may rely on the bytes until the unload. CUDA's runtimes state it.
pub const BINARY_IS_PRESERVED: i32 = 1;
pub const LAUNCH_FAILED: i32 = 719;
pub const NOT_READY: i32 = 600;

own_calls! {
    proc_address_v2 = c"cuGetProcAddress_v2"
        (symbol: *const c_char, pointer: *mut Handle, version: c_int, flags: u64, status: *mut c_int);
    proc_address = c"cuGetProcAddress" (symbol: *const c_char, pointer: *mut Handle, version: c_int, flags: u64);
    driver_version = c"cuDriverGetVersion" (version: *mut c_int);
    ctx_get_current = c"cuCtxGetCurrent" (context: *mut Handle);
    ctx_push = c"cuCtxPushCurrent_v2" (context: Handle);
    ctx_pop = c"cuCtxPopCurrent_v2" (context: *mut Handle);
    context_id = c"cuCtxGetId" (context: Handle, id: *mut u64);
    primary_state = c"cuDevicePrimaryCtxGetState" (device: c_int, flags: *mut c_uint, active: *mut c_int);
    /// 1 eager, 2 lazy.
    loading_mode = c"cuModuleGetLoadingMode" (mode: *mut c_int);
    module_load_data = c"cuModuleLoadDataEx"
        (module: *mut Handle, image: *const c_void, count: c_uint, options: *mut c_int, values: *mut Handle);
    module_function = c"cuModuleGetFunction" (function: *mut Handle, module: Handle, name: *const c_char);
    module_function_count = c"cuModuleGetFunctionCount" (count: *mut c_uint, module: Handle);
    /// Lists the functions without loading them.
    module_functions = c"cuModuleEnumerateFunctions" (functions: *mut Handle, count: c_uint, module: Handle);
    library_load_data = c"cuLibraryLoadData"
        (library: *mut Handle, code: *const c_void, options: *mut c_int, values: *mut Handle, count: c_uint,
         library_options: *mut c_int, library_values: *mut Handle, library_count: c_uint);
    /// Brings the module into the current context.
    library_module = c"cuLibraryGetModule" (module: *mut Handle, library: Handle);
    library_kernel = c"cuLibraryGetKernel" (kernel: *mut Handle, library: Handle, name: *const c_char);
    library_kernel_count = c"cuLibraryGetKernelCount" (count: *mut c_uint, library: Handle);
    library_kernels = c"cuLibraryEnumerateKernels" (kernels: *mut Handle, count: c_uint, library: Handle);
    /// Loads it into the current context.
    kernel_function = c"cuKernelGetFunction" (function: *mut Handle, kernel: Handle);
    kernel_library = c"cuKernelGetLibrary" (library: *mut Handle, kernel: Handle);
    kernel_name = c"cuKernelGetName" (name: *mut *const c_char, kernel: Handle);
    function_name = c"cuFuncGetName" (name: *mut *const c_char, function: Handle);
    function_is_loaded = c"cuFuncIsLoaded" (state: *mut c_int, function: Handle);
    function_load = c"cuFuncLoad" (function: Handle);
    /// Before 12.4 this loads the function.
    function_attribute = c"cuFuncGetAttribute" (value: *mut c_int, attribute: c_int, function: Handle);
    kernel_attribute = c"cuKernelGetAttribute" (value: *mut c_int, attribute: c_int, kernel: Handle, device: c_int);
    device_attribute = c"cuDeviceGetAttribute" (value: *mut c_int, attribute: c_int, device: c_int);
    device_name = c"cuDeviceGetName" (name: *mut c_char, bytes: c_int, device: c_int);
    /// The size has to be that of the attribute.
    core_dump_attribute = c"cuCoredumpGetAttributeGlobal" (which: c_int, value: *mut c_void, bytes: *mut usize);
    /// Without effect once there is a context, and deadly before `cuInit`.
    set_core_dump_attribute = c"cuCoredumpSetAttributeGlobal" (which: c_int, value: *mut c_void, bytes: *mut usize);
    /// Since 13.2: the callback is called when a dump begins.
    core_dump_begins = c"cuCoredumpRegisterStartCallback" (callback: Handle, data: Handle, registered: *mut Handle);
    pointer_attribute = c"cuPointerGetAttribute" (value: *mut c_void, attribute: c_int, address: u64);
    mem_free = c"cuMemFree_v2" (address: u64);
    mem_free_host = c"cuMemFreeHost" (address: Handle);
    mem_host_unregister = c"cuMemHostUnregister" (address: Handle);
    module_unload = c"cuModuleUnload" (module: Handle);
    library_unload = c"cuLibraryUnload" (library: Handle);
    memory_info = c"cuMemGetInfo_v2" (free: *mut usize, total: *mut usize);
    event_create = c"cuEventCreate" (event: *mut Handle, flags: c_uint);
    event_query = c"cuEventQuery" (event: Handle);
    ctx_record_event = c"cuCtxRecordEvent" (context: Handle, event: Handle);
    stream_query = c"cuStreamQuery" (stream: Handle);
    stream_context = c"cuStreamGetCtx" (stream: Handle, context: *mut Handle);
    stream_is_capturing = c"cuStreamIsCapturing" (stream: Handle, status: *mut c_int);
    graph_nodes = c"cuGraphGetNodes" (graph: Handle, nodes: *mut Handle, count: *mut usize);
    graph_node_type = c"cuGraphNodeGetType" (node: Handle, kind: *mut c_int);
    kernel_node_v2 = c"cuGraphKernelNodeGetParams_v2" (node: Handle, params: *mut c_void);
    /// The same before.
    kernel_node = c"cuGraphKernelNodeGetParams" (node: Handle, params: *mut c_void);
    host_node = c"cuGraphHostNodeGetParams" (node: Handle, params: *mut c_void);
    event_wait_node = c"cuGraphEventWaitNodeGetEvent" (node: Handle, event: *mut Handle);
    event_record_node = c"cuGraphEventRecordNodeGetEvent" (node: Handle, event: *mut Handle);
    memory_operations_node = c"cuGraphBatchMemOpNodeGetParams" (node: Handle, params: *mut c_void);
    child_graph = c"cuGraphChildGraphNodeGetGraph" (node: Handle, graph: *mut Handle);
    exchange_capture_mode = c"cuThreadExchangeStreamCaptureMode" (mode: *mut c_int);
}

/// Whether the driver answers with this pointer to exactly this version.
pub fn answers_alike(symbol: *const c_char, version: i32, flags: u64, expected: Handle) -> bool {
    let (mut found, mut status) = (null_mut(), 0);
    let asked = match proc_address_v2(symbol, &mut found, version, flags, &mut status) {
        Some(SUCCESS) => Some(SUCCESS),
        _ => proc_address(symbol, &mut found, version, flags),
    };
    asked == Some(SUCCESS) && found == expected
}

/// Whether a function is loaded in the current context.
pub fn is_loaded(function: Handle) -> bool {
    /// `CU_FUNCTION_LOADING_STATE_LOADED`.
    const LOADED: i32 = 1;
    told(0, |state| function_is_loaded(state, function)) == Some(LOADED)
}

pub fn current_context() -> Handle {
    told(null_mut(), |context| ctx_get_current(context)).unwrap_or(null_mut())
}

/// The value that a call of the driver has filled in, if it has succeeded.
pub fn told<T>(mut value: T, ask: impl FnOnce(&mut T) -> Option<i32>) -> Option<T> {
    (ask(&mut value) == Some(SUCCESS)).then_some(value)
}
