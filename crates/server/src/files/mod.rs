//! Files that are served before the application is asked, and without the interpreter.
//!
//! Knows: mounts, what their files are, and who waits for the disk. Does not know: connections, or how a batch of requests
//! is gone through (`requests.rs`). Runs under the baton or on an event loop's thread, where nothing may wait for a disk:
//! what the kernel does not have in memory is looked up by `disk.rs`, and the exchange waits here meanwhile.
//!
//! ```text
//!   request ─► hit on its head ───────────────────────────────────────► answer
//!      └─► mount ─► path ─► shelf, looked at lately ──────────────────────┤
//!                     └─► look, from what the kernel has ─► page ─► shelf ─┤
//!                           └─► it would wait: a thread looks ─► page ─► shelf
//! ```
//!
//! **Other ways to a file end in the same place.** [`answer`] completes a reply whose head, with status 200 and without a
//! length, stands in the builder: conditions, ranges, 206, 304, 412 and 416 follow from the request ([`decide`]) and what is
//! sent ([`Content`]). A file that an application names goes through it with the application's own lines in the builder.

mod answer;
mod content;
mod look;
mod mount;
mod page;
mod shelf;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use reactor::file::{Ask, Root};
use reactor::sys::monotonic_ms;
use wire::Millis;
use wire::encodings::{self, Encoding};

pub use self::answer::{Decision, answer, decide, short};
pub use self::content::{Content, Stored};
use self::look::{Looking, Resolved};
pub use self::mount::{Mount, Way};
use self::page::{Hit, Page};
use self::shelf::{Room, Shelf};
use crate::engine::Engine;
use crate::exchange::Exchange;
use crate::inbox::Inbox;
use crate::log::Level;
use crate::reply_builder::ReplyBuilder;
use crate::sync::lock;

/// A mount and what is open of it.
struct Place {
    root: Arc<Root>,
    /// The folder as it is now: another one may have taken its name.
    fresh: Arc<Mutex<Option<Root>>>,
    /// When that was last asked for.
    refreshed: Millis,
}

/// What a thread has found out: of which mount, for which path.
type Answer = (Key, Resolved);
/// A mount's number, and a path behind it as it was sent.
type Key = (u16, Box<[u8]>);

/// What has become of a request.
pub(crate) enum Served {
    Answered(Box<Exchange>),
    /// It waits for the disk, and comes back by [`Files::fetch`].
    Waits,
    /// No file is meant: the application is asked.
    Passed(Box<Exchange>),
}

/// The mounts of one loop.
pub(crate) struct Files {
    engine: Arc<Engine>,
    places: Vec<Place>,
    shelf: Shelf,
    builder: ReplyBuilder,
    /// Requests that wait for a thread, by what they ask for: one look is for all of them.
    #[expect(clippy::vec_box, reason = "each goes on by itself, as a pointer")]
    waiting: HashMap<Key, Vec<Box<Exchange>>>,
    found: Arc<Inbox<Answer>>,
}

impl Files {
    /// The files of an engine. None: it has no mounts.
    ///
    /// # Errors
    /// The folder that cannot be opened, and why.
    pub fn new(engine: &Arc<Engine>) -> io::Result<Option<Self>> {
        let mounts = &engine.config.mounts;
        if mounts.is_empty() {
            return Ok(None);
        }
        let mut places = Vec::with_capacity(mounts.len());
        for mount in mounts {
            let root = open(&mount.root)?;
            places.push(Place { root: Arc::new(root), fresh: Arc::default(), refreshed: monotonic_ms() });
        }
        Ok(Some(Self {
            shelf: Shelf::new(places.len(), Room::new(&engine.config.limits)),
            places,
            builder: ReplyBuilder::new(),
            waiting: HashMap::new(),
            found: Arc::default(),
            engine: Arc::clone(engine),
        }))
    }

    /// Whether a request is for one of the mounts.
    #[inline]
    pub fn claims(&self, exchange: &Exchange) -> bool {
        mount::find(&self.engine.config.mounts, exchange.head.path()).is_some()
    }

