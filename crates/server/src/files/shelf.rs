//! Pages that were asked for lately, and how much they may hold.
//!
//! Knows: bytes and descriptors. Does not know: what pages are about. Under the baton, but for [`Room`], which whoever looks
//! takes from.
//!
//! What makes room is found as a clock does it: each page comes by in turn and is forgotten if nobody has asked for it since
//! it came by last. What somebody is still being sent counts until it is sent, so that the bounds hold whatever readers do.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use wire::Limits;

use super::page::Page;
use crate::counters::Counters;
use crate::spool::{Charge, Sum};

/// What is known of a file counts as so many bytes beside its own.
const PAGE_BYTES: u64 = 512;

/// How much may be held, and how much is.
#[derive(Debug)]
pub(super) struct Room {
    memory: Arc<Sum>,
    most_memory: u64,
    descriptors: Arc<Sum>,
    most_descriptors: u64,
    /// The largest file that is kept in memory.
    file_bytes: u64,
}

impl Room {
    pub fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::default(),
            most_memory: limits.static_memory_bytes,
            descriptors: Arc::default(),
            most_descriptors: limits.static_descriptors,
            file_bytes: limits.static_file_bytes,
        })
    }

    /// What a small file needs in memory; none for a large one.
    pub fn needed(&self, size: u64) -> Option<u64> {
        (size <= self.file_bytes).then_some(size + PAGE_BYTES)
    }

    /// Room for so many bytes. None: there is none.
    pub fn take(&self, bytes: u64) -> Option<Charge> {
        let mut charge = Charge::default();
        (charge.set(&self.memory, bytes) <= self.most_memory).then_some(charge)
    }

    /// One more descriptor is open.
    pub fn descriptor(&self) -> Charge {
        let mut charge = Charge::default();
        charge.set(&self.descriptors, 1);
        charge
    }

    fn has_descriptors(&self) -> bool {
        self.descriptors.used() <= self.most_descriptors
    }

    fn has_memory_for(&self, bytes: u64) -> bool {
        self.memory.used() + bytes <= self.most_memory
    }
}

/// Pages by mount and path.
pub(super) struct Shelf {
    mounts: Vec<HashMap<Box<[u8]>, Arc<Page>>>,
    /// Pages in memory, and those with descriptors, in the order in which they come by; each with its mount.
    small: VecDeque<(u16, Weak<Page>)>,
    large: VecDeque<(u16, Weak<Page>)>,
    room: Arc<Room>,
}

impl Shelf {
    pub fn new(mounts: usize, room: Arc<Room>) -> Self {
        Self {
            mounts: (0..mounts).map(|_| HashMap::new()).collect(),
            small: VecDeque::new(),
            large: VecDeque::new(),
            room,
        }
    }

    pub fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// What is known of a path.
    pub fn get(&self, mount: u16, path: &[u8]) -> Option<Arc<Page>> {
        self.mounts.get(usize::from(mount))?.get(path).cloned()
    }

    /// Takes a page in, in the place of an earlier one of its path. One that would be a descriptor too many is not kept.
    pub fn keep(&mut self, mount: u16, page: &Arc<Page>, counters: &Counters) {
        let Some(pages) = self.mounts.get_mut(usize::from(mount)) else { return };
        // It has been asked for.
        page.is_used();
        if let Some(before) = pages.insert(page.path().into(), Arc::clone(page)) {
            before.forget();
        }
        let queue = if page.is_large() { &mut self.large } else { &mut self.small };
        queue.push_back((mount, Arc::downgrade(page)));
        // Places of pages that were replaced.
        if queue.len() > 64 && queue.len() / 2 > pages.len() {
            queue.retain(|(_, page)| page.strong_count() > 0);
        }
        if page.is_large() {
            while !self.room.has_descriptors() {
                match self.forget_one(true) {
                    true => counters.static_descriptors_closed.add_alone(),
                    false => break,
                }
            }
        }
    }

    /// Forgets pages until there is room in memory for so many bytes. False: what is left is being sent.
    pub fn make_room(&mut self, bytes: u64, counters: &Counters) -> bool {
        while !self.room.has_memory_for(bytes) {
            if !self.forget_one(false) && !self.forget_one(true) {
                return false;
            }
            counters.static_evicted.add_alone();
        }
        true
    }

    /// Forgets the next page that nobody has asked for since it came by last.
    fn forget_one(&mut self, large: bool) -> bool {
        let queue = if large { &mut self.large } else { &mut self.small };
        // Once round to take their marks, once more to find one without.
        for _ in 0..2 * queue.len() {
            let Some((mount, weak)) = queue.pop_front() else { return false };
            let Some(page) = weak.upgrade() else { continue };
            if page.was_used() {
                queue.push_back((mount, weak));
                continue;
            }
            page.forget();
            if let Some(pages) = self.mounts.get_mut(usize::from(mount))
                && pages.get(page.path()).is_some_and(|known| Arc::ptr_eq(known, &page))
            {
                pages.remove(page.path());
                return true;
            }
        }
        false
    }
}
