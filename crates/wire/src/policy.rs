//! Where the RFCs let a server choose: strict, with a name for each way to be lenient.
//!
//! Knows: names. Does not know: how a rule is applied (the parsers do).

use std::fmt;

/// There is no rule of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName(pub String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no rule '{}'", self.0)
    }
}

impl std::error::Error for UnknownName {}

/// What becomes of header names with an underscore, which look like others in `environ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Underscore {
    Drop,
    Refuse,
    Keep,
}

/// The rules in force. The default is strict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Policy {
    pub bare_lf: bool,
    pub obs_fold: bool,
    pub empty_te_members: bool,
    pub duplicate_content_length: bool,
    pub control_chars: bool,
    pub empty_host: bool,
    pub trace: bool,
    pub unknown_expect: bool,
    pub leading_lines: u8,
    pub underscore: Underscore,
    pub refuses: Refuses,
}

/// What is allowed by default and can be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refuses {
    pub unknown_methods: bool,
    pub absolute_form: bool,
    pub http10_keep_alive: bool,
    pub trailers: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            bare_lf: false,
            obs_fold: false,
            empty_te_members: false,
            duplicate_content_length: false,
            control_chars: false,
            empty_host: false,
            trace: false,
            unknown_expect: false,
            leading_lines: 2,
            underscore: Underscore::Drop,
            refuses: Refuses::default(),
        }
    }
}

/// What can be allowed that is refused by default.
pub const RELAXABLE: &[(&str, &str)] = &[
    (
        "bare-lf",
        "request line and header lines may end in LF alone (RFC 9112 section 2.2); never chunk framing",
    ),
    ("obs-fold", "a header line that begins with a blank continues the one before (RFC 9112 section 5.2)"),
    ("empty-te-members", "empty members in Transfer-Encoding are ignored (RFC 9110 section 5.6.1.2)"),
    ("duplicate-content-length", "equal Content-Length values count as one (RFC 9112 section 6.3)"),
    ("control-chars", "control characters other than NUL, CR and LF in header values (RFC 9110 section 5.5)"),
    ("empty-host", "an empty Host (RFC 9112 section 3.2)"),
    ("trace", "TRACE reaches the application (RFC 9110 section 9.3.8)"),
    ("unknown-expect", "unknown expectations are ignored instead of 417 (RFC 9110 section 10.1.1)"),
    ("leading-lines", "up to 64 empty lines before a request line instead of 2 (RFC 9112 section 2.2)"),
    ("underscore-names", "header names with an underscore reach the application"),
];

/// What can be refused that is allowed by default.
pub const REFUSABLE: &[(&str, &str)] = &[
    ("underscore-names", "400 for a header name with an underscore, instead of dropping it"),
    ("unknown-methods", "501 for methods that are not registered, instead of passing them on"),
    ("absolute-form", "400 for a whole URL as the request target"),
    ("http10-keep-alive", "HTTP/1.0 connections close after each reply"),
    ("trailers", "400 for trailers, instead of dropping them"),
];

impl Policy {
    /// Allows something by its name in [`RELAXABLE`].
    ///
    /// # Errors
    /// [`UnknownName`] names what was asked for.
    pub fn relax(&mut self, name: &str) -> Result<(), UnknownName> {
        match name {
            "bare-lf" => self.bare_lf = true,
            "obs-fold" => self.obs_fold = true,
            "empty-te-members" => self.empty_te_members = true,
            "duplicate-content-length" => self.duplicate_content_length = true,
            "control-chars" => self.control_chars = true,
            "empty-host" => self.empty_host = true,
            "trace" => self.trace = true,
            "unknown-expect" => self.unknown_expect = true,
            "leading-lines" => self.leading_lines = 64,
            "underscore-names" => self.underscore = Underscore::Keep,
            _ => return Err(UnknownName(name.to_string())),
        }
        Ok(())
    }

    /// Refuses something by its name in [`REFUSABLE`].
    ///
    /// # Errors
    /// [`UnknownName`] names what was asked for.
    pub fn refuse(&mut self, name: &str) -> Result<(), UnknownName> {
        match name {
            "underscore-names" => self.underscore = Underscore::Refuse,
            "unknown-methods" => self.refuses.unknown_methods = true,
            "absolute-form" => self.refuses.absolute_form = true,
            "http10-keep-alive" => self.refuses.http10_keep_alive = true,
            "trailers" => self.refuses.trailers = true,
            _ => return Err(UnknownName(name.to_string())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_changes_something() {
        for (name, _) in RELAXABLE {
            let mut policy = Policy::default();
            policy.relax(name).expect(name);
            assert_ne!(policy, Policy::default(), "{name}");
        }
        for (name, _) in REFUSABLE {
            let mut policy = Policy::default();
            policy.refuse(name).expect(name);
            assert_ne!(policy, Policy::default(), "{name}");
        }
        assert!(Policy::default().relax("nope").is_err() && Policy::default().refuse("nope").is_err());
    }
}
