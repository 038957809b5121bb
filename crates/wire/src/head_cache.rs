//! Heads that were seen lately: a client that repeats itself is neither parsed nor built again.
//!
//! Knows: bytes and what came of them. Does not know: what hangs on them. Used under the
//! baton. Two levels: header blocks, and request lines in front of a block. Both are tried
//! first where they matched last, which is one comparison; then through a map with a keyed
//! hash (SipHash), so that no peer can choose what collides.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::Millis;
use crate::block::Block;
use crate::gateway::given::{Known, Span};
use crate::head::Head;
use crate::limits::Limits;
use crate::trust::Peer;

/// One remembered thing.
struct Entry<T> {
    item: Arc<T>,
    hash: u64,
    used: Millis,
}

/// A bounded set, oldest out.
struct Level<T> {
    entries: Vec<Entry<T>>,
    places: HashMap<u64, u16>,
    last: u16,
}

impl<T> Level<T> {
    fn new() -> Self {
        Self { entries: Vec::new(), places: HashMap::new(), last: 0 }
    }

    #[inline]
    fn at(&mut self, place: u16, now: Millis, matches: impl Fn(&T) -> bool) -> Option<&Arc<T>> {
        let entry = self.entries.get_mut(usize::from(place))?;
        if !matches(&entry.item) {
            return None;
        }
        entry.used = now;
        self.last = place;
        Some(&entry.item)
    }

    fn insert(&mut self, item: Arc<T>, hash: u64, now: Millis, most: usize) -> u16 {
        if most == 0 {
            return 0;
        }
        let entry = Entry { item, hash, used: now };
        let place = if self.entries.len() < most.min(usize::from(u16::MAX)) {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let oldest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used);
            let place = oldest.map_or(0, |(place, _)| place);
            self.places.remove(&self.entries[place].hash);
            self.entries[place] = entry;
            place
        } as u16;
        self.places.insert(hash, place);
        self.last = place;
        place
    }

    /// Drops what was not used since `before`; when the next will be due.
    fn sweep(&mut self, before: Millis) -> Option<Millis> {
        let mut place = 0;
        while place < self.entries.len() {
            if self.entries[place].used <= before {
                let gone = self.entries.swap_remove(place);
                self.places.remove(&gone.hash);
                if let Some(moved) = self.entries.get(place) {
                    self.places.insert(moved.hash, place as u16);
                }
            } else {
                place += 1;
            }
        }
        self.entries.iter().map(|entry| entry.used).min()
    }
}

/// A request of a web server as it was seen: its variables.
pub struct Seen {
    pub bytes: Box<[u8]>,
    /// Where in them its client's address and port are: they may differ.
    pub client: (Span, Span),
    pub peer: Option<Peer>,
    pub variant: u32,
    /// They tell the length of its body.
    pub is_sized: bool,
}

/// What was made of one.
struct Judged {
    seen: Seen,
    head: Arc<Head>,
    known: Arc<Known>,
}

/// The cache of one loop.
pub struct HeadCache {
    heads: Level<Head>,
    blocks: Level<Block>,
    /// What web servers hand on.
    requests: Level<Judged>,
    hasher: RandomState,
    most: usize,
    most_bytes: usize,
    idle: Millis,
    sweep_at: Millis,
}

/// Where a connection's last head and its block were found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hint {
    head: u16,
    block: u16,
}

