//! What this process holds of memory, and how it gives back what it held only to begin.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

#[cfg(target_os = "linux")]
use std::os::raw::{c_int, c_void};

/// Gives back what was needed to read options and import modules, and would otherwise stay with the process for its life:
/// free memory of the C library's heap, the stack below what is in use, and pages of code: this module's, the interpreter's
/// and those of all other libraries. Those that are used again come back with the next call of them, out of the kernel's
/// cache of files and sixteen at a time: a fraction of a millisecond in all, once.
pub fn give_back_memory() {
    trim_heap();
    trim_stack();
    give_back_code(Duration::MAX);
}

/// Gives back pages of code alone: for who has begun, and goes on with the part that each request runs. It takes a third of a
/// millisecond; with libraries of hundreds of megabytes more, and is left off after `longest`: the interpreter and this module
/// come first, as they are loaded first. False: it was left off, or cannot be done here.
pub fn give_back_code(longest: Duration) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: takes no pointer. Where pages are larger, the file has other entries than are looked for.
    if unsafe { libc::sysconf(libc::_SC_PAGESIZE) } == PAGE_BYTES as libc::c_long
        && let Ok(pagemap) = File::open("/proc/self/pagemap")
    {
        let mut spans: Vec<(u64, u64)> = Vec::with_capacity(128);
        // The loader's lock is held for as long as this takes, which is why nothing is given back there: a child that is forked
        // meanwhile has it locked for ever.
        // SAFETY: the function is called before this returns, with what it is made for, and nothing is kept of it.
        unsafe { libc::dl_iterate_phdr(Some(note_spans), (&raw mut spans).cast()) };
        let work = GivingBack { pagemap, began: Instant::now(), longest };
        return spans.into_iter().all(|(first, end)| work.give_back_untouched(first, end));
    }
    let _ = longest;
    false
}

/// What pages are given back by, and until when.
#[cfg(target_os = "linux")]
struct GivingBack {
    pagemap: File,
    began: Instant,
    longest: Duration,
}

/// Gives free memory of the C library's heap back to the system.
fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer; it only returns pages that hold nothing.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Gives back what imports have needed of the main thread's stack, as they nest deeply, below what is in use now.
fn trim_stack() {
    #[cfg(target_os = "linux")]
    {
        /// Stays below what is in use: this function's own calls.
        const KEPT: u64 = 16 << 10;
        let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let line = text.lines().find(|line| line.ends_with("[stack]")).unwrap_or_default();
        let mut ends =
            line.split([' ', '-']).take(2).filter_map(|number| u64::from_str_radix(number, 16).ok());
        let (Some(first), Some(end)) = (ends.next(), ends.next()) else { return };
        let here = (&raw const text).addr() as u64;
        if here >= end || here < first + KEPT {
            return; // another thread, or next to nothing is below
        }
        let bytes = (here - KEPT - first) / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: pages of this thread's stack, all of them below its frames, which hold nothing that anybody may read.
        unsafe { libc::madvise(first as *mut c_void, bytes as usize, libc::MADV_DONTNEED) };
    }
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

/// Called with each object that is loaded, and a list: notes what is not to be written to of it, from the first whole page to
/// the last. Zero: with the next one, too.
#[cfg(target_os = "linux")]
unsafe extern "C" fn note_spans(object: *mut libc::dl_phdr_info, _: usize, spans: *mut c_void) -> c_int {
    // SAFETY: the loader lends what it knows of an object while this is called (dl_iterate_phdr(3)); the other is ours.
    let (base, parts, spans) = unsafe {
        let object = &*object;
        let parts = std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum));
        (object.dlpi_addr, parts, &mut *spans.cast::<Vec<(u64, u64)>>())
    };
    for part in parts.iter().filter(|part| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_W == 0) {
        let first = (base + part.p_vaddr).next_multiple_of(PAGE_BYTES);
        spans.push((first, (base + part.p_vaddr + part.p_memsz) / PAGE_BYTES * PAGE_BYTES));
    }
    0
}

