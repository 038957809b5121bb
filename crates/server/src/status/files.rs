//! The files of `prometheus_client`'s multiprocess mode: one of a kind and a process, in a folder.
//!
//! Knows: how they are written, what their names say, and how numbers of several processes become one. Does not know: what
//! they mean (`application.rs`). What upstream calls unsafe, to remove what a dead process has left, is safe for who knows
//! that it is dead: the supervisor adds up its files with its other numbers.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What the name of a file with the numbers of dead processes has in place of a process.
const DEAD: &str = "dead";
/// Bytes at the beginning of a file: how many are used, and nothing.
const HEADER: usize = 8;
/// No key is longer: a file that says so is broken.
const LONGEST_KEY: usize = 64 * 1024;

/// How the numbers of several processes become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    Sum,
    Min,
    Max,
    /// That with the latest timestamp.
    Latest,
    /// They stay apart, by process.
    Apart,
}

/// What a file's name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name<'a> {
    /// `counter`, `gauge`, `histogram`, `summary`.
    pub kind: &'a str,
    pub merge: Merge,
    /// What was said by a process that has ended is not wanted any more.
    pub live: bool,
    pub process: &'a str,
}

impl<'a> Name<'a> {
    /// None for what is no such file.
    pub fn parse(file: &'a str) -> Option<Self> {
        let mut parts = file.strip_suffix(".db")?.split('_');
        let kind = parts.next()?;
        let mode = if kind == "gauge" { parts.next()? } else { "sum" };
        let process = parts.next()?;
        if parts.next().is_some() || !matches!(kind, "counter" | "gauge" | "histogram" | "summary") {
            return None;
        }
        let merge = match mode.strip_prefix("live").unwrap_or(mode) {
            "sum" => Merge::Sum,
            "min" => Merge::Min,
            "max" => Merge::Max,
            "mostrecent" => Merge::Latest,
            _ => Merge::Apart,
        };
        Some(Self { kind, merge, live: mode.starts_with("live") || merge == Merge::Apart, process })
    }
}

/// A number and when it was set, in seconds since 1970; zero: that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Entry {
    pub value: f64,
    pub at: f64,
}

impl Entry {
    /// Takes in the number of another process.
    pub fn merge(&mut self, other: Self, how: Merge) {
        match how {
            Merge::Sum => self.value += other.value,
            Merge::Min => self.value = self.value.min(other.value),
            Merge::Max => self.value = self.value.max(other.value),
            Merge::Latest if other.at < self.at => return,
            Merge::Latest | Merge::Apart => *self = other,
        }
        self.at = self.at.max(other.at);
    }
}

/// What is in a file, by keys in JSON. A file that is being made is empty, and one that is broken ends where it is.
pub fn entries(bytes: &[u8]) -> Vec<(&[u8], Entry)> {
    let number =
        |at: usize| bytes.get(at..at + 4).and_then(|found| found.try_into().ok()).map(i32::from_ne_bytes);
    let double =
        |at: usize| bytes.get(at..at + 8).and_then(|found| found.try_into().ok()).map(f64::from_ne_bytes);
    let used = number(0).and_then(|used| usize::try_from(used).ok()).unwrap_or(0).min(bytes.len());
    let mut all = Vec::new();
    let mut at = HEADER;
    while at < used {
        let Some(length) = number(at).and_then(|length| usize::try_from(length).ok()) else { break };
        // Behind a key there is at least one blank, up to where a double can be.
        let value = at + 4 + length.min(LONGEST_KEY) + (8 - (length + 4) % 8);
        let (Some(key), Some(first), Some(second)) =
            (bytes.get(at + 4..at + 4 + length), double(value), double(value + 8))
        else {
            break;
        };
        all.push((key, Entry { value: first, at: second }));
        at = value + 16;
    }
    all
}

fn written(all: &[(Vec<u8>, Entry)]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    for (key, entry) in all {
        bytes.extend_from_slice(&(key.len() as i32).to_ne_bytes());
        bytes.extend_from_slice(key);
        bytes.resize(bytes.len() + 8 - (key.len() + 4) % 8, b' ');
        bytes.extend_from_slice(&entry.value.to_ne_bytes());
        bytes.extend_from_slice(&entry.at.to_ne_bytes());
    }
    let used = bytes.len() as i32;
    bytes[..4].copy_from_slice(&used.to_ne_bytes());
    bytes
}

/// A process has ended: what it has counted is added to what all dead have, and its files go.
///
/// # Errors
/// The system's; what was not added up is still there.
pub fn fold(folder: &Path, pid: u64) -> io::Result<()> {
    let process = pid.to_string();
    fold_all(folder, DEAD, |known| known == process)
}

