//! The real driver: its functions, by entry point, and the few that the guard calls on its own behalf.
//!
//! The guard adopts one driver, the first that it sees, and looks up all its functions at once. It leaves alone a second copy, in
//! another namespace or under another name: the program gets that copy's functions as they are ([`PassThrough::SecondDriver`]).
//!
//! Where another interposer comes after this library in the search order and the driver after that, the hooks call the interposer's
//! function, as the program would have without this library. The guard's own calls go to the driver.
//!
//! Protocol: [`ADOPTED`] is set (Release) after the pointers are. Readers of a pointer need no order, because a null one sends them
//! to [`resolve`], and every thread that looks a pointer up finds the same one.
//!
//! Must not: replace the adopted driver, or allocate.

use super::dynamic_linker::{self, open_loaded, Symbol};
use super::objects;
use super::table::{self, hook, hook_at, HookTable};
use crate::runtime::hot::HOT;
use crate::runtime::{door, pass_through};
use lazyguard_core::api::{EntryPoint, DRIVER_ENTRY_POINTS, ENTRY_POINTS};
use lazyguard_core::report::PassThrough;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What the hooks call; null for what is not of the driver. Of those in [`HOT`] the place here stays empty: see [`real_of`].
static REAL: [AtomicPtr<c_void>; ENTRY_POINTS.len()] = [const { AtomicPtr::new(null_mut()) }; ENTRY_POINTS.len()];

/// Where the function is that the hook of the entry point with this index calls.
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

/// The driver's own functions, to know its pointers by.
static EXPORTED: [AtomicPtr<c_void>; ENTRY_POINTS.len()] = [const { AtomicPtr::new(null_mut()) }; ENTRY_POINTS.len()];
static ADOPTED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The real function of an entry point, if a driver is loaded that has it. The caller may be the first to look one up, so it passes
/// its table of hooks.
#[inline]
pub fn real(entry_point: EntryPoint, hooks: &'static HookTable) -> Option<*mut c_void> {
    let function = real_of(entry_point.index()).load(Ordering::Relaxed);
    if !function.is_null() {
        return Some(function);
    }
    let found = first(entry_point, hooks);
    (!found.is_null()).then_some(found)
}

/// The same where the hooks are registered already.
pub fn known(entry_point: EntryPoint) -> Option<*mut c_void> {
    let function = real_of(entry_point.index()).load(Ordering::Relaxed);
    if function.is_null() {
        return resolve(entry_point);
    }
    Some(function)
}

/// See [`real`]; null where there is none. A pointer, because an `Option` here costs each call a comparison.
#[cold]
#[inline(never)]
fn first(entry_point: EntryPoint, hooks: &'static HookTable) -> *mut c_void {
    table::register(hooks);
    resolve(entry_point).unwrap_or(null_mut())
}

/// Finds a function that is called before any look-up went through this library: a program linked with the driver.
#[cold]
fn resolve(entry_point: EntryPoint) -> Option<*mut c_void> {
    door::inside(|| resolve_inside(entry_point)).flatten()
}

fn resolve_inside(entry_point: EntryPoint) -> Option<*mut c_void> {
    adopt_loaded();
    let mut function = real_of(entry_point.index()).load(Ordering::Relaxed);
    if function.is_null() && !adopted() {
        // No driver, but the program may be linked with something else that has the function. It is called as it is; the
        // guard is not armed by it.
        function = next(entry_point).unwrap_or(null_mut());
    }
    (!function.is_null()).then_some(function)
}

/// Whether a driver was found.
pub fn adopted() -> bool {
    !ADOPTED.load(Ordering::Acquire).is_null()
}

/// What comes after this library in the search order under the entry point's name.
fn next(entry_point: EntryPoint) -> Option<*mut c_void> {
    let found = dynamic_linker::real(libc::RTLD_NEXT, Symbol::of(entry_point)?.name());
    (!found.is_null() && found != hook(entry_point)).then_some(found)
}

/// Adopts the driver if one is loaded under its usual name.
pub fn adopt_loaded() -> bool {
    if !ADOPTED.load(Ordering::Acquire).is_null() {
        return true;
    }
    let handle = open_loaded(c"libcuda.so.1");
    if !handle.is_null() {
        return adopt(handle);
    }
    // Linked under another file name: what comes behind this library in the search order, if that is a driver.
    let found = dynamic_linker::real(libc::RTLD_NEXT, c"cuInit");
    !found.is_null() && adopt_at(found)
}

