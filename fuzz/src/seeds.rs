//! Where mutation starts: everything that tests/data sends.
//!
//! Knows: the folder. The format is read by the code that the crate's own tests use.

use std::path::PathBuf;

#[allow(dead_code)]
#[path = "../../crates/wire/tests/cases/mod.rs"]
mod cases;

/// Longer inputs only repeat one letter.
const MOST: usize = 2000;

/// All distinct inputs that are not too long.
pub fn all() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("tests/data")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    files.sort();
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("text");
        for line in text.lines() {
            if line.starts_with("== ") {
                seeds.push(Vec::new());
            } else if let (Some(sent), Some(seed)) = (line.strip_prefix("send:"), seeds.last_mut()) {
                seed.extend(cases::bytes(sent.strip_prefix(' ').unwrap_or(sent)));
            }
        }
    }
    seeds.retain(|seed| (1..=MOST).contains(&seed.len()));
    seeds.sort();
    seeds.dedup();
    seeds
}
