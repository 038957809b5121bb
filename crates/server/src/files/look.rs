//! A look at the disk: what a path of a mount is now.
//!
//! Knows: files, the compressed forms beside them, and what stands for a folder or for nothing. Does not know: who asks, or
//! what is kept. Under the baton it takes only what the kernel has in memory ([`Ask::Cached`]); a thread that may wait takes
//! whatever there is ([`Ask::Disk`]).

use std::fs::File;
use std::io;
use std::sync::Arc;

use reactor::file::{Ask, Facts, Found, Root, facts, read_at};
use reactor::sys::wall_seconds;
use wire::encodings::Encoding;
use wire::etag::{ContentHash, Stamp};
use wire::static_path::{Named, decode};
use wire::{DateLine, Millis, media};

use super::content::{Content, Stored};
use super::mount::Mount;
use super::page::{Choice, Page};
use super::shelf::Room;
use crate::engine::Engine;
use crate::sent_file::OpenFile;

/// How often a file is read that changes while it is read.
const TRIES: u32 = 3;
/// How much is read at a time of a file whose content has to be known and is not kept.
const PIECE_BYTES: usize = 64 * 1024;

/// A page that was found.
#[derive(Debug, Clone)]
pub(super) struct FoundPage {
    pub page: Arc<Page>,
    /// Nobody knew it before.
    pub is_new: bool,
    /// It is the mount's fallback, in the place of another path.
    pub instead: bool,
}

/// What a path has come to.
#[derive(Debug, Clone)]
pub(super) enum Resolved {
    Page(FoundPage),
    /// A folder that has an index, asked for without the slash.
    Folder,
    Nothing,
    Forbidden,
    /// It cannot be said now.
    Busy,
}

/// Why there is no file.
enum Missing {
    Folder,
    Nothing,
    Forbidden,
    Busy,
    /// The disk would have to be waited for.
    WouldWait,
}

/// One look: at which mount, and how.
pub(super) struct Looking {
    pub engine: Arc<Engine>,
    pub root: Arc<Root>,
    pub room: Arc<Room>,
    pub number: u16,
    pub ask: Ask,
}

/// The files that a path, as sent, may come to.
pub(super) fn candidates(mount: &Mount, rest: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = named(mount, rest).map(|(path, _)| path).into_iter().collect();
    all.extend(mount.fallback.clone());
    all
}

/// The file that a path names, and whether it names a folder. None: it names nothing.
fn named(mount: &Mount, rest: &[u8]) -> Option<(Vec<u8>, Named)> {
    if let Some(file) = &mount.file {
        return Some((file.clone(), Named::File));
    }
    let mut path = Vec::new();
    let named = decode(if rest.is_empty() { b"/" } else { rest }, &mut path).ok()?;
    match (named, &mount.index) {
        (Named::File, _) => {}
        (Named::Folder, None) => return None,
        (Named::Folder, Some(index)) => {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(index);
        }
    }
    Some((path, named))
}

impl Looking {
    fn mount(&self) -> &Mount {
        &self.engine.config.mounts[usize::from(self.number)]
    }

    /// What a path, as sent behind the mount's prefix, is. `known`: pages that were found before. None: the disk would
    /// have to be waited for.
    pub fn resolve(
        &self,
        rest: &[u8],
        known: impl Fn(&[u8]) -> Option<Arc<Page>>,
        now: Millis,
    ) -> Option<Resolved> {
        let mount = self.mount();
        let missing = match named(mount, rest) {
            Some(_) if rest.is_empty() && mount.index.is_some() => return Some(Resolved::Folder),
            None => Missing::Nothing,
            Some((path, _)) => match self.page(&path, &known, now) {
                Ok((page, is_new)) => {
                    return Some(Resolved::Page(FoundPage { page, is_new, instead: false }));
                }
                Err(missing) => missing,
            },
        };
        match missing {
            Missing::WouldWait => return None,
            Missing::Forbidden => return Some(Resolved::Forbidden),
            Missing::Busy => return Some(Resolved::Busy),
            Missing::Folder if mount.index.is_some() && !rest.ends_with(b"/") => {
                return Some(Resolved::Folder);
            }
            Missing::Folder | Missing::Nothing => {}
        }
        let Some(fallback) = &mount.fallback else { return Some(Resolved::Nothing) };
        match self.page(fallback, &known, now) {
            Ok((page, is_new)) => Some(Resolved::Page(FoundPage { page, is_new, instead: true })),
            Err(Missing::WouldWait) => None,
            Err(Missing::Busy) => Some(Resolved::Busy),
            Err(_) => Some(Resolved::Nothing),
        }
    }