/// Adopts the driver that an address lies in; `false` if it lies elsewhere, or in a driver other than the adopted one.
pub fn adopt_at(address: *const c_void) -> bool {
    let Some(map) = objects::object_of(address).filter(|map| objects::is_driver(map)) else { return false };
    let this = std::ptr::from_ref(map).cast_mut().cast::<c_void>();
    let adopted = ADOPTED.load(Ordering::Acquire);
    if !adopted.is_null() {
        if adopted != this {
            pass_through::note(PassThrough::SecondDriver);
        }
        return adopted == this;
    }
    // A handle of our own keeps the driver in place as long as our pointers into it are; the GNU C library's handle is
    // the loader's record itself. A driver in another namespace is not found by path from here and is left alone.
    let handle = open_loaded(map.path());
    if handle != this {
        pass_through::note(PassThrough::SecondDriver);
        return false;
    }
    adopt(handle)
}

fn adopt(handle: *mut c_void) -> bool {
    // Only a driver in the global scope can have an interposer ahead of it, but for one that answers look-ups as well.
    let probe = dynamic_linker::real(libc::RTLD_NEXT, c"cuDriverGetVersion");
    let in_scope = !probe.is_null() || dynamic_linker::another_is_next();
    for (index, place) in EXPORTED.iter().enumerate().take(DRIVER_ENTRY_POINTS.len()) {
        let Some(symbol) = EntryPoint::from_index(index).and_then(Symbol::of) else { continue };
        let exported = dynamic_linker::real(handle, symbol.name());
        // A handle that was opened by name may be a stub that searches on and meets this library's own export.
        if exported.is_null() || exported == hook_at(index) {
            continue;
        }
        let next = if in_scope { dynamic_linker::real(libc::RTLD_NEXT, symbol.name()) } else { null_mut() };
        place.store(exported, Ordering::Relaxed);
        real_of(index).store(if next.is_null() { exported } else { next }, Ordering::Relaxed);
    }
    OWN.look_up(handle);
    ADOPTED.store(handle, Ordering::Release);
    true
}

/// The entry point among `candidates` whose real function a pointer is: the driver's, or that of an interposer behind this library.
pub fn form_of(pointer: *mut c_void, candidates: impl Iterator<Item = EntryPoint>) -> Option<EntryPoint> {
    let is = |place: &AtomicPtr<c_void>| place.load(Ordering::Relaxed) == pointer;
    let is_of = |entry_point: &EntryPoint| is(&EXPORTED[entry_point.index()]) || is(real_of(entry_point.index()));
    candidates.into_iter().find(is_of)
}

/// Whether the hook of this entry point calls a function that lies outside the driver, with which the next `dlsym` has answered. It does from
/// now on if the function lies in the object of that `dlsym`: an interposer's own, be it exported or not.
pub fn calls(entry_point: EntryPoint, function: *mut c_void) -> bool {
    if !adopt_loaded() {
        return false;
    }
    if known(entry_point) != Some(function) {
        if !dynamic_linker::is_of_the_next(function) {
            return false;
        }
        real_of(entry_point.index()).store(function, Ordering::Relaxed);
    }
    true
}

