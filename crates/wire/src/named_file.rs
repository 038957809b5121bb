//! Which file an application names in place of a body: `X-Sendfile` and `X-Accel-Redirect`.
//!
//! Knows: the folders that it may name files of, and how either header spells a path. Does not know: files; whoever opens
//! one sees to it that no link leads out of its folder. Runs for replies that have such a header.
//!
//! `X-Sendfile` is a path of the file system, taken as it stands: that is what Werkzeug and Django's helpers write.
//! `X-Accel-Redirect` is a path such as a URL has, percent-encoded, below the name that a folder was given.

use std::fmt;

/// A folder whose files may be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFolder {
    /// What `X-Accel-Redirect` calls it: `/protected`.
    pub name: Vec<u8>,
    /// Its absolute path, as it was given and with all links resolved: applications write either.
    pub paths: Vec<Vec<u8>>,
}

/// How a file is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    Sendfile,
    AccelRedirect,
}

impl NamedBy {
    /// The header's name.
    pub fn header(self) -> &'static str {
        match self {
            Self::Sendfile => "X-Sendfile",
            Self::AccelRedirect => "X-Accel-Redirect",
        }
    }
}

/// Why a header names no file that may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameFault {
    /// It is in none of the folders.
    Outside,
    /// It climbs with `..`, holds a NUL or an escape that is none, or is the folder itself.
    Form,
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "it is in no folder of --sendfile",
            Self::Form => "it is not the plain path of a file: no '..', no NUL, whole escapes",
        })
    }
}

/// The folder, by its place, and the path of the file below it. The longest folder that fits decides.
///
/// # Errors
/// [`NameFault`], for what must not be opened.
pub fn find(folders: &[NamedFolder], by: NamedBy, value: &[u8]) -> Result<(usize, Vec<u8>), NameFault> {
    let decoded;
    let path = match by {
        NamedBy::Sendfile => value,
        NamedBy::AccelRedirect => {
            // What follows a question mark is for whoever has another use of the header.
            let end = value.iter().position(|&byte| byte == b'?').unwrap_or(value.len());
            decoded = percent_decoded(&value[..end]).ok_or(NameFault::Form)?;
            &decoded
        }
    };
    let spellings = |folder: &NamedFolder| match by {
        NamedBy::Sendfile => folder.paths.clone(),
        NamedBy::AccelRedirect => vec![folder.name.clone()],
    };
    let fitting = folders.iter().enumerate().flat_map(|(at, folder)| {
        spellings(folder).into_iter().filter_map(move |above| Some((above.len(), at, below(path, &above)?)))
    });
    let (_, at, rest) = fitting.max_by_key(|(length, ..)| *length).ok_or(NameFault::Outside)?;
    Ok((at, plain(rest)?))
}

/// What of a path is below a folder: only whole segments count.
fn below<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    path.strip_prefix(folder)?.strip_prefix(b"/")
}

/// A relative path without empty segments and dots.
fn plain(path: &[u8]) -> Result<Vec<u8>, NameFault> {
    if path.contains(&0) || path.ends_with(b"/") {
        return Err(NameFault::Form);
    }
    let mut segments = path.split(|&byte| byte == b'/').filter(|segment| !matches!(segment, [] | [b'.']));
    let mut made = segments.next().unwrap_or_default().to_vec();
    if made == b".." {
        return Err(NameFault::Form);
    }
    for segment in segments {
        if segment == b".." {
            return Err(NameFault::Form);
        }
        made.push(b'/');
        made.extend_from_slice(segment);
    }
    if made.is_empty() { Err(NameFault::Form) } else { Ok(made) }
}

fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut made = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte == b'%' {
            let value = digit(text.get(at + 1))? * 16 + digit(text.get(at + 2))?;
            made.push(u8::try_from(value).ok()?);
            at += 3;
        } else {
            made.push(byte);
            at += 1;
        }
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders() -> Vec<NamedFolder> {
        let folder = |name: &str, paths: &[&str]| NamedFolder {
            name: name.as_bytes().to_vec(),
            paths: paths.iter().map(|path| path.as_bytes().to_vec()).collect(),
        };
        vec![
            folder("/protected", &["/srv/current/media", "/srv/7/media"]),
            folder("/protected/deep", &["/srv/current/media/deep"]),
            folder("/all", &["/"]),
        ]
    }

    fn found(by: NamedBy, value: &str) -> Result<(usize, String), NameFault> {
        find(&folders()[..2], by, value.as_bytes())
            .map(|(at, path)| (at, String::from_utf8(path).expect("text")))
    }

    #[test]
    fn a_file_is_found_below_the_longest_folder_that_fits() {
        for (by, value, at, path) in [
            (NamedBy::Sendfile, "/srv/current/media/a.pdf", 0, "a.pdf"),
            (NamedBy::Sendfile, "/srv/7/media/a/b c.pdf", 0, "a/b c.pdf"),
            (NamedBy::Sendfile, "/srv/7/media//a/./b", 0, "a/b"),
            (NamedBy::Sendfile, "/srv/current/media/deep/a", 1, "a"),
            (NamedBy::Sendfile, "/srv/current/media/deeper/a", 0, "deeper/a"),
            (NamedBy::Sendfile, "/srv/7/media/100%25", 0, "100%25"),
            (NamedBy::AccelRedirect, "/protected/100%25", 0, "100%"),
            (NamedBy::AccelRedirect, "/protected/a%20b/c?x=%zz", 0, "a b/c"),
            (NamedBy::AccelRedirect, "/protected/deep/c", 1, "c"),
            (NamedBy::AccelRedirect, "/protected/.hidden", 0, ".hidden"),
            (NamedBy::AccelRedirect, "/protected/...", 0, "..."),
        ] {
            assert_eq!(found(by, value), Ok((at, path.into())), "{value}");
        }
        assert_eq!(find(&folders(), NamedBy::Sendfile, b"/etc/x"), Ok((2, b"etc/x".to_vec())));
    }

    #[test]
    fn what_is_in_no_folder_or_climbs_is_refused() {
        for (by, value, fault) in [
            (NamedBy::Sendfile, "/etc/passwd", NameFault::Outside),
            (NamedBy::Sendfile, "a.pdf", NameFault::Outside),
            (NamedBy::Sendfile, "", NameFault::Outside),
            (NamedBy::Sendfile, "/srv/7/media2/a", NameFault::Outside),
            (NamedBy::Sendfile, "/srv/7/media", NameFault::Outside),
            (NamedBy::Sendfile, "/srv/7/media/", NameFault::Form),
            (NamedBy::Sendfile, "/srv/7/media/a/", NameFault::Form),
            (NamedBy::Sendfile, "/srv/7/media/..", NameFault::Form),
            (NamedBy::Sendfile, "/srv/7/media/a/../../../etc/passwd", NameFault::Form),
            (NamedBy::Sendfile, "/srv/7/media/./..//x", NameFault::Form),
            (NamedBy::AccelRedirect, "/srv/7/media/a", NameFault::Outside),
            (NamedBy::AccelRedirect, "/protected/%2e%2e/a", NameFault::Form),
            (NamedBy::AccelRedirect, "/protected/a%00", NameFault::Form),
            (NamedBy::AccelRedirect, "/protected/a%2", NameFault::Form),
            (NamedBy::AccelRedirect, "/protected/a%zz", NameFault::Form),
            (NamedBy::AccelRedirect, "/protected/%2e%2e%2fa", NameFault::Form),
            (NamedBy::AccelRedirect, "/protected/.", NameFault::Form),
        ] {
            assert_eq!(found(by, value), Err(fault), "{value}");
        }
    }
}