    /// The page of a file: the one that is known, if it is still right, or a new one.
    fn page(
        &self,
        path: &[u8],
        known: impl Fn(&[u8]) -> Option<Arc<Page>>,
        now: Millis,
    ) -> Result<(Arc<Page>, bool), Missing> {
        let known = known(path);
        if let Some(page) = &known {
            if page.is_fresh(now, self.engine.config.limits.static_recheck) {
                return Ok((Arc::clone(page), false));
            }
            self.engine.counters.static_rechecks.add();
        }
        let mut files = self.open_all(path)?;
        let found = std::array::from_fn(|at| files[at].as_ref().map(|(_, facts)| *facts));
        if let Some(page) = known
            && page.is_same(&found)
        {
            return Ok((page, false));
        }
        let varies = files.iter().flatten().count() > 1;
        let (mut choices, mut needs, mut lacks) = ([const { None }; 4], 0, false);
        for encoding in Encoding::ALL {
            let Some((file, facts)) = files[encoding as usize].take() else { continue };
            let (content, facts, had_room) = self.load(file, facts)?;
            needs += self.room.needed(facts.size).unwrap_or(0);
            lacks |= !had_room;
            choices[encoding as usize] = Some(self.choice(path, (encoding, varies), facts, content)?);
        }
        Page::new(path, choices, if lacks { needs } else { 0 })
            .map(|page| (page, true))
            .ok_or(Missing::Nothing)
    }

    /// Opens a file and the compressed forms that are not older.
    fn open_all(&self, path: &[u8]) -> Result<[Option<(File, Facts)>; 4], Missing> {
        let mut all = [const { None }; 4];
        let (file, of_file) = self.open(path)?;
        let age = of_file.modified;
        all[Encoding::Identity as usize] = Some((file, of_file));
        for encoding in Encoding::ALL {
            if encoding == Encoding::Identity {
                continue;
            }
            match self.open(&[path, encoding.suffix().as_bytes()].concat()) {
                Ok((file, facts)) if facts.modified >= age => {
                    all[encoding as usize] = Some((file, facts));
                }
                Err(Missing::WouldWait) => return Err(Missing::WouldWait),
                // What cannot be had is done without.
                _ => {}
            }
        }
        Ok(all)
    }

    fn open(&self, path: &[u8]) -> Result<(File, Facts), Missing> {
        match self.root.open(path, self.ask) {
            Ok(Found::File(opened)) => Ok(opened),
            Ok(Found::Folder) => Err(Missing::Folder),
            Ok(Found::NotFound | Found::Outside | Found::NotRegular) => Err(Missing::Nothing),
            Ok(Found::Forbidden) => Err(Missing::Forbidden),
            Ok(Found::WouldBlock) => Err(Missing::WouldWait),
            Ok(Found::Busy) | Err(_) => Err(Missing::Busy),
        }
    }

    /// A file's content, in memory where it is small and there is room; what the file was then; and whether there was
    /// room.
    fn load(&self, file: File, mut known: Facts) -> Result<(Content, Facts, bool), Missing> {
        let mut had_room = true;
        for _ in 0..TRIES {
            let Some(needed) = self.room.needed(known.size) else { break };
            let Some(charge) = self.room.take(needed) else {
                had_room = false;
                break;
            };
            let bytes = self.read(&file, known.size)?;
            let then = facts(&file).map_err(|_| Missing::Busy)?;
            if then == known && bytes.len() as u64 == known.size {
                return Ok((Content::Memory(Stored::new(bytes, charge)), known, true));
            }
            // Somebody writes to it.
            known = then;
        }
        let open = OpenFile::charged(file, self.room.descriptor());
        Ok((Content::File(Arc::new(open), known.size), known, had_room))
    }

