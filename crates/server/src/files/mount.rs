//! A mount: which paths are files of which folder, and what is said of them.
//!
//! Knows: paths, methods and names. Does not know: the disk. Pure.

use std::collections::HashSet;
use std::path::PathBuf;

/// So many hexadecimal digits in a name are a hash of the file's content.
const HASH_DIGITS: usize = 8;
/// How long a file is kept whose name changes with its content: a year, as others understand for ever.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// A folder whose files are served below a path, or one file of it at that path (`--static`).
#[derive(Debug, Clone, Default)]
pub struct Mount {
    /// Where it begins: `/static`, or nothing for all paths.
    pub prefix: Vec<u8>,
    /// The folder.
    pub root: PathBuf,
    /// The only file of it that is served, by its name in the folder: at the prefix itself, and nothing below.
    pub file: Option<Vec<u8>>,
    /// The file that stands for a folder. Without one a folder is nothing.
    pub index: Option<Vec<u8>>,
    /// The file that is sent where there is none, by its path in the folder.
    pub fallback: Option<Vec<u8>>,
    /// What is no file here, the application is asked for.
    pub falls_through: bool,
    /// For how long files may be kept, in seconds.
    pub max_age: u64,
    /// Patterns of names whose files never change.
    pub immutable: Vec<Vec<u8>>,
    /// Paths of files that never change, as Django's `staticfiles.json` lists them.
    pub immutable_names: HashSet<Vec<u8>>,
    /// Headers of every reply with a file.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What is done with a request for a mount, by its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Look,
    /// 405
    Refuse,
    /// To the application.
    Pass,
}

/// The mount that a path belongs to, and what follows the prefix: nothing, or a path that begins with a slash. The first
/// of them that fits: those with longer prefixes come first.
#[inline]
pub fn find<'a>(mounts: &[Mount], path: &'a [u8]) -> Option<(u16, &'a [u8])> {
    mounts.iter().zip(0..).find_map(|(mount, number)| {
        let rest = path.strip_prefix(&mount.prefix[..])?;
        mount.has(rest).then_some((number, rest))
    })
}

impl Mount {
    /// Whether a path is its own, of which that follows the prefix.
    #[inline]
    fn has(&self, rest: &[u8]) -> bool {
        match rest {
            [] => true,
            // The prefix of the root is nothing.
            [b'/'] => self.file.is_none() || self.prefix.is_empty(),
            [b'/', ..] => self.file.is_none(),
            _ => false,
        }
    }

    /// What becomes of a request with this method.
    pub fn way(&self, method: &[u8]) -> Way {
        match method {
            b"GET" | b"HEAD" => Way::Look,
            _ if self.falls_through => Way::Pass,
            _ => Way::Refuse,
        }
    }

    /// The value of Cache-Control for what may change.
    pub fn cache_control(&self) -> String {
        format!("public, max-age={}", self.max_age)
    }

    /// The same for a file of this path in the folder.
    pub fn cache_control_of(&self, path: &[u8]) -> String {
        if self.is_immutable(path) { FOR_EVER.into() } else { self.cache_control() }
    }

    /// True for a file whose name changes with its content.
    fn is_immutable(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        has_hash(name)
            || self.immutable_names.contains(path)
            || self.immutable.iter().any(|pattern| {
                let whole = pattern.contains(&b'/');
                matches(pattern, if whole { path } else { name })
            })
    }
}

/// A part of a name between two dots is a hash (`app.3f2a91c0.js`): hexadecimal digits, enough of them, and not decimal
/// ones alone, which are a date or a number (`report.20240131.pdf`).
fn has_hash(name: &[u8]) -> bool {
    let parts: Vec<&[u8]> = name.split(|&byte| byte == b'.').collect();
    let [_, middle @ .., _] = &parts[..] else { return false };
    middle.iter().any(|part| {
        part.len() >= HASH_DIGITS
            && part.iter().all(u8::is_ascii_hexdigit)
            && !part.iter().all(u8::is_ascii_digit)
    })
}