    /// Answers a request that is for one of the mounts.
    pub fn serve(&mut self, mut exchange: Box<Exchange>) -> Served {
        let now = monotonic_ms();
        if let Some(hit) = Hit::of(&exchange.head)
            && let Some((page, encoding, decision)) = hit.page(now, self.engine.config.limits.static_recheck)
        {
            self.send(&mut exchange, &page, encoding, decision);
            return Served::Answered(exchange);
        }
        let Some((number, rest)) = mount::find(&self.engine.config.mounts, exchange.head.path()) else {
            return Served::Passed(exchange);
        };
        let mount = &self.engine.config.mounts[usize::from(number)];
        match mount.way(exchange.head.method()) {
            Way::Look => {}
            Way::Pass => return Served::Passed(exchange),
            Way::Refuse => {
                self.refuse(&mut exchange, b"405 Method Not Allowed", &[(b"Allow", b"GET, HEAD")]);
                return Served::Answered(exchange);
            }
        }
        let rest: Box<[u8]> = rest.into();
        self.refresh(number, now);
        match self.look(number, &rest, now) {
            Some(resolved) => self.conclude(exchange, (number, &rest), &resolved),
            None => {
                self.ask_disk(exchange, (number, rest));
                Served::Waits
            }
        }
    }

    /// What a path is, as far as it can be said without waiting.
    fn look(&mut self, number: u16, rest: &[u8], now: Millis) -> Option<Resolved> {
        let looking = self.looking(number, Ask::Cached);
        let resolved = looking.resolve(rest, |path| self.shelf.get(number, path), now)?;
        if self.makes_room(&resolved) {
            // It is read once more, into memory.
            let resolved = looking.resolve(rest, |path| self.shelf.get(number, path), now)?;
            self.keep(number, &resolved, now);
            return Some(resolved);
        }
        self.keep(number, &resolved, now);
        Some(resolved)
    }

    fn looking(&self, number: u16, ask: Ask) -> Looking {
        Looking {
            engine: Arc::clone(&self.engine),
            root: Arc::clone(&self.places[usize::from(number)].root),
            room: Arc::clone(self.shelf.room()),
            number,
            ask,
        }
    }

    /// A page would be in memory if there had been room. True: there is now.
    fn makes_room(&mut self, resolved: &Resolved) -> bool {
        let Resolved::Page(found) = resolved else { return false };
        found.page.wants_room().is_some_and(|bytes| self.shelf.make_room(bytes, &self.engine.counters))
    }

    /// Puts a page that was found on the shelf.
    fn keep(&mut self, number: u16, resolved: &Resolved, now: Millis) {
        let Resolved::Page(found) = resolved else { return };
        found.page.checked_at(now);
        if found.is_new {
            self.shelf.keep(number, &found.page, &self.engine.counters);
        }
    }

    /// Has a thread look, which may wait. Who asks for the same meanwhile waits with the first.
    #[cold]
    fn ask_disk(&mut self, exchange: Box<Exchange>, key: Key) {
        // Replies to earlier requests of its connection do not wait for a disk.
        exchange.send_pipelined();
        if let Some(waiting) = self.waiting.get_mut(&key) {
            return waiting.push(exchange);
        }
        self.engine.counters.cold_reads.add();
        let looking = self.looking(key.0, Ask::Disk);
        let (found, waker) = (Arc::clone(&self.found), Arc::clone(&self.engine.waker));
        let paths = look::candidates(&self.engine.config.mounts[usize::from(key.0)], &key.1);
        let known: Vec<_> = paths.iter().filter_map(|path| self.shelf.get(key.0, path)).collect();
        let asked = key.clone();
        self.engine.disk.run(move || {
            let resolved = looking
                .resolve(
                    &asked.1,
                    |path| known.iter().find(|page| page.path() == path).cloned(),
                    monotonic_ms(),
                )
                .unwrap_or(Resolved::Busy);
            if found.put((asked, resolved)) {
                waker.wake();
            }
        });
        self.waiting.insert(key, vec![exchange]);
    }

    /// Goes on with those whose files a thread has found, or not.
    pub fn fetch(&mut self, mut served: impl FnMut(Served)) {
        if !self.found.is_full() {
            return;
        }
        for (key, mut resolved) in self.found.take() {
            let now = monotonic_ms();
            if !self.makes_room(&resolved) {
                self.keep(key.0, &resolved, now);
            } else if let Some(again) = self.look(key.0, &key.1, now) {
                // The kernel has it now. If not, it is sent from the file this time.
                resolved = again;
            }
            for exchange in self.waiting.remove(&key).unwrap_or_default() {
                served(self.conclude(exchange, (key.0, &key.1), &resolved));
            }
        }
    }

