//! The C library's heap.

/// Gives free memory of the C library's heap back to the system: what was needed to read
/// options and import modules would otherwise stay with the process for its life.
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer; it only returns pages that hold nothing.
    unsafe {
        libc::malloc_trim(0)
    };
}