    /// All of a small file, as far as it has so many bytes.
    fn read(&self, file: &File, size: u64) -> Result<Vec<u8>, Missing> {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        let mut at = 0;
        while at < bytes.len() {
            match read_at(file, &mut bytes[at..], at as u64, self.ask) {
                Ok(Some(0)) => break,
                Ok(Some(read)) => at += read,
                Ok(None) => return Err(Missing::WouldWait),
                Err(_) => return Err(Missing::Busy),
            }
        }
        bytes.truncate(at);
        Ok(bytes)
    }

    /// A representation with the lines of its replies.
    fn choice(
        &self,
        path: &[u8],
        (encoding, varies): (Encoding, bool),
        facts: Facts,
        content: Content,
    ) -> Result<Choice, Missing> {
        let stamp = match Stamp::of_time(facts.modified.0) {
            Some(stamp) => stamp,
            None => self.stamp_of_content(&content).ok_or(Missing::WouldWait)?,
        };
        let now = wall_seconds();
        let etag = stamp.etag(content.size(), encoding, now).into_bytes();
        let modified = stamp.last_modified(now);
        let mount = self.mount();
        let mut brief = Lines(Vec::with_capacity(160), mount);
        brief.add("ETag", &etag);
        if let Some(modified) = modified {
            brief.add("Last-Modified", DateLine::at(modified).date());
        }
        if varies {
            brief.add("Vary", b"Accept-Encoding");
        }
        brief.add_unless_given("Cache-Control", mount.cache_control_of(path).as_bytes());
        for (name, value) in &mount.headers {
            brief.raw(name, value);
        }
        let mut full = Lines(brief.0.clone(), mount);
        full.add_unless_given("Content-Type", media::type_of(path).as_bytes());
        if let Some(name) = encoding.name() {
            full.add("Content-Encoding", name.as_bytes());
        }
        full.add("Accept-Ranges", b"bytes");
        for lines in [&mut brief, &mut full] {
            lines.add_unless_given("X-Content-Type-Options", b"nosniff");
        }
        Ok(Choice { content, facts, etag, modified, full: full.0, brief: brief.0 })
    }

    /// What tells a file's states apart where its time does not. None: all of it would have to be read.
    fn stamp_of_content(&self, content: &Content) -> Option<Stamp> {
        let mut hash = ContentHash::default();
        match content {
            Content::Memory(stored) => hash.update(stored.bytes()),
            // A large file is not read under the baton, however much of it is in memory.
            Content::File(..) if matches!(self.ask, Ask::Cached) => return None,
            Content::File(open, size) => {
                let mut piece = vec![0; PIECE_BYTES];
                let mut at = 0;
                while at < *size {
                    match read_whatever(&open.file, &mut piece, at) {
                        0 => break,
                        read => {
                            hash.update(&piece[..read]);
                            at += read as u64;
                        }
                    }
                }
            }
        }
        Some(hash.stamp())
    }
}

/// Reads of a file on a thread that may wait; nothing where that fails.
fn read_whatever(file: &File, into: &mut [u8], at: u64) -> usize {
    let read: io::Result<Option<usize>> = read_at(file, into, at, Ask::Disk);
    read.ok().flatten().unwrap_or(0)
}

/// Lines of a reply's head.
struct Lines<'a>(Vec<u8>, &'a Mount);

impl Lines<'_> {
    fn raw(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, b": ", value, b"\r\n"] {
            self.0.extend_from_slice(part);
        }
    }

    fn add(&mut self, name: &str, value: &[u8]) {
        self.raw(name.as_bytes(), value);
    }

    /// A line that the mount's own headers may replace.
    fn add_unless_given(&mut self, name: &str, value: &[u8]) {
        if !self.1.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name.as_bytes())) {
            self.add(name, value);
        }
    }
}