    /// Answers by what was found.
    fn conclude(
        &mut self,
        mut exchange: Box<Exchange>,
        (number, rest): (u16, &[u8]),
        resolved: &Resolved,
    ) -> Served {
        match resolved {
            Resolved::Page(found) => {
                let encoding = encodings::of(&exchange.head.block, found.page.encodings());
                let decision = found.page.choice(encoding).decide(&exchange.head);
                if !found.instead {
                    Hit::remember(&exchange.head, &found.page, encoding, &decision);
                }
                self.send(&mut exchange, &found.page, encoding, decision);
            }
            Resolved::Folder => self.redirect(&mut exchange, number),
            Resolved::Nothing if self.engine.config.mounts[usize::from(number)].falls_through => {
                return Served::Passed(exchange);
            }
            Resolved::Nothing => self.refuse(&mut exchange, b"404 Not Found", &[]),
            Resolved::Forbidden => self.refuse(&mut exchange, b"403 Forbidden", &[]),
            Resolved::Busy => {
                self.engine.log.complain(Level::Error, || {
                    let mount = &self.engine.config.mounts[usize::from(number)];
                    let name = String::from_utf8_lossy(mount.file.as_deref().unwrap_or(rest));
                    format!(
                        "{name} below {} cannot be opened now: no descriptors or memory are left, or the disk \
                         fails; its client gets 503",
                        mount.root.display()
                    )
                });
                let after = wire::retry_after().as_bytes();
                self.refuse(&mut exchange, b"503 Service Unavailable", &[(b"Retry-After", after)]);
            }
        }
        Served::Answered(exchange)
    }

    fn send(&mut self, exchange: &mut Exchange, page: &Page, encoding: Encoding, decision: Decision) {
        let choice = page.choice(encoding);
        self.builder.head.prepared(choice.lines(&decision));
        self.engine.counters.static_replies.add_alone();
        if let Content::File(..) = choice.content {
            self.engine.counters.static_large_replies.add_alone();
        }
        page.is_used();
        // A peer that is gone shows when the connection is back.
        let _ = answer(exchange, &mut self.builder, &choice.content, decision, &self.engine);
    }

    /// To the folder's path with a slash behind it. What is named is only the last part of the path: it begins with a dot
    /// and cannot be taken for another host, whatever the path begins with.
    fn redirect(&mut self, exchange: &mut Exchange, number: u16) {
        let head = Arc::clone(&exchange.head);
        let name = head.path().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let mut location = [b"./", name, b"/"].concat();
        if !head.query().is_empty() {
            location.extend_from_slice(&[b"?", head.query()].concat());
        }
        let cache = self.engine.config.mounts[usize::from(number)].cache_control();
        self.refuse(
            exchange,
            b"301 Moved Permanently",
            &[(b"Location", &location), (b"Cache-Control", cache.as_bytes())],
        );
    }

    /// A short reply in the place of a file's.
    fn refuse(&mut self, exchange: &mut Exchange, status: &[u8], lines: &[(&[u8], &[u8])]) {
        let engine = Arc::clone(&self.engine);
        engine.counters.static_replies.add_alone();
        short(exchange, &mut self.builder, status, lines, &engine);
    }

    /// Sees to it that a folder that was replaced by another one of its name is noticed.
    fn refresh(&mut self, number: u16, now: Millis) {
        let place = &mut self.places[usize::from(number)];
        if let Some(fresh) = lock(&place.fresh).take() {
            place.root = Arc::new(fresh);
        }
        if now < place.refreshed.saturating_add(self.engine.config.limits.static_recheck) {
            return;
        }
        place.refreshed = now;
        let (fresh, engine) = (Arc::clone(&place.fresh), Arc::clone(&self.engine));
        self.engine.disk.run(move || {
            // One that is gone may come back: its old descriptor finds nothing meanwhile.
            if let Ok(root) = Root::new(&engine.config.mounts[usize::from(number)].root) {
                let before = lock(&fresh).replace(root);
                drop(before);
            }
        });
    }
}

impl Drop for Files {
    /// The loop is no more: what is found is for nobody.
    fn drop(&mut self) {
        self.found.close();
        self.engine.disk.end();
    }
}

fn open(path: &Path) -> io::Result<Root> {
    Root::new(path).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("--static: the folder {} cannot be opened: {error}", path.display()),
        )
    })
}
