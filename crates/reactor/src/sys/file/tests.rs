//! Files below a folder, on the file system that the build is on: what is found, what is in memory, and that nothing
//! outside is ever opened.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

/// A folder of its own that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        // Beside the test's binary: on a disk, where the folder for temporary files may be memory.
        let binary = std::env::current_exe().expect("this binary");
        let folder = binary.with_file_name(format!("files-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder.canonicalize().expect("its path"))
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(&path, content).expect("a file");
        path
    }

    fn link(&self, target: impl AsRef<Path>, path: &str) {
        symlink(target, self.0.join(path)).expect("a symlink");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Both ways, where the kernel has both.
fn roots(folder: &Path) -> Vec<Root> {
    let (first, second) = (Root::new(folder).expect("a root"), Root::walking(folder).expect("a root"));
    if cfg!(target_os = "linux") {
        assert!(first.is_beneath(), "a kernel of these years has openat2");
    }
    assert!(!second.is_beneath());
    vec![first, second]
}

/// A file's content, or the name of what was found.
fn content(found: io::Result<Found<(File, Facts)>>) -> String {
    match found.expect("no fault of this machine") {
        Found::File((mut file, facts)) => {
            let mut text = String::new();
            file.read_to_string(&mut text).expect("text");
            assert_eq!(facts.size, text.len() as u64);
            text
        }
        other => format!("{:?}", other.map(|_| ())),
    }
}

/// The same by [`Root::look`], which must agree.
fn opened(root: &Root, path: &str) -> String {
    let text = content(root.open(path.as_bytes(), Ask::Disk));
    let seen = root.look(path.as_bytes(), Ask::Disk).expect("no fault of this machine");
    match seen {
        Found::File(facts) => assert_eq!(facts.size, text.len() as u64, "{path}"),
        other => assert_eq!(format!("{:?}", other.map(|_| ())), text, "{path}"),
    }
    text
}

#[test]
fn regular_files_below_the_root_are_opened_and_nothing_else() {
    let scratch = Scratch::new("kinds");
    scratch.write("served/a.txt", "a");
    scratch.write("served/sub/b c.txt", "b");
    scratch.write("served/\u{ff0e}\u{ff0e}", "look-alike");
    scratch.write("outside.txt", "outside");
    let _socket = UnixListener::bind(scratch.0.join("served/socket")).expect("a socket");
    let fifo = CString::new(scratch.0.join("served/fifo").as_os_str().as_bytes()).expect("a path");
    // SAFETY: the name ends in a NUL and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let long = "n".repeat(300);
    for root in roots(&scratch.0.join("served")) {
        for (path, found) in [
            ("a.txt", "a"),
            ("sub/b c.txt", "b"),
            ("\u{ff0e}\u{ff0e}", "look-alike"),
            ("", "Folder"),
            ("sub", "Folder"),
            ("b.txt", "NotFound"),
            ("sub/sub/a.txt", "NotFound"),
            ("a.txt/a.txt", "NotFound"),
            ("a.txt\0.png", "NotFound"),
            ("\u{2024}\u{2024}/outside.txt", "NotFound"),
            (&long, "NotFound"),
            ("fifo", "NotRegular"),
            ("socket", "NotRegular"),
            ("..", "Outside"),
            ("../outside.txt", "Outside"),
            ("sub/../../outside.txt", "Outside"),
            ("../served/a.txt", "Outside"),
            ("/etc/passwd", "Outside"),
        ] {
            assert_eq!(opened(&root, path), found, "{path:?} {root:?}");
        }
    }
    for walked in ["sub/../a.txt", "./a.txt", "sub//b c.txt"] {
        assert_eq!(
            opened(&Root::walking(&scratch.0.join("served")).expect("a root"), walked),
            "Outside",
            "{walked}"
        );
    }
}

#[test]
fn symlinks_are_followed_inside_of_the_root_and_never_out_of_it() {
    let scratch = Scratch::new("symlinks");
    scratch.write("served/sub/a.txt", "a");
    scratch.write("outside/secret.txt", "secret");
    scratch.link("sub/a.txt", "served/inside");
    scratch.link("../sub", "served/sub/again");
    scratch.link(scratch.0.join("served/sub/a.txt"), "served/absolute");
    scratch.link("../outside/secret.txt", "served/out");
    scratch.link("../outside", "served/folder-out");
    scratch.link("/etc/passwd", "served/passwd");
    scratch.link("/dev/null", "served/device");
    scratch.link("loop", "served/loop");
    scratch.link("/proc/self/root", "served/magic");
    scratch.link("nowhere", "served/dangling");
    scratch.link("served", "by-symlink");
    // The root's own path may be a symlink.
    for root in roots(&scratch.0.join("by-symlink")) {
        for (path, kernel, walked) in [
            ("sub/a.txt", "a", "a"),
            ("inside", "a", "Outside"),
            ("sub/again/a.txt", "a", "NotFound"),
            ("dangling", "NotFound", "Outside"),
            ("absolute", "Outside", "Outside"),
            ("out", "Outside", "Outside"),
            ("folder-out/secret.txt", "Outside", "NotFound"),
            ("passwd", "Outside", "Outside"),
            ("device", "Outside", "Outside"),
            ("loop", "Outside", "Outside"),
            ("magic/etc/passwd", "Outside", "NotFound"),
        ] {
            let expected = if root.is_beneath() { kernel } else { walked };
            assert_eq!(opened(&root, path), expected, "{path} {root:?}");
        }
    }
}

#[test]
fn a_root_stays_the_folder_that_it_was() {
    let scratch = Scratch::new("renamed");
    scratch.write("served/a.txt", "first");
    let roots = roots(&scratch.0.join("served"));
    fs::rename(scratch.0.join("served"), scratch.0.join("old")).expect("renamed");
    scratch.write("served/a.txt", "second");
    for root in roots {
        assert_eq!(opened(&root, "a.txt"), "first");
    }
    assert!(Root::new(&scratch.0.join("nowhere")).is_err());
    assert!(Root::new(&scratch.0.join("served/a.txt")).is_err(), "a file is no root");
}

#[test]
fn a_file_that_may_not_be_read_changes_nothing_for_others() {
    let scratch = Scratch::new("forbidden");
    let secret = scratch.write("served/secret", "secret");
    scratch.write("served/a.txt", "a");
    scratch.link("a.txt", "served/link");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).expect("a mode");
    let root = Root::new(&scratch.0.join("served")).expect("a root");
    // The superuser reads everything.
    if File::open(&secret).is_err() {
        assert_eq!(content(root.open(b"secret", Ask::Disk)), "Forbidden");
    }
    for (errno, found) in [
        (libc::EPERM, "Forbidden"),
        (libc::EACCES, "Forbidden"),
        (libc::ENOENT, "NotFound"),
        (libc::EXDEV, "Outside"),
        (libc::ENXIO, "NotRegular"),
        (libc::EAGAIN, "Busy"),
    ] {
        let refused = refusal(io::Error::from_raw_os_error(errno));
        assert_eq!(content(refused), found, "{errno}");
    }
    for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EIO] {
        assert!(refusal::<()>(io::Error::from_raw_os_error(errno)).is_err(), "{errno} is not the file's");
    }
    let way = root.way;
    assert_eq!(Root::new(&scratch.0.join("served")).expect("a root").way, way);
    assert_eq!(content(root.open(b"link", Ask::Disk)), if root.is_beneath() { "a" } else { "Outside" });
}

