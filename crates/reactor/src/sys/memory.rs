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

/// Bytes of this process that are in memory (proc(5), statm); zero where that is not told.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    pages * PAGE_BYTES
}

/// A page, on every machine that this runs on.
const PAGE_BYTES: u64 = 4096;

/// How much memory this process's control group uses, and how much it may, in bytes (cgroup v2): that of the next one
/// above it which has a bound. What the kernel can give back at once, as it holds files, does not count. None where there
/// is no bound, or no such group.
pub fn container_memory() -> Option<(u64, u64)> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut group = groups.lines().find_map(|line| line.strip_prefix("0::"))?.trim_matches('/');
    loop {
        let folder = format!("/sys/fs/cgroup/{group}");
        if let Some(most) = number(&format!("{folder}/memory.max")) {
            let used = number(&format!("{folder}/memory.current"))?;
            let stat = std::fs::read_to_string(format!("{folder}/memory.stat")).unwrap_or_default();
            let files = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
            return Some((used.saturating_sub(files.unwrap_or(0)), most));
        }
        if group.is_empty() {
            return None;
        }
        group = group.rfind('/').map_or("", |slash| &group[..slash]);
    }
}

fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
