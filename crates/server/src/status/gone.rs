//! Processes that workers have started, have counted with `prometheus_client`, and have ended: what they have left is added up.
//!
//! Knows: which files are of a process that is no more. Does not know: workers' ends, of which their supervisor hears and adds
//! up what they leave at once; it hears of no child of theirs. Without this a server whose views start programs would have more
//! files with each of them, and each look at its metrics would take longer. Whoever reads the folder holds the lock that this is behind.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use wire::Millis;

use super::files::{Name, fold_all};

/// What the name of a file with their numbers has in place of a process: the supervisor writes another one.
const GONE: &str = "gone";
/// For so long a process has to be gone, in milliseconds: until then its supervisor may be about to add it up, or one of that
/// number to begin.
const LONG_MS: u64 = 10_000;

/// Those that were found to be gone, and when.
#[derive(Debug, Default)]
pub struct Gone(HashMap<u64, Millis>);

impl Gone {
    /// Adds up what those have left that have been gone for a while. `is_there`: a process lives, or somebody else will add it up.
    /// What cannot be added up stays.
    pub fn sweep(&mut self, folder: &Path, now: Millis, is_there: impl Fn(u64) -> bool) {
        let Ok(files) = fs::read_dir(folder) else { return };
        let mut found = HashMap::new();
        for file in files.flatten() {
            let name = file.file_name();
            let process = name.to_str().and_then(Name::parse).and_then(|name| name.process.parse().ok());
            let Some(process) = process.filter(|process| !found.contains_key(process) && !is_there(*process))
            else {
                continue;
            };
            found.insert(process, self.0.get(&process).copied().unwrap_or(now));
        }
        self.0 = found;
        let is_over = |process: u64| self.0.get(&process).is_some_and(|since| now - since >= LONG_MS);
        if self.0.keys().any(|process| is_over(*process)) {
            let _ = fold_all(folder, GONE, |process| process.parse().is_ok_and(is_over));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_left_is_added_up_once_it_has_been_gone_for_a_while() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = || {
            let mut all: Vec<_> = fs::read_dir(folder.path())
                .expect("a folder")
                .flatten()
                .map(|file| file.file_name().into_string().expect("text"))
                .collect();
            all.sort();
            all
        };
        for name in
            ["counter_1.db", "counter_2.db", "counter_3.db", "gauge_livesum_2.db", "counter_dead.db", "notes"]
        {
            fs::write(folder.path().join(name), b"").expect("writes");
        }
        let before = names();
        let mut gone = Gone::default();
        gone.sweep(folder.path(), 1_000, |process| process == 1);
        gone.sweep(folder.path(), 2_000, |process| process != 2);
        gone.sweep(folder.path(), 1_000 + LONG_MS - 1, |process| process == 1);
        assert_eq!(names(), before, "2 is not gone for long, and 3 was there again");
        gone.sweep(folder.path(), 1_000 + LONG_MS, |process| process == 1);
        assert_eq!(names(), ["counter_1.db", "counter_3.db", "counter_dead.db", "counter_gone.db", "notes"]);
    }
}