/// Remembers a function that the driver gave out but does not export.
pub fn remember(entry_point: EntryPoint, pointer: *mut c_void) {
    let index = entry_point.index();
    for place in [&EXPORTED[index], real_of(index)] {
        let _ = place.compare_exchange(null_mut(), pointer, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A handle or an opaque pointer of the driver's.
pub type Handle = *mut c_void;

/// The driver answered as asked.
pub const SUCCESS: i32 = 0;
/// The answer where no driver is loaded, or it lacks the function.
pub const NOT_FOUND: i32 = 500;
/// `CU_LIBRARY_BINARY_IS_PRESERVED`: the driver may rely on the bytes until the library is unloaded, and makes no copy of its own. CUDA's
/// runtimes state it.
pub const BINARY_IS_PRESERVED: i32 = 1;
/// `CUDA_ERROR_LAUNCH_FAILED`.
pub const LAUNCH_FAILED: i32 = 719;
/// `CUDA_ERROR_NOT_READY`.
pub const NOT_READY: i32 = 600;

macro_rules! own_calls {
    ($( $(#[$doc:meta])* $field:ident = $symbol:literal ($($arg:ident : $ty:ty),*); )+) => {
        /// Driver functions that the guard calls on its own behalf. Each returns `None` where the driver lacks it.
        struct Own { $($field: AtomicPtr<c_void>,)+ }

        static OWN: Own = Own { $($field: AtomicPtr::new(null_mut()),)+ };

        impl Own {
            fn look_up(&self, handle: *mut c_void) {
                $(
                    let found = dynamic_linker::real(handle, $symbol);
                    // The guard's own calls go to the driver, not through its hooks.
                    let own = EntryPoint::by_symbol($symbol.to_bytes()).map(hook);
                    if own != Some(found) {
                        self.$field.store(found, Ordering::Relaxed);
                    }
                )+
            }
        }

        $(
            $(#[$doc])*
            #[allow(clippy::too_many_arguments, reason = "the driver's functions have as many")]
            pub fn $field($($arg: $ty),*) -> Option<i32> {
                let function = OWN.$field.load(Ordering::Relaxed);
                if function.is_null() {
                    return None;
                }
                // SAFETY: the driver's function of this name has these arguments (cuda.h), and an enum for a result,
                // which is an integer at the boundary.
                let function: unsafe extern "C" fn($($ty),*) -> c_int = unsafe { std::mem::transmute(function) };
                // SAFETY: callers in this crate pass handles the driver gave out and pointers to live variables.
                Some(unsafe { function($($arg),*) })
            }
        )+
    };
}

own_calls! {
    /// The driver's own look-up, as of 12.0.
    proc_address_v2 = c"cuGetProcAddress_v2"
        (symbol: *const c_char, pointer: *mut Handle, version: c_int, flags: u64, status: *mut c_int);
    /// The driver's own look-up, as of 11.3.
    proc_address = c"cuGetProcAddress" (symbol: *const c_char, pointer: *mut Handle, version: c_int, flags: u64);
    /// The version of the CUDA interface the driver offers.
    driver_version = c"cuDriverGetVersion" (version: *mut c_int);
    /// The context that is current to the calling thread.
    ctx_get_current = c"cuCtxGetCurrent" (context: *mut Handle);
    /// Makes a context current on top of the thread's.
    ctx_push = c"cuCtxPushCurrent_v2" (context: Handle);
    /// Undoes [`ctx_push`].
    ctx_pop = c"cuCtxPopCurrent_v2" (context: *mut Handle);
    /// A number that no other context of the process has, also none that comes under the same handle.
    context_id = c"cuCtxGetId" (context: Handle, id: *mut u64);
    /// Whether a device's primary context is active.
    primary_state = c"cuDevicePrimaryCtxGetState" (device: c_int, flags: *mut c_uint, active: *mut c_int);
    /// The loading mode: 1 eager, 2 lazy.
    loading_mode = c"cuModuleGetLoadingMode" (mode: *mut c_int);
    /// Loads a module into the current context.
    module_load_data = c"cuModuleLoadDataEx"
        (module: *mut Handle, image: *const c_void, count: c_uint, options: *mut c_int, values: *mut Handle);
    /// A function of a module by its name; loads it.
    module_function = c"cuModuleGetFunction" (function: *mut Handle, module: Handle, name: *const c_char);
    /// How many functions a module has.
    module_function_count = c"cuModuleGetFunctionCount" (count: *mut c_uint, module: Handle);
    /// The functions of a module, without loading them.
    module_functions = c"cuModuleEnumerateFunctions" (functions: *mut Handle, count: c_uint, module: Handle);
    /// Makes a library of an image.
    library_load_data = c"cuLibraryLoadData"
        (library: *mut Handle, code: *const c_void, options: *mut c_int, values: *mut Handle, count: c_uint,
         library_options: *mut c_int, library_values: *mut Handle, library_count: c_uint);
    /// The module of a library in the current context; brings it there.
    library_module = c"cuLibraryGetModule" (module: *mut Handle, library: Handle);
    /// A kernel of a library by its name.
    library_kernel = c"cuLibraryGetKernel" (kernel: *mut Handle, library: Handle, name: *const c_char);
    /// How many kernels a library has.
    library_kernel_count = c"cuLibraryGetKernelCount" (count: *mut c_uint, library: Handle);
    /// The kernels of a library.
    library_kernels = c"cuLibraryEnumerateKernels" (kernels: *mut Handle, count: c_uint, library: Handle);
    /// The function of a kernel in the current context; loads it.
    kernel_function = c"cuKernelGetFunction" (function: *mut Handle, kernel: Handle);
    /// The library of a kernel.
    kernel_library = c"cuKernelGetLibrary" (library: *mut Handle, kernel: Handle);
    /// The name of a kernel.
    kernel_name = c"cuKernelGetName" (name: *mut *const c_char, kernel: Handle);
    /// The name of a function.
    function_name = c"cuFuncGetName" (name: *mut *const c_char, function: Handle);
    /// Whether a function is loaded.
    function_is_loaded = c"cuFuncIsLoaded" (state: *mut c_int, function: Handle);
    /// Loads a function.
    function_load = c"cuFuncLoad" (function: Handle);
    /// An attribute of a function; before 12.4 asking for one loads it.
    function_attribute = c"cuFuncGetAttribute" (value: *mut c_int, attribute: c_int, function: Handle);
    /// An attribute of a kernel on a device.
    kernel_attribute = c"cuKernelGetAttribute" (value: *mut c_int, attribute: c_int, kernel: Handle, device: c_int);
    /// An attribute of a device.
    device_attribute = c"cuDeviceGetAttribute" (value: *mut c_int, attribute: c_int, device: c_int);
    /// The name of a device.
    device_name = c"cuDeviceGetName" (name: *mut c_char, bytes: c_int, device: c_int);
    /// An attribute of GPU core dumps. The size has to be that of the attribute.
    core_dump_attribute = c"cuCoredumpGetAttributeGlobal" (which: c_int, value: *mut c_void, bytes: *mut usize);
    /// Sets one; without effect once there is a context, and deadly before `cuInit`.
    set_core_dump_attribute = c"cuCoredumpSetAttributeGlobal" (which: c_int, value: *mut c_void, bytes: *mut usize);
    /// An attribute of what lies at an address.
    pointer_attribute = c"cuPointerGetAttribute" (value: *mut c_void, attribute: c_int, address: u64);
    /// Releases device memory.
    mem_free = c"cuMemFree_v2" (address: u64);
    /// Releases host memory.
    mem_free_host = c"cuMemFreeHost" (address: Handle);
    /// Ends the registration of host memory.
    mem_host_unregister = c"cuMemHostUnregister" (address: Handle);
    /// Unloads a module.
    module_unload = c"cuModuleUnload" (module: Handle);
    /// Unloads a library.
    library_unload = c"cuLibraryUnload" (library: Handle);
    /// A limit of the current context.
    ctx_get_limit = c"cuCtxGetLimit" (value: *mut usize, limit: c_int);
    /// Sets it.
    ctx_set_limit = c"cuCtxSetLimit" (limit: c_int, value: usize);
    /// Free and total device memory.
    memory_info = c"cuMemGetInfo_v2" (free: *mut usize, total: *mut usize);
    /// Makes an event.
    event_create = c"cuEventCreate" (event: *mut Handle, flags: c_uint);
    /// Whether an event has completed.
    event_query = c"cuEventQuery" (event: Handle);
    /// Records an event behind everything in flight in a context.
    ctx_record_event = c"cuCtxRecordEvent" (context: Handle, event: Handle);
    /// Whether everything submitted to a stream has completed.
    stream_query = c"cuStreamQuery" (stream: Handle);
    /// The context of a stream.
    stream_context = c"cuStreamGetCtx" (stream: Handle, context: *mut Handle);
    /// Whether a stream is being captured.
    stream_is_capturing = c"cuStreamIsCapturing" (stream: Handle, status: *mut c_int);
    /// The nodes of a graph.
    graph_nodes = c"cuGraphGetNodes" (graph: Handle, nodes: *mut Handle, count: *mut usize);
    /// What kind of node one is.
    graph_node_type = c"cuGraphNodeGetType" (node: Handle, kind: *mut c_int);
    /// What a kernel node runs, as of 12.0.
    kernel_node_v2 = c"cuGraphKernelNodeGetParams_v2" (node: Handle, params: *mut c_void);
    /// The same before.
    kernel_node = c"cuGraphKernelNodeGetParams" (node: Handle, params: *mut c_void);
    /// What a host node calls.
    host_node = c"cuGraphHostNodeGetParams" (node: Handle, params: *mut c_void);
    /// The event that a node waits for.
    event_wait_node = c"cuGraphEventWaitNodeGetEvent" (node: Handle, event: *mut Handle);
    /// The event that a node records.
    event_record_node = c"cuGraphEventRecordNodeGetEvent" (node: Handle, event: *mut Handle);
    /// The memory operations of a node.
    memory_operations_node = c"cuGraphBatchMemOpNodeGetParams" (node: Handle, params: *mut c_void);
    /// The graph in a node, without a copy of it.
    child_graph = c"cuGraphChildGraphNodeGetGraph" (node: Handle, graph: *mut Handle);
    /// Exchanges the thread's capture mode.
    exchange_capture_mode = c"cuThreadExchangeStreamCaptureMode" (mode: *mut c_int);
}

/// Whether the driver, asked for a name in exactly this version, answers with this pointer.
pub fn answers_alike(symbol: *const c_char, version: i32, flags: u64, expected: Handle) -> bool {
    let (mut found, mut status) = (null_mut(), 0);
    let asked = match proc_address_v2(symbol, &mut found, version, flags, &mut status) {
        Some(SUCCESS) => Some(SUCCESS),
        _ => proc_address(symbol, &mut found, version, flags),
    };
    asked == Some(SUCCESS) && found == expected
}

/// The context that is current to the calling thread, or null.
pub fn current_context() -> Handle {
    let mut context = null_mut();
    match ctx_get_current(&mut context) {
        Some(SUCCESS) => context,
        _ => null_mut(),
    }
}
