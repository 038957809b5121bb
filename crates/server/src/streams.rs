//! The streams of one connection, as far as they receive: what it has said so far, and which of its requests are where.
//!
//! Knows: the receiving machine, and each stream whose request was told of. Does not know: the loop, or who answers
//! (`connections/streams.rs` reads for it). Owned by its connection, and used under the baton.
//!
//! ```text
//!   ARRIVING ──(its body is complete, or is read as it comes)──► AWAY ──(handed back)──► OVER ──(all is framed)──► gone
//!      └──────────────────(refused)─────────────────────────────────────────────────────►┘
//! ```

use std::sync::Arc;

use wire::h2::Receive;
use wire::{Head, Limits, Millis, Shared};

use crate::body::BodyBuffer;
use crate::inlet::Inlet;
use crate::multiplexed::Multiplexed;
use crate::patience::Patience;

/// A request whose body is received before it is given to anybody.
pub struct Arriving {
    pub head: Arc<Head>,
    /// None while what it has in memory is being added to its file.
    pub body: Option<BodyBuffer>,
    /// What has come meanwhile: nothing of it is given back to the stream's window.
    pub ahead: Vec<u8>,
    pub complete: bool,
    /// It has grown since it was looked at.
    pub grown: bool,
    /// When its head came, as statistics stamp it.
    pub since: u64,
}

/// Where the request of a stream is.
pub enum Place {
    Arriving(Box<Arriving>),
    /// With whoever answers it, under a token of its own; its body, if that is still arriving.
    Away {
        token: u64,
        inlet: Option<Arc<Inlet>>,
    },
    /// Answered but for what is not framed.
    Over,
}

/// One stream that counts.
pub struct Call {
    pub stream: u32,
    pub place: Place,
}

/// All of one connection's.
pub struct Streams {
    pub receive: Receive,
    pub shared: Arc<Multiplexed>,
    pub calls: Vec<Call>,
    /// Until when its peer has time to take what is framed; none where nothing waits.
    pub patience: Option<Patience>,
    /// What its peer had taken at the last look.
    taken: u64,
    /// Since when nothing of it is read, as it takes nothing of what is framed.
    pub unread_since: Option<Millis>,
    /// A fault has ended it: what is framed is the last.
    pub ends: bool,
    /// Its peer has ended its side.
    pub peer_ended: bool,
}

impl Streams {
    pub fn new(receive: Receive, shared: Arc<Multiplexed>) -> Self {
        Self {
            receive,
            shared,
            calls: Vec::new(),
            patience: None,
            taken: 0,
            unread_since: None,
            ends: false,
            peer_ended: false,
        }
    }

    /// The call of a stream.
    pub fn call(&mut self, stream: u32) -> Option<&mut Call> {
        // Numbers grow, and each new one is added behind the others.
        let at = self.calls.binary_search_by_key(&stream, |call| call.stream).ok()?;
        self.calls.get_mut(at)
    }

    /// Forgets a call that is over in every way.
    pub fn remove(&mut self, stream: u32) {
        self.calls.retain(|call| call.stream != stream);
        if self.calls.is_empty() {
            self.calls.shrink_to(4);
        }
    }

    /// Nothing is asked, and nothing waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.receive.streams() == 0 && self.shared.half().waiting() == 0
    }

    /// Gives back what readers of bodies have read.
    pub fn give_back(&mut self, shared: &Shared, now: Millis) {
        for call in &self.calls {
            if let Place::Away { inlet: Some(inlet), .. } = &call.place {
                let read = inlet.take_read();
                if read > 0 {
                    self.receive.read(call.stream, read, shared, now);
                }
            }
        }
    }

    /// The exchange of a stream is over. `cut`: here, and not by its peer. Whether what was left of its reply was cut; none
    /// while some of it waits.
    pub fn call_is_over(&mut self, stream: u32, cut: bool, shared: &Shared, now: Millis) -> Option<bool> {
        if cut {
            self.receive.was_cut(stream, shared, now);
        }
        if self.shared.is_unfinished(stream) {
            if let Some(call) = self.call(stream) {
                call.place = Place::Over;
            }
            return None;
        }
        self.receive.release(stream, shared, now);
        let cut = self.shared.forget(stream);
        self.remove(stream);
        Some(cut)
    }

    /// Releases streams of which nothing is left to be framed: which, and whether what was left was cut.
    pub fn release_finished(&mut self, shared: &Shared, now: Millis) -> Vec<(u32, bool)> {
        let mut done: Vec<(u32, bool)> = self
            .calls
            .iter()
            .filter(|call| matches!(call.place, Place::Over) && !self.shared.is_unfinished(call.stream))
            .map(|call| (call.stream, self.shared.half().take_cut(call.stream)))
            .collect();
        for (stream, cut) in &mut done {
            *cut |= self.call_is_over(*stream, *cut, shared, now).unwrap_or_default();
        }
        done
    }

    /// Puts what the machine has to say behind what is framed, unless the peer takes nothing. True: there was something.
    pub fn speak(&mut self) -> bool {
        self.receive.sent(self.shared.half().take_frames());
        if !self.shared.half().has_room() && !self.ends {
            return false;
        }
        let output = self.receive.take_output();
        self.shared.half().add(&output);
        !output.is_empty()
    }

    /// What the peer has taken since the last look renews its patience.
    pub fn note_taken(&mut self, limits: &Limits, now: Millis) {
        let taken = self.shared.half().taken();
        let more = taken - std::mem::replace(&mut self.taken, taken);
        if self.shared.half().waiting() == 0 {
            self.patience = None;
            return;
        }
        self.patience.get_or_insert_with(|| Patience::to_write(limits, now)).earn(more, limits, now);
    }

    /// When the patience with it ends, whatever it waits for.
    pub fn deadline(&self, limits: &Limits) -> Millis {
        let heard = self.unread_since.is_none();
        let receive = heard.then(|| self.receive.deadline(limits)).flatten().unwrap_or(Millis::MAX);
        let taken = self.patience.map_or(Millis::MAX, Patience::until);
        receive.min(taken).min(self.shared.left_until())
    }
}
