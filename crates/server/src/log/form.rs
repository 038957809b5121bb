//! How a line of the log looks, and how grave it is.
//!
//! Knows: levels, forms, what must be escaped. Does not know: where lines go (`log.rs`).

use reactor::sys::wall_us;

/// How grave a line is, in the order and with the numbers of Python's logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug = 10,
    Info = 20,
    Warning = 30,
    Error = 40,
    Critical = 50,
}

impl Level {
    /// By its name, as `--log-level` has it.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "debug" | "trace" => Self::Debug,
            "info" => Self::Info,
            "warning" | "warn" => Self::Warning,
            "error" => Self::Error,
            "critical" => Self::Critical,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }

    /// The terminal's sequence that makes it stand out; empty: it does not.
    fn colour(self) -> &'static str {
        match self {
            Self::Debug | Self::Info => "",
            Self::Warning => "\x1b[33m",
            Self::Error | Self::Critical => "\x1b[1;31m",
        }
    }
}

/// How lines look; `python/forehand/lines.py` has the same three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// For a terminal: what a person has to look at stands out.
    Colour,
    /// A JSON object a line.
    Json,
}

impl Form {
    /// By its name in the settings.
    pub fn parse(name: &str) -> Self {
        match name {
            "colour" => Self::Colour,
            "json" => Self::Json,
            _ => Self::Plain,
        }
    }

    /// One whole line, newline included, from text that may hold anything a peer has sent.
    pub(super) fn line(self, level: Level, text: &str) -> Vec<u8> {
        let us = wall_us();
        let (date, time) = crate::calendar::iso(us / 1_000_000);
        let (ms, pid, name) = (us / 1000 % 1000, std::process::id(), level.name());
        let mut line = match self {
            Self::Plain => format!("{date} {time}.{ms:03}Z [{pid}] {name}: "),
            Self::Colour => {
                format!("\x1b[2m{date} {time}.{ms:03}Z [{pid}]\x1b[0m {}{name}: ", level.colour())
            }
            Self::Json => format!(
                "{{\"time\": \"{date}T{time}.{ms:03}Z\", \"level\": \"{name}\", \"pid\": {pid}, \"message\": \""
            ),
        }
        .into_bytes();
        match self {
            Self::Json => push_json(&mut line, text),
            _ => push_clean(&mut line, text.as_bytes()),
        }
        line.extend_from_slice(match self {
            Self::Plain => b"\n",
            Self::Colour if level.colour().is_empty() => b"\n",
            Self::Colour => b"\x1b[0m\n",
            Self::Json => b"\"}\n",
        });
        line
    }
}

/// Appends text with control characters shown as escapes, so that no peer writes lines of
/// its own into the log.
pub fn push_clean(line: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if byte == b'\\' || !(0x20..0x7f).contains(&byte) {
            line.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        } else {
            line.push(byte);
        }
    }
}

/// Appends text inside a JSON string (RFC 8259 §7). Quotes and control characters are escaped; the rest is UTF-8.
fn push_json(line: &mut Vec<u8>, text: &str) {
    for character in text.chars() {
        match character {
            '"' | '\\' => line.extend_from_slice(&[b'\\', character as u8]),
            ' '..='\u{10ffff}' if character != '\u{7f}' => {
                line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => line.extend_from_slice(format!("\\u{:04x}", character as u32).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_in_json_holds_whatever_a_peer_has_sent() {
        let line = String::from_utf8(Form::Json.line(Level::Error, "a \"b\"\n\\ é\u{1}")).expect("UTF-8");
        assert!(line.contains("\"level\": \"error\""), "{line}");
        assert!(line.ends_with("\"message\": \"a \\\"b\\\"\\u000a\\\\ é\\u0001\"}\n"), "{line}");
    }

    #[test]
    fn errors_stand_out_on_a_terminal_and_nothing_else_does() {
        let line = |form: Form, level| String::from_utf8(form.line(level, "text")).expect("UTF-8");
        assert!(line(Form::Colour, Level::Error).ends_with("\x1b[1;31merror: text\x1b[0m\n"));
        assert!(line(Form::Colour, Level::Info).ends_with("\x1b[0m info: text\n"));
        assert!(!line(Form::Plain, Level::Error).contains('\x1b'));
    }

    #[test]
    fn no_peer_writes_lines_of_its_own() {
        let mut line = Vec::new();
        push_clean(&mut line, b"GET /a\r\nfake \\ \xff");
        assert_eq!(line, b"GET /a\\x0d\\x0afake \\x5c \\xff");
    }
}
