//! Room for the frames of greenlets: given back and taken again without the kernel.
//!
//! From Python 3.11 on the interpreter keeps the frames of each stack in chunks of 16 KiB, and
//! asks the system for one whenever a new greenlet enters its first Python function, to give it
//! back when the greenlet ends: two system calls and a page fault a request, which cost as much
//! as the rest of it. A few chunks are kept here instead, between the interpreter and the
//! allocator that it had before.

use std::ffi::c_void;
use std::sync::{Mutex, OnceLock};

use pyo3::{Python, ffi};

use server::sync::lock;

/// `DATA_STACK_CHUNK_SIZE` of CPython: other sizes go their usual way.
const CHUNK: usize = 16 * 1024;
/// Chunks that are kept: 1 MiB.
const MOST: usize = 64;

/// The allocator that the interpreter had before.
struct Before(ffi::PyObjectArenaAllocator);

// SAFETY: set once and then only read; its functions are CPython's own, or those of whoever
// replaced them by the same call, and are called as CPython would call them.
unsafe impl Send for Before {}
// SAFETY: as above.
unsafe impl Sync for Before {}

static BEFORE: OnceLock<Before> = OnceLock::new();
/// Addresses of chunks that nobody uses.
static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

extern "C" fn alloc(_ctx: *mut c_void, size: usize) -> *mut c_void {
    if size == CHUNK
        && let Some(chunk) = lock(&KEPT).pop()
    {
        return std::ptr::with_exposed_provenance_mut(chunk);
    }
    match BEFORE.get() {
        Some(Before(before)) => before.alloc.map_or(std::ptr::null_mut(), |alloc| alloc(before.ctx, size)),
        None => std::ptr::null_mut(),
    }
}

extern "C" fn free(_ctx: *mut c_void, chunk: *mut c_void, size: usize) {
    if size == CHUNK && !chunk.is_null() {
        let mut kept = lock(&KEPT);
        if kept.len() < MOST {
            return kept.push(chunk.expose_provenance());
        }
    }
    if let Some(Before(before)) = BEFORE.get()
        && let Some(free) = before.free
    {
        free(before.ctx, chunk, size);
    }
}

/// Keeps chunks from now on, for the rest of this process's life.
pub fn keep_frames(py: Python<'_>) {
    if py.version_info() < (3, 11) {
        return;
    }
    BEFORE.get_or_init(|| {
        let mut before = ffi::PyObjectArenaAllocator { ctx: std::ptr::null_mut(), alloc: None, free: None };
        // SAFETY: the interpreter is attached, so that nobody allocates meanwhile; it fills one
        // structure of ours.
        unsafe { ffi::PyObject_GetArenaAllocator(&raw mut before) };
        Before(before)
    });
    let mut ours =
        ffi::PyObjectArenaAllocator { ctx: std::ptr::null_mut(), alloc: Some(alloc), free: Some(free) };
    // SAFETY: as above; the structure is copied. What was allocated before is freed through
    // `free`, which passes it on to whom it came from, or keeps it for `alloc`: a chunk is a
    // chunk, and CPython writes its header anew each time.
    unsafe { ffi::PyObject_SetArenaAllocator(&raw mut ours) };
}