#[test]
fn a_race_is_run_again_four_times_and_a_signal_as_often_as_it_comes() {
    let play = |ask, errors: &[i32]| {
        let mut asked = 0;
        let opened = persist(ask, || {
            asked += 1;
            match errors.get(asked - 1) {
                Some(errno) => Err(io::Error::from_raw_os_error(*errno)),
                None => File::open("/dev/null").map(OwnedFd::from),
            }
        });
        (opened.is_ok(), asked)
    };
    assert_eq!(play(Ask::Disk, &[]), (true, 1));
    assert_eq!(play(Ask::Disk, &[libc::EAGAIN; 4]), (true, 5));
    assert_eq!(play(Ask::Disk, &[libc::EAGAIN; 5]), (false, 5));
    assert_eq!(play(Ask::Disk, &[libc::EINTR; 20]), (true, 21));
    assert_eq!(play(Ask::Disk, &[libc::ENOENT; 2]), (false, 1));
    assert_eq!(play(Ask::Cached, &[libc::EAGAIN]), (false, 1));
}

#[test]
fn facts_tell_when_a_file_has_changed_or_was_replaced() {
    let scratch = Scratch::new("facts");
    let path = scratch.write("served/a.txt", "one");
    let root = Root::new(&scratch.0.join("served")).expect("a root");
    let look = || match root.look(b"a.txt", Ask::Disk).expect("no fault") {
        Found::File(facts) => facts,
        other => panic!("{other:?}"),
    };
    let first = look();
    assert_eq!(first, look());
    assert_eq!(first, facts(&File::open(&path).expect("a file")).expect("its facts"));
    File::options().append(true).open(&path).expect("a file").write_all(b" more").expect("written");
    let second = look();
    assert_eq!((first.identity, second.size), (second.identity, 8));
    // Replaced by a file of the same size and time.
    let other = scratch.write("served/b.txt", "one more");
    let modified = fs::metadata(&path).expect("its facts").modified().expect("its time");
    File::options().write(true).open(&other).expect("a file").set_modified(modified).expect("a time");
    fs::rename(&other, &path).expect("renamed");
    let third = look();
    assert_eq!((third.size, third.modified), (second.size, second.modified));
    assert_ne!(third.identity, second.identity);
}