/// Whether a pattern is a text: `*` is anything without a slash, `**` anything, `?` one character but a slash.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Where the last star of each kind stands, and how much of the text it has taken.
    let (mut shallow, mut deep) = (None, None);
    let (mut at, mut read) = (0, 0);
    while read < text.len() {
        match pattern.get(at..) {
            Some([b'*', b'*', ..]) => {
                at += 2;
                (deep, shallow) = (Some((at, read)), None);
            }
            Some([b'*', ..]) => {
                at += 1;
                shallow = Some((at, read));
            }
            Some([b'?', ..]) if text[read] != b'/' => (at, read) = (at + 1, read + 1),
            Some([byte, ..]) if *byte == text[read] => (at, read) = (at + 1, read + 1),
            // It does not go on like this: a star takes one more.
            _ => match (shallow, deep) {
                (Some((behind, taken)), _) if text[taken] != b'/' => {
                    shallow = Some((behind, taken + 1));
                    (at, read) = (behind, taken + 1);
                }
                (_, Some((behind, taken))) => {
                    (deep, shallow) = (Some((behind, taken + 1)), None);
                    (at, read) = (behind, taken + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(prefix: &str) -> Mount {
        Mount { prefix: prefix.into(), max_age: 60, ..Mount::default() }
    }

    #[test]
    fn a_path_belongs_to_the_first_mount_whose_prefix_ends_where_a_name_does() {
        let mounts = [mount("/static/css"), mount("/static"), mount("/a")];
        for (path, found) in [
            ("/static/css/a.css", Some((0, "/a.css"))),
            ("/static/cssx", Some((1, "/cssx"))),
            ("/static", Some((1, ""))),
            ("/static/", Some((1, "/"))),
            ("/staticx", None),
            ("/", None),
            ("*", None),
            ("/a//b", Some((2, "//b"))),
        ] {
            let found = found.map(|(number, rest): (u16, &str)| (number, rest.as_bytes()));
            assert_eq!(find(&mounts, path.as_bytes()), found, "{path}");
        }
        let all = [mount("")];
        assert_eq!(find(&all, b"/x"), Some((0, &b"/x"[..])));
        assert_eq!(find(&all, b"*"), None);
    }

    #[test]
    fn one_file_is_at_its_path_and_nothing_is_below() {
        let file = |prefix| Mount { file: Some(b"icon".to_vec()), ..mount(prefix) };
        let mounts = [file("/static/icon"), mount("/static"), file("/icon"), file("")];
        for (path, found) in [
            ("/static/icon", Some((0, ""))),
            ("/static/icon/", Some((1, "/icon/"))),
            ("/static/iconx", Some((1, "/iconx"))),
            ("/icon", Some((2, ""))),
            ("/icon/", None),
            ("/icon/icon", None),
            ("/iconx", None),
            ("/", Some((3, "/"))),
            ("//", None),
            ("/x", None),
        ] {
            let found = found.map(|(number, rest): (u16, &str)| (number, rest.as_bytes()));
            assert_eq!(find(&mounts, path.as_bytes()), found, "{path}");
        }
    }

    #[test]
    fn other_methods_are_refused_unless_the_application_is_asked() {
        let mut one = mount("/s");
        assert_eq!(
            [&b"GET"[..], b"HEAD", b"POST", b"get"].map(|method| one.way(method)),
            [Way::Look, Way::Look, Way::Refuse, Way::Refuse]
        );
        one.falls_through = true;
        assert_eq!(one.way(b"POST"), Way::Pass);
    }

    #[test]
    fn names_with_a_hash_are_kept_for_ever_and_dates_are_not_hashes() {
        let mut one = mount("/s");
        one.immutable = vec![b"*-????????.js".to_vec(), b"assets/**".to_vec()];
        one.immutable_names.insert(b"css/site.css".to_vec());
        for (path, immutable) in [
            ("app.3f2a91c0.js", true),
            ("a/b/app.3F2A91C0.min.js", true),
            ("app.3f2a91c.js", false),
            ("app.20240131.js", false),
            ("3f2a91c0.js", false),
            ("app.3f2a91c0", false),
            ("app.3f2a91cg.js", false),
            ("x/app-Ab_9-xYz.js", true),
            ("assets/a/b.png", true),
            ("assetsx/a.png", false),
            ("css/site.css", true),
            ("site.css", false),
        ] {
            assert_eq!(one.is_immutable(path.as_bytes()), immutable, "{path}");
        }
        assert_eq!(one.cache_control_of(b"site.css"), "public, max-age=60");
        assert_eq!(one.cache_control_of(b"css/site.css"), "public, max-age=31536000, immutable");
    }

    #[test]
    fn stars_stop_at_slashes_unless_there_are_two() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("*", "abc", true),
            ("*", "a/b", false),
            ("**", "a/b", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a*b*c", "aXbYbZc", true),
            ("?", "/", false),
            ("a/**/c", "a/b/b/c", true),
            ("*.css", "x.css.map", false),
            ("**/*.js", "a/b/c.js", true),
            ("**/*.js", "a/b/c.jsx", false),
            ("a/*/c", "a/b/b/c", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }
}
