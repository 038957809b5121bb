//! Folders of which the application may name files in place of a body (`--sendfile`), and how one of them is opened.
//!
//! Knows: which folder a name is in, and what is wrong with one that cannot be sent. Does not know: requests or replies
//! (`named_files.rs`). Used by whichever thread answers; what is asked of the disk may be waited for only where `Ask` says so.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use reactor::file::{Ask, Facts, Found, Root};
use wire::named_file::{NameFault, NamedBy, NamedFolder, find};

/// The folders.
pub struct Sendfile {
    folders: Vec<NamedFolder>,
    roots: Vec<(PathBuf, Root)>,
}

/// Why a file that was named is not sent.
#[derive(Debug)]
pub enum Refused {
    Name(NameFault),
    /// What is there instead of a file, and in which folder.
    NotThere(&'static str, PathBuf),
    Failed(io::Error),
    /// It may be there with the next request.
    Busy,
}

impl Refused {
    /// True: it is the system that fails, and not the name that is wrong.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Busy)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(fault) => fault.fmt(f),
            Self::NotThere(what, folder) => write!(f, "{what} in {}", folder.display()),
            Self::Failed(error) => write!(f, "it cannot be opened: {error}"),
            Self::Busy => f.write_str("its folders are being renamed"),
        }
    }
}

impl Sendfile {
    /// Opens the folders: the name that `X-Accel-Redirect` has for each, and its path.
    ///
    /// # Errors
    /// The folder that cannot be opened, and why.
    pub fn new(given: &[(String, PathBuf)]) -> io::Result<Self> {
        let mut made = Self { folders: Vec::new(), roots: Vec::new() };
        for (name, path) in given {
            let open = || -> io::Result<_> {
                Ok((std::path::absolute(path)?, path.canonicalize()?, Root::new(path)?))
            };
            let (absolute, real, root) = open().map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("--sendfile: the folder {} cannot be opened: {error}", path.display()),
                )
            })?;
            let mut paths = vec![bytes(&absolute)];
            if real != absolute {
                paths.push(bytes(&real));
            }
            made.folders.push(NamedFolder { name: name.as_bytes().to_vec(), paths });
            made.roots.push((absolute, root));
        }
        Ok(made)
    }

    /// Opens what was named. None: the disk would have to be waited for, which this caller may not.
    pub fn open(&self, by: NamedBy, value: &[u8], ask: Ask) -> Option<Result<(File, Facts), Refused>> {
        let (at, path) = match find(&self.folders, by, value) {
            Ok(found) => found,
            Err(fault) => return Some(Err(Refused::Name(fault))),
        };
        let (folder, root) = &self.roots[at];
        let not_there = |what| Some(Err(Refused::NotThere(what, folder.clone())));
        match root.open(&path, ask) {
            Ok(Found::File(opened)) => Some(Ok(opened)),
            Ok(Found::WouldBlock) => None,
            Ok(Found::Busy) => Some(Err(Refused::Busy)),
            Ok(Found::NotFound) => not_there("there is no such file"),
            Ok(Found::Folder) => not_there("it is a folder"),
            Ok(Found::NotRegular) => not_there("it is a device, a socket or a FIFO"),
            Ok(Found::Outside) => not_there("a link leads out of the folder"),
            Ok(Found::Forbidden) => not_there("this server's user may not read it"),
            Err(error) => Some(Err(Refused::Failed(error))),
        }
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}