/// The same for all that are over, in files that are named for `into`.
///
/// # Errors
/// The system's; what was not added up is still there.
pub fn fold_all(folder: &Path, into: &str, is_over: impl Fn(&str) -> bool) -> io::Result<()> {
    let mut sums: BTreeMap<PathBuf, (Merge, Vec<PathBuf>)> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(name) = Name::parse(file).filter(|name| is_over(name.process)) else { continue };
        if name.live {
            remove(&path)?;
            continue;
        }
        let to = folder.join(file.replace(&format!("_{}.", name.process), &format!("_{into}.")));
        sums.entry(to).or_insert_with(|| (name.merge, Vec::new())).1.push(path);
    }
    for (to, (how, from)) in sums {
        add(&from, &to, how)?;
        from.iter().try_for_each(|path| remove(path))?;
    }
    Ok(())
}

/// Somebody else may have removed it.
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// What is in a file; nothing is in one that is not there.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(Vec::new()),
        _ => Err(error),
    })
}

fn add(from: &[PathBuf], to: &Path, how: Merge) -> io::Result<()> {
    let mut all: Vec<(Vec<u8>, Entry)> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for path in [to].into_iter().chain(from.iter().map(PathBuf::as_path)) {
        for (key, entry) in entries(&content(path)?) {
            match places.get(key).and_then(|place| all.get_mut(*place)) {
                Some((_, known)) => known.merge(entry, how),
                None => {
                    places.insert(key.to_vec(), all.len());
                    all.push((key.to_vec(), entry));
                }
            }
        }
    }
    let whole = to.with_extension("new");
    fs::write(&whole, written(&all))?;
    fs::rename(&whole, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(pairs: &[(&str, f64)]) -> Vec<u8> {
        let all: Vec<_> = pairs
            .iter()
            .map(|(key, value)| (key.as_bytes().to_vec(), Entry { value: *value, at: 0.0 }))
            .collect();
        written(&all)
    }

    fn read(path: &Path) -> Vec<(String, f64)> {
        let bytes = fs::read(path).expect("a file");
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).expect("text");
        entries(&bytes).into_iter().map(|(key, entry)| (text(key), entry.value)).collect()
    }

    #[test]
    fn a_name_says_kind_mode_and_process() {
        let name = |file| Name::parse(file).map(|name| (name.kind, name.merge, name.live, name.process));
        assert_eq!(name("counter_12.db"), Some(("counter", Merge::Sum, false, "12")));
        assert_eq!(name("gauge_livesum_12.db"), Some(("gauge", Merge::Sum, true, "12")));
        assert_eq!(name("gauge_max_12.db"), Some(("gauge", Merge::Max, false, "12")));
        assert_eq!(name("gauge_all_12.db"), Some(("gauge", Merge::Apart, true, "12")));
        for other in ["notes.txt", "counter.db", "counter_1_2.db", "thing_1.db", "counter_dead.new"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn what_the_dead_have_counted_is_kept_in_one_file_of_a_kind() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for pid in [1, 2, 12] {
            fs::write(at(&format!("counter_{pid}.db")), file(&[("a", 1.0), (&format!("only-{pid}"), 2.0)]))
                .expect("writes");
            fs::write(at(&format!("gauge_max_{pid}.db")), file(&[("m", f64::from(pid))])).expect("writes");
            fs::write(at(&format!("gauge_liveall_{pid}.db")), file(&[("l", 1.0)])).expect("writes");
        }
        fold(folder.path(), 1).expect("adds up");
        fold(folder.path(), 2).expect("adds up");
        fold(folder.path(), 3).expect("has nothing to do");
        let expected = vec![("a".into(), 2.0), ("only-1".into(), 2.0), ("only-2".into(), 2.0)];
        assert_eq!(read(&at("counter_dead.db")), expected);
        assert_eq!(read(&at("gauge_max_dead.db")), vec![("m".into(), 2.0)]);
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").flatten().map(|one| one.file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            [
                "counter_12.db",
                "counter_dead.db",
                "gauge_liveall_12.db",
                "gauge_max_12.db",
                "gauge_max_dead.db"
            ]
        );
    }

    #[test]
    fn a_file_that_is_cut_is_read_as_far_as_it_goes() {
        let whole = file(&[("abc", 1.0), ("defghijk", 2.0)]);
        assert_eq!(entries(&whole).len(), 2);
        for length in 0..whole.len() {
            assert!(entries(&whole[..length]).len() < 2);
        }
        let mut wild = whole.clone();
        wild[8..12].copy_from_slice(&i32::MAX.to_ne_bytes());
        assert_eq!(entries(&wild).len(), 0);
    }
}
