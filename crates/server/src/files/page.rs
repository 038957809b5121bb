//! What is known of one path of a mount: its file, the compressed forms beside it, and the lines of their replies.
//!
//! Knows: contents and lines that are ready. Does not know: the disk, or who asks. Made by whoever looked (`look.rs`), never
//! changed after that but for when it was looked at; used under the baton.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use reactor::file::Facts;
use wire::encodings::{Encoding, Encodings};
use wire::etag::Validators;
use wire::{Head, Millis};

use super::answer::{Decision, decide};
use super::content::Content;
use crate::sync::lock;

/// One representation of a path: the file itself, or a compressed form of it.
#[derive(Debug)]
pub(super) struct Choice {
    pub content: Content,
    pub facts: Facts,
    pub etag: Vec<u8>,
    pub modified: Option<u64>,
    /// Lines of a reply with content, behind the status line.
    pub full: Vec<u8>,
    /// Those of a reply without it.
    pub brief: Vec<u8>,
}

impl Choice {
    /// What a request for it comes to.
    pub fn decide(&self, head: &Head) -> Decision {
        decide(head, &Validators { etag: &self.etag, modified: self.modified }, self.content.size())
    }

    /// The lines that go with a decision.
    pub fn lines(&self, decision: &Decision) -> &[u8] {
        if decision.has_content() { &self.full } else { &self.brief }
    }

    fn is_weak(&self) -> bool {
        self.etag.starts_with(b"W/")
    }
}

/// One path, looked at.
#[derive(Debug)]
pub(super) struct Page {
    path: Box<[u8]>,
    /// By [`Encoding`]; identity is always there.
    choices: [Option<Choice>; 4],
    encodings: Encodings,
    /// Bytes that it would hold if there were room in memory.
    wants: u64,
    checked: AtomicU64,
    used: AtomicBool,
    forgotten: AtomicBool,
}

impl Page {
    /// `choices` by [`Encoding`]; `wants`: bytes that there was no room for in memory.
    pub fn new(path: &[u8], choices: [Option<Choice>; 4], wants: u64) -> Option<Arc<Self>> {
        choices[Encoding::Identity as usize].as_ref()?;
        let encodings = Encoding::ALL
            .into_iter()
            .filter(|&encoding| encoding != Encoding::Identity && choices[encoding as usize].is_some())
            .fold(Encodings::NONE, Encodings::with);
        Some(Arc::new(Self {
            path: path.into(),
            choices,
            encodings,
            wants,
            checked: AtomicU64::new(0),
            used: AtomicBool::new(false),
            forgotten: AtomicBool::new(false),
        }))
    }

    pub fn path(&self) -> &[u8] {
        &self.path
    }

    pub fn encodings(&self) -> Encodings {
        self.encodings
    }

    /// A representation; the file itself where there is none of that encoding.
    pub fn choice(&self, encoding: Encoding) -> &Choice {
        let [.., identity] = &self.choices;
        match (&self.choices[encoding as usize], identity) {
            (Some(choice), _) | (None, Some(choice)) => choice,
            (None, None) => unreachable!("a page has its file"),
        }
    }

    /// Bytes that it would hold if there were room for them.
    pub fn wants_room(&self) -> Option<u64> {
        (self.wants > 0).then_some(self.wants)
    }

    /// It holds descriptors.
    pub fn is_large(&self) -> bool {
        self.choices.iter().flatten().any(|choice| matches!(choice.content, Content::File(..)))
    }

    /// Whether the disk still has what it was made of. An entity tag that was weak because the file was so young becomes a
    /// strong one.
    pub fn is_same(&self, facts: &[Option<Facts>; 4]) -> bool {
        self.wants == 0
            && self.choices.iter().zip(facts).all(|(choice, facts)| match (choice, facts) {
                (Some(choice), Some(facts)) => choice.facts == *facts && !choice.is_weak(),
                (choice, facts) => choice.is_none() && facts.is_none(),
            })
    }

    /// Somebody has looked at the disk then.
    pub fn checked_at(&self, now: Millis) {
        self.checked.store(now, Ordering::Relaxed);
    }

    /// What is known of it may still be believed.
    pub fn is_fresh(&self, now: Millis, recheck: Millis) -> bool {
        now < self.checked.load(Ordering::Relaxed).saturating_add(recheck)
            && !self.forgotten.load(Ordering::Relaxed)
    }

    /// Somebody has asked for it.
    #[inline]
    pub fn is_used(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether anybody has asked for it since this was last called.
    pub fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// It is on the shelf no more.
    pub fn forget(&self) {
        self.forgotten.store(true, Ordering::Relaxed);
    }
}

/// What hangs on a head that asks for a page: the next request with the same bytes has the same answer, while the page is
/// fresh. It does not keep the page.
pub(super) struct Hit(Mutex<(Weak<Page>, Encoding, bool)>);

impl Hit {
    /// That of a head, if it has one.
    #[inline]
    pub fn of(head: &Head) -> Option<&Self> {
        head.attachment.get()?.downcast_ref()
    }

    /// The page, which representation, and what is decided.
    #[inline]
    pub fn page(&self, now: Millis, recheck: Millis) -> Option<(Arc<Page>, Encoding, Decision)> {
        let (page, encoding, whole) = {
            let hit = lock(&self.0);
            (hit.0.upgrade()?, hit.1, hit.2)
        };
        let decision = if whole { Decision::Whole } else { Decision::NotModified };
        page.is_fresh(now, recheck).then_some((page, encoding, decision))
    }

    /// Remembers what a head has come to, where that is simple and the head repeats.
    pub fn remember(head: &Head, page: &Arc<Page>, encoding: Encoding, decision: &Decision) {
        let whole = match decision {
            Decision::Whole => true,
            Decision::NotModified => false,
            _ => return,
        };
        if !head.seen_before() {
            return;
        }
        let now = (Arc::downgrade(page), encoding, whole);
        match Self::of(head) {
            Some(hit) => *lock(&hit.0) = now,
            // What the application has hung on it stays.
            None => {
                let _ = head.attachment.set(Box::new(Self(Mutex::new(now))));
            }
        }
    }
}
