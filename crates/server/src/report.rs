//! Lines to the supervisor: a word, and a text to the end of the line.
//!
//! Knows: how a line looks that `python/forehand/supervisor/channel.py` reads. Does not know: which words there are. Any
//! thread of a worker, and of the process that answers `--status-bind`.

use std::io::Write;

/// Says something to the supervisor.
pub fn tell(mut supervisor: impl Write, line: &str) {
    let line = format!("{}\n", line.replace('\\', "\\\\").replace('\n', "\\n"));
    // A supervisor that is gone takes this process with it in a moment.
    let _ = supervisor.write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_said_is_one_line() {
        let mut out = Vec::new();
        tell(&mut out, "warn C:\\shop\nand more");
        assert_eq!(out, b"warn C:\\\\shop\\nand more\n");
    }
}
