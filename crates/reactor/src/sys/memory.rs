//! What this process holds of memory, and how it gives back what it held only to begin.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use std::os::raw::{c_int, c_void};

/// Gives back what was needed to read options and import modules, and would otherwise stay with the process for its life:
/// free memory of the C library's heap, and pages of this module's code. Those that are used again come back with the next
/// call of them, out of the kernel's cache of files and sixteen at a time: a fraction of a millisecond in all, once.
pub fn give_back_memory() {
    trim_heap();
    give_back_code();
}

/// Gives back pages of this module's code alone: for who has begun, and goes on with the part that each request runs.
pub fn give_back_code() {
    #[cfg(target_os = "linux")]
    // SAFETY: the function is called before this returns, with what it is made for, and nothing is kept of it.
    unsafe {
        libc::dl_iterate_phdr(Some(give_back_pages), std::ptr::null_mut())
    };
}

/// Gives free memory of the C library's heap back to the system.
fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer; it only returns pages that hold nothing.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Has the C library keep no more heaps for threads ("arenas", mallopt(3)) than threads can run at the same time. By default
/// it makes up to eight for each processor, one for each thread that has met another at work, and each keeps what was free in
/// it at the time of its greatest load: tens of MiB for a worker with some ten threads. Who has said in the environment how many there
/// are to be is heeded.
pub fn bound_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let said = |name: &str, part: &str| {
            std::env::var_os(name).is_some_and(|text| text.to_string_lossy().contains(part))
        };
        if said("MALLOC_ARENA_MAX", "") || said("GLIBC_TUNABLES", "arena_max") {
            return;
        }
        // One would have each thread that allocates wait for each other one, also for as long as this is not at work.
        let processors = std::thread::available_parallelism().map_or(2, |many| many.get().max(2));
        // SAFETY: takes no pointer, and may be called at any time.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, c_int::try_from(processors).unwrap_or(c_int::MAX)) };
    }
}

/// Called with one object of those that are loaded. Not zero: it was this module.
#[cfg(target_os = "linux")]
unsafe extern "C" fn give_back_pages(object: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the loader lends what it knows of an object while this is called (dl_iterate_phdr(3)).
    let (base, parts) = unsafe {
        let object = &*object;
        (object.dlpi_addr, std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)))
    };
    let loaded = || parts.iter().filter(|part| part.p_type == libc::PT_LOAD);
    let this = give_back_memory as *const () as u64;
    if !loaded().any(|part| (base + part.p_vaddr..base + part.p_vaddr + part.p_memsz).contains(&this)) {
        return 0;
    }
    for part in loaded().filter(|part| part.p_flags & libc::PF_W == 0) {
        let first = (base + part.p_vaddr).next_multiple_of(PAGE_BYTES);
        let end = (base + part.p_vaddr + part.p_memsz) / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: whole pages of a file that are mapped to be read and executed only, and that nobody has written to, as code
        // that needs no place of its own has no relocations in it: whoever touches them next finds what the file has.
        unsafe {
            libc::madvise(first as *mut c_void, end.saturating_sub(first) as usize, libc::MADV_DONTNEED)
        };
    }
    1
}

/// Bytes of this process that are in memory (proc(5), statm); zero where that is not told.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    pages * PAGE_BYTES
}

/// The same, and of pages that several processes share this one's part (PSS; proc(5), smaps_rollup). The kernel goes through
/// all pages for it: milliseconds where they are many. None where it is not told.
pub fn proportional_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Of these, what is no part of a file: pages of libraries that are touched for the first time, or once more, are nobody's
/// growth. For who asks a thousand times a second: through a descriptor that stays open, and tells of the process that has
/// asked first. None where it is not told.
pub fn own_bytes_again() -> Option<u64> {
    static STATM: OnceLock<Option<File>> = OnceLock::new();
    let file = STATM.get_or_init(|| File::open("/proc/self/statm").ok()).as_ref()?;
    let mut text = [0; 96];
    let length = file.read_at(&mut text, 0).ok()?;
    let mut fields = str::from_utf8(&text[..length]).ok()?.split(' ').skip(1);
    let mut pages = || fields.next()?.parse::<u64>().ok();
    let (resident, shared) = (pages()?, pages()?);
    Some(resident.saturating_sub(shared) * PAGE_BYTES)
}

/// A page, on every machine that this runs on.
pub(super) const PAGE_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_as_well_counts_in_part() {
        let Some(proportional) = proportional_bytes() else { return };
        // Other tests take and give back meanwhile.
        assert!((1 << 20..resident_bytes() + (256 << 20)).contains(&proportional), "{proportional}");
    }

    #[test]
    fn what_a_process_takes_is_seen_by_who_asks_again() {
        let before = own_bytes_again().expect("Linux tells it");
        let taken = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = own_bytes_again().expect("Linux tells it");
        // Other tests take and give back meanwhile.
        assert!(after > before + taken.len() as u64 / 2, "{before} {after}");
    }
}