/// Lets the kernel forget what it knows of a file's content. What is on its way from the disk stays until it is there.
#[cfg(target_os = "linux")]
fn forget(file: &File, size: u64) {
    file.sync_all().expect("written to the disk");
    for _ in 0..10_000 {
        // SAFETY: takes numbers only.
        assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
        let mut pages = (0..size).step_by(4096);
        if pages.all(|at| is_in_memory(file, &(at..at + 1)) == Some(false)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("the kernel does not forget it");
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_not_in_memory_is_seen_and_fetched() {
    const SIZE: u64 = 1024 * 1024;
    let scratch = Scratch::new("memory");
    let path = scratch.write("served/large", vec![b'x'; SIZE as usize]);
    let root = Root::new(&scratch.0.join("served")).expect("a root");
    let Found::File((file, facts)) = root.open(b"large", Ask::Disk).expect("no fault") else {
        panic!("no file")
    };
    assert_eq!(facts.size, SIZE);
    let mut room = [0; 4096];
    if root.is_remote || read_at(&file, &mut room, 0, Ask::Cached).is_ok_and(|got| got.is_none()) {
        // This file system does not answer from memory; then nothing is taken to be there that may not be.
        return;
    }
    assert_eq!(is_in_memory(&file, &(0..SIZE)), Some(true), "just written");
    // From memory a name is found as well, once it was looked up.
    let found = root.open(b"large", Ask::Cached).expect("no fault");
    assert!(matches!(found, Found::File(_)), "{found:?}");
    let writer = File::options().read(true).write(true).open(&path).expect("a file");
    forget(&writer, SIZE);
    for part in [0..SIZE, 0..1, SIZE - 1..SIZE, 70_000..70_001] {
        assert_eq!(is_in_memory(&file, &part), Some(false), "{part:?}");
    }
    for nothing in [5..5, SIZE..SIZE + 1, SIZE + 5000..SIZE + 9000] {
        assert_eq!(is_in_memory(&file, &nothing), Some(true), "nothing is there to wait for");
    }
    assert_eq!(is_in_memory(&file, &(SIZE - 1..SIZE + 1)), Some(false), "something is");
    // It has the kernel begin to read what is missing, and where a disk has done so at once that is there already.
    let is_missed = (0..100).any(|_| {
        forget(&writer, SIZE);
        let got = read_at(&file, &mut room, 0, Ask::Cached).expect("no fault");
        assert!(matches!(got, None | Some(4096)), "{got:?}");
        got.is_none()
    });
    assert!(is_missed, "it never says that something is missing");
    fetch(&file, &(0..SIZE + 4096)).expect("read");
    assert_eq!(is_in_memory(&file, &(0..SIZE + 1)), Some(true));
    assert_eq!(read_at(&file, &mut room, 0, Ask::Cached).expect("no fault"), Some(4096));
    assert_eq!(read_at(&file, &mut room, SIZE - 5, Ask::Cached).expect("no fault"), Some(5));
    assert_eq!(read_at(&file, &mut room, SIZE, Ask::Cached).expect("no fault"), Some(0));
    // Each page that is missing is missed, and asking for it brings none.
    for missing in 1..8 {
        forget(&writer, SIZE);
        for page in (0..8).filter(|page| *page != missing) {
            fetch(&file, &(page * 4096..(page + 1) * 4096)).expect("read");
        }
        for (from, to) in
            [(0, 8), (missing, missing + 1), (missing - 1, missing + 1), (missing, 8), (0, missing + 1)]
        {
            let found = is_in_memory(&file, &(from * 4096..to * 4096));
            assert_eq!(found, Some(false), "{missing} of {from}..{to}");
        }
        assert_eq!(is_in_memory(&file, &(0..missing * 4096)), Some(true), "before {missing}");
    }
}

#[test]
fn the_fallback_never_claims_to_answer_from_memory() {
    let scratch = Scratch::new("fallback");
    scratch.write("served/a.txt", "a");
    let root = Root::walking(&scratch.0.join("served")).expect("a root");
    for _ in 0..2 {
        assert_eq!(content(root.open(b"a.txt", Ask::Cached)), "WouldBlock");
        assert!(matches!(root.look(b"a.txt", Ask::Cached), Ok(Found::WouldBlock)));
        assert_eq!(opened(&root, "a.txt"), "a");
    }
}

/// How long [`nothing_outside_is_ever_opened_while_folders_and_symlinks_are_swapped`] runs for each way: half a second, or
/// half of what `FOREHAND_RACE_SECONDS` says.
fn race_time() -> Duration {
    let seconds = std::env::var("FOREHAND_RACE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(1.0) / 2.0)
}

/// What two threads do to a tree for as long as it is raced over: one swaps a folder for a symlink that leads out, the other
/// moves a folder out of the root and back, and swaps a file for a symlink to a file outside.
fn swap_folder_and_symlink(base: &Path, stop: &AtomicBool) {
    let name = |name: &str| base.join(name);
    while !stop.load(Ordering::Relaxed) {
        for (from, to) in [
            ("served/a", "served/real"),
            ("served/link", "served/a"),
            ("served/a", "served/link"),
            ("served/real", "served/a"),
        ] {
            fs::rename(name(from), name(to)).expect("renamed");
        }
    }
}

fn move_out_and_swap_file(base: &Path, stop: &AtomicBool) {
    let name = |name: &str| base.join(name);
    while !stop.load(Ordering::Relaxed) {
        for (from, to) in [("served/deep/down", "outside/down"), ("outside/down", "served/deep/down")] {
            fs::rename(name(from), name(to)).expect("renamed");
        }
        for (from, to) in [
            ("served/file", "served/kept"),
            ("served/file-link", "served/file"),
            ("served/file", "served/file-link"),
            ("served/kept", "served/file"),
        ] {
            fs::rename(name(from), name(to)).expect("renamed");
        }
    }
}

/// Of each name that a request can have, there were moments with it and without it: nothing else is a race.
fn was_raced(counts: &[[u64; 2]; 5]) -> bool {
    counts[..3].iter().flatten().all(|count| *count > 0)
}

/// How much longer than that it may take on a busy machine until there was a race.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn nothing_outside_is_ever_opened_while_folders_and_symlinks_are_swapped() {
    let scratch = Scratch::new("race");
    for path in ["served/a/f", "served/deep/down/f", "served/file", "served/deep/f", "served/f"] {
        scratch.write(path, "inside");
    }
    for path in ["outside/f", "f", "outside/deep/f"] {
        scratch.write(path, "outside");
    }
    scratch.link("../outside", "served/link");
    scratch.link("../outside/f", "served/file-link");
    // The last two are no names that a request can have; the kernel is to hold them all the same.
    let paths = ["a/f", "file", "deep/down/f", "deep/down/../f", "deep/down/../../f"];
    for root in roots(&scratch.0.join("served")) {
        let stop = AtomicBool::new(false);
        let mut counts = [[0_u64; 2]; 5];
        std::thread::scope(|threads| {
            threads.spawn(|| swap_folder_and_symlink(&scratch.0, &stop));
            threads.spawn(|| move_out_and_swap_file(&scratch.0, &stop));
            let end = Instant::now() + race_time();
            let race = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                while Instant::now() < end || !was_raced(&counts) && Instant::now() < end + LONG {
                    for (path, counts) in paths.iter().zip(&mut counts) {
                        for _ in 0..20 {
                            let found = content(root.open(path.as_bytes(), Ask::Disk));
                            assert_ne!(found, "outside", "{path} {root:?}");
                            counts[usize::from(found == "inside")] += 1;
                        }
                    }
                }
            }));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = race {
                std::panic::resume_unwind(panic);
            }
        });
        let told = format!("refused and opened, by path: {counts:?} of {paths:?}, {root:?}\n");
        io::stdout().write_all(told.as_bytes()).expect("standard output");
        // Both must have happened, or nothing was raced.
        assert!(was_raced(&counts), "{told}");
    }
}