impl HeadCache {
    pub fn new(limits: &Limits) -> Self {
        let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            heads: Level::new(),
            blocks: Level::new(),
            requests: Level::new(),
            hasher: RandomState::new(),
            most: size(limits.cached_heads),
            most_bytes: size(limits.cached_head_bytes),
            idle: limits.cached_head_idle,
            sweep_at: Millis::MAX,
        }
    }

    /// The head that the input begins with, if it is where the hint or the last hit says.
    #[inline]
    pub fn front(&mut self, hint: &mut Hint, variant: u32, input: &[u8], now: Millis) -> Option<Arc<Head>> {
        let last = self.heads.last;
        for place in [hint.head, last] {
            let matches = |head: &Head| {
                head.block.variant == variant
                    && input.get(..head.line.len()) == Some(&head.line[..])
                    && input[head.line.len()..].starts_with(&head.block.raw)
            };
            if let Some(head) = self.heads.at(place, now, matches) {
                head.repeat();
                let head = Arc::clone(head);
                hint.head = place;
                return Some(head);
            }
            if hint.head == last {
                break;
            }
        }
        None
    }

    /// The block that the bytes behind a request line begin with, if it is where the hint or
    /// the last hit says. A block ends in its empty line: where it matches, it is the whole.
    #[inline]
    pub fn front_block(
        &mut self,
        hint: &mut Hint,
        variant: u32,
        rest: &[u8],
        now: Millis,
    ) -> Option<Arc<Block>> {
        for place in [hint.block, self.blocks.last] {
            let matches = |block: &Block| block.variant == variant && rest.starts_with(&block.raw);
            if let Some(block) = self.blocks.at(place, now, matches) {
                hint.block = place;
                return Some(Arc::clone(block));
            }
        }
        None
    }

    /// A block by its bytes.
    pub fn block(&mut self, hint: &mut Hint, variant: u32, raw: &[u8], now: Millis) -> Option<Arc<Block>> {
        let place = *self.blocks.places.get(&self.hasher.hash_one((variant, raw)))?;
        let block = self.blocks.at(place, now, |block| block.variant == variant && *block.raw == *raw)?;
        hint.block = place;
        Some(Arc::clone(block))
    }

    /// A head by its line and its block.
    pub fn head(
        &mut self,
        hint: &mut Hint,
        line: &[u8],
        block: &Arc<Block>,
        now: Millis,
    ) -> Option<Arc<Head>> {
        let place = *self.heads.places.get(&self.head_hash(line, block))?;
        let matches = |head: &Head| *head.line == *line && Arc::ptr_eq(&head.block, block);
        let head = self.heads.at(place, now, matches)?;
        head.repeat();
        hint.head = place;
        Some(Arc::clone(head))
    }

    fn head_hash(&self, line: &[u8], block: &Arc<Block>) -> u64 {
        self.hasher.hash_one((Arc::as_ptr(block) as usize, line))
    }

    /// Remembers a head and its block, unless they are large.
    pub fn keep(&mut self, hint: &mut Hint, head: &Arc<Head>, now: Millis) {
        if head.raw_len() > self.most_bytes {
            return;
        }
        let block = &head.block;
        // A block that was met a moment ago is where the hint says: no need to hash it.
        let entry = self.blocks.entries.get(usize::from(hint.block));
        if !entry.is_some_and(|entry| Arc::ptr_eq(&entry.item, block)) {
            let hash = self.hasher.hash_one((block.variant, &*block.raw));
            hint.block = self.blocks.insert(Arc::clone(block), hash, now, self.most);
        }
        let hash = self.head_hash(&head.line, block);
        hint.head = self.heads.insert(Arc::clone(head), hash, now, self.most);
        self.sweep_at = self.sweep_at.min(now.saturating_add(self.idle));
    }

    /// The web server's request that was met last, if these bytes differ from it in nothing but the values of its client.
    /// Lengths stand before what they are of, so that each name and value is at the same place in both.
    #[inline]
    pub fn last_request(&self, bytes: &[u8]) -> Option<&Seen> {
        let seen = &self.requests.entries.get(usize::from(self.requests.last))?.item.seen;
        let is_like_it =
            seen.bytes.len() == bytes.len() && around(&seen.bytes, seen.client) == around(bytes, seen.client);
        is_like_it.then_some(seen)
    }

    /// What was made of that.
    #[inline]
    pub fn repeat_last(&mut self, now: Millis) -> Option<(Arc<Head>, Arc<Known>)> {
        let judged = self.requests.at(self.requests.last, now, |_| true)?;
        judged.head.repeat();
        Some((Arc::clone(&judged.head), Arc::clone(&judged.known)))
    }

    /// What was made of a web server's request that differs from one that was seen in nothing but its client.
    /// `has_body`: one of which a body is seen is the same only where its length is told.
    pub fn request(
        &mut self,
        (variant, has_body): (u32, bool),
        bytes: &[u8],
        client: (Span, Span),
        now: Millis,
    ) -> Option<(Arc<Head>, Arc<Known>)> {
        let parts = around(bytes, client);
        let matches = |judged: &Judged| {
            let seen = &judged.seen;
            (seen.variant, seen.client) == (variant, client)
                && (!has_body || seen.is_sized)
                && around(&seen.bytes, client) == parts
        };
        let last = self.requests.last;
        let mut found = self.requests.at(last, now, matches);
        if found.is_none() {
            let hash = self.hasher.hash_one((variant, client, parts));
            let place = *self.requests.places.get(&hash)?;
            found = self.requests.at(place, now, matches);
        }
        let judged = found?;
        judged.head.repeat();
        Some((Arc::clone(&judged.head), Arc::clone(&judged.known)))
    }

    /// Remembers what was made of one, unless it is large.
    pub fn keep_request(&mut self, seen: Seen, head: &Arc<Head>, known: &Arc<Known>, now: Millis) {
        if seen.bytes.len() > self.most_bytes {
            return;
        }
        let hash = self.hasher.hash_one((seen.variant, seen.client, around(&seen.bytes, seen.client)));
        let judged = Judged { seen, head: Arc::clone(head), known: Arc::clone(known) };
        self.requests.insert(Arc::new(judged), hash, now, self.most);
        self.sweep_at = self.sweep_at.min(now.saturating_add(self.idle));
    }

    /// When [`HeadCache::sweep`] should be called; `Millis::MAX` while there is nothing.
    #[inline]
    pub fn sweep_at(&self) -> Millis {
        self.sweep_at
    }

    /// Drops what was not used for a while. When to call again; none: it is empty.
    pub fn sweep(&mut self, now: Millis) -> Option<Millis> {
        if now < self.sweep_at {
            return (self.sweep_at != Millis::MAX).then_some(self.sweep_at);
        }
        let before = now.saturating_sub(self.idle);
        let all = [self.heads.sweep(before), self.blocks.sweep(before), self.requests.sweep(before)];
        let next = all.into_iter().flatten().min();
        self.sweep_at = next.map_or(Millis::MAX, |used| used.saturating_add(self.idle).max(now + 1));
        next.map(|_| self.sweep_at)
    }

    /// How many heads and blocks are remembered.
    pub fn len(&self) -> usize {
        self.heads.entries.len() + self.blocks.entries.len() + self.requests.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What is before, between and behind two places.
#[inline]
fn around(bytes: &[u8], (one, other): (Span, Span)) -> [&[u8]; 3] {
    let (first, second) = (one.min(other), one.max(other));
    let part = |from: u32, to: u32| bytes.get(from as usize..to as usize).unwrap_or_default();
    let end = bytes.len() as u32;
    [part(0, first.0), part(first.1, second.0), part(second.1, end)]
}