#[cfg(target_os = "linux")]
impl GivingBack {
    /// Gives back those pages from `first` to `end` that are in memory as the file has them. What somebody has written to, who
    /// looks for places to stop at (a debugger, a tracer) or relocates code, has become this process's own, and stays; between
    /// the look and the giving are some microseconds. Whatever is mapped there by now, no page of a file is lost by it. False:
    /// the time is over.
    fn give_back_untouched(&self, first: u64, end: u64) -> bool {
        /// Pages that are looked at together.
        const TOGETHER: usize = 512;
        // Documentation/admin-guide/mm/pagemap.rst: the page is in memory, and it is one of a file.
        const OF_A_FILE: u64 = 1 << 63 | 1 << 61;
        let mut told = [0; TOGETHER * 8];
        let mut at = first;
        while at < end {
            if self.began.elapsed() >= self.longest {
                return false;
            }
            let many = TOGETHER.min(((end - at) / PAGE_BYTES) as usize);
            if self.pagemap.read_exact_at(&mut told[..many * 8], at / PAGE_BYTES * 8).is_err() {
                return true; // nothing is mapped there: the next part may be
            }
            // Those before `at`, as far back as they are of a file.
            let mut run = 0;
            for entry in told[..many * 8].chunks_exact(8) {
                let entry = u64::from_ne_bytes(entry.try_into().expect("eight bytes each"));
                if entry & OF_A_FILE == OF_A_FILE {
                    run += PAGE_BYTES;
                } else {
                    forget(at - run, run);
                    run = 0;
                }
                at += PAGE_BYTES;
            }
            forget(at - run, run);
        }
        true
    }
}

/// Has pages mapped again when they are touched next.
#[cfg(target_os = "linux")]
fn forget(first: u64, bytes: u64) {
    if bytes > 0 {
        // SAFETY: whole pages of a file that is mapped to be read and executed only, and that are as the file has them:
        // whoever touches them next finds the same.
        unsafe { libc::madvise(first as *mut c_void, bytes as usize, libc::MADV_DONTNEED) };
    }
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

    #[cfg(target_os = "linux")]
    #[test]
    fn pages_of_a_file_are_given_back_and_those_that_were_written_to_stay() {
        use std::io::Write;
        use std::os::fd::AsRawFd;

        const PAGES: usize = 600; // more than are looked at together
        let path = std::env::temp_dir().join(format!("forehand-pages-{}", std::process::id()));
        File::create(&path)
            .and_then(|mut file| file.write_all(&vec![7; PAGES * PAGE_BYTES as usize]))
            .expect("a file");
        let file = File::open(&path).expect("it is there");
        std::fs::remove_file(&path).expect("it is ours");
        let length = PAGES * PAGE_BYTES as usize;
        // SAFETY: a new mapping of this test's own, as long as the file.
        let pages = unsafe {
            let first = libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(first, libc::MAP_FAILED);
            std::slice::from_raw_parts_mut(first.cast::<u8>(), length)
        };
        let written = [0, 1, 511, 512, 513, PAGES - 1];
        for page in 0..PAGES {
            let byte = &mut pages[page * PAGE_BYTES as usize];
            if written.contains(&page) { *byte = 9 } else { assert_eq!(std::hint::black_box(*byte), 7) }
        }
        let first = pages.as_ptr().addr() as u64;
        let pagemap = File::open("/proc/self/pagemap").expect("Linux has it");
        let present = |pagemap: &File| {
            let mut told = vec![0; PAGES * 8];
            pagemap.read_exact_at(&mut told, first / PAGE_BYTES * 8).expect("they are mapped");
            let is_there = |at: &usize| told[at * 8 + 7] & 0x80 != 0;
            (0..PAGES).filter(is_there).collect::<Vec<_>>()
        };
        assert_eq!(present(&pagemap).len(), PAGES);
        // Neither the first page nor the last: those are not meant.
        let (from, to) = (first + PAGE_BYTES, first + (PAGES as u64 - 1) * PAGE_BYTES);
        let mut work = GivingBack { pagemap, began: Instant::now(), longest: Duration::ZERO };
        assert!(!work.give_back_untouched(from, to), "the time is over");
        assert_eq!(present(&work.pagemap).len(), PAGES);
        work.longest = Duration::MAX;
        assert!(work.give_back_untouched(from, to));
        assert_eq!(present(&work.pagemap), written);
        for page in 0..PAGES {
            assert_eq!(
                pages[page * PAGE_BYTES as usize],
                if written.contains(&page) { 9 } else { 7 },
                "{page}"
            );
        }
        // SAFETY: nobody has it any more.
        unsafe { libc::munmap(pages.as_mut_ptr().cast(), length) };
    }
}
