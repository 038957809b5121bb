//! What this process holds of memory, and how it gives back what it held only to begin.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
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
pub fn trim_heap() {
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

/// How control groups tell of memory: where they are mounted, and the names of their files.
struct Groups {
    mount: &'static str,
    most: &'static str,
    used: &'static str,
    /// Behind this word of `memory.stat`: what the kernel can give back at once, as it holds files.
    files: &'static str,
}

const SECOND: Groups =
    Groups { mount: "sys/fs/cgroup", most: "memory.max", used: "memory.current", files: "inactive_file " };
const FIRST: Groups = Groups {
    mount: "sys/fs/cgroup/memory",
    most: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: "total_inactive_file ",
};
/// More than this is what v1 says where there is no bound.
const NO_BOUND: u64 = 1 << 60;

/// How much memory this process's control group uses, and how much it may, in bytes (cgroup v2, or v1): that of the next one
/// above it which has a bound. What the kernel can give back at once does not count. None where there is no bound, or no
/// such group.
pub fn container_memory() -> Option<(u64, u64)> {
    group_memory(Path::new("/"))
}

/// The same below a folder that has `proc` and `sys`.
fn group_memory(root: &Path) -> Option<(u64, u64)> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let named = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let group = group.trim_matches('/').to_string();
        match controllers {
            "" => Some((&SECOND, group)),
            _ if controllers.split(',').any(|one| one == "memory") => Some((&FIRST, group)),
            _ => None,
        }
    };
    groups.lines().filter_map(named).find_map(|(kind, group)| kind.read(root, &group))
}

impl Groups {
    fn read(&self, root: &Path, mut group: &str) -> Option<(u64, u64)> {
        loop {
            let folder = root.join(self.mount).join(group);
            if let Some(most) = number(&folder.join(self.most)).filter(|most| *most < NO_BOUND) {
                let used = number(&folder.join(self.used))?;
                let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
                let files = stat.lines().find_map(|line| line.strip_prefix(self.files)?.parse().ok());
                return Some((used.saturating_sub(files.unwrap_or(0)), most));
            }
            if group.is_empty() {
                return None;
            }
            group = group.rfind('/').map_or("", |slash| &group[..slash]);
        }
    }
}

fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_that_of_the_next_group_which_has_one() {
        let root = std::env::temp_dir().join(format!("forehand-groups-{}", std::process::id()));
        let tell = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let first = "sys/fs/cgroup/memory";
        tell("proc/self/cgroup", "5:cpu:/\n4:hugetlb,memory:/pods/shop\n0::/pods/shop\n");
        assert_eq!(group_memory(&root), None, "no group");
        tell(&format!("{first}/pods/shop/memory.limit_in_bytes"), "9223372036854771712\n");
        tell(&format!("{first}/memory.limit_in_bytes"), "9223372036854771712\n");
        assert_eq!(group_memory(&root), None, "no bound");
        tell(&format!("{first}/pods/memory.limit_in_bytes"), "1000\n");
        tell(&format!("{first}/pods/memory.usage_in_bytes"), "700\n");
        assert_eq!(group_memory(&root), Some((700, 1000)));
        tell(&format!("{first}/pods/memory.stat"), "inactive_file 1\ntotal_inactive_file 100\n");
        assert_eq!(group_memory(&root), Some((600, 1000)));
        // Of a container the groups are named as they are outside, and what is mounted is its own.
        tell("proc/self/cgroup", "0::/docker/4f\n");
        tell("sys/fs/cgroup/memory.max", "max\n");
        assert_eq!(group_memory(&root), None);
        tell("sys/fs/cgroup/memory.max", "800\n");
        tell("sys/fs/cgroup/memory.current", "300\n");
        tell("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 20\n");
        assert_eq!(group_memory(&root), Some((280, 800)));
        std::fs::remove_dir_all(root).expect("removed");
    }

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
