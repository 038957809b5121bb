//! A body that arrives on one stream of a connection, between the loop, which reads the connection, and whoever reads the
//! body.
//!
//! Knows: bytes that nobody has read yet, and how many were read, which is what its stream's window is given back for.
//! Does not know: frames or windows. The loop puts, whichever thread the application reads on takes; the lock is held for a
//! look.
//!
//! How much can be here is the stream's window: what is not read is not given back, and no more comes.

use std::sync::{Arc, Mutex};

use reactor::MayWait;
use wire::{CONTINUE, Fault, Millis};

use crate::arrival::{Arrival, BodyError};
use crate::multiplexed::Multiplexed;
use crate::sync::lock;

/// How far a body has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Complete,
    /// What has arrived is no body, or came too slowly.
    Refused(Fault),
    /// The peer has left, or has cut the stream.
    Lost,
}

struct State {
    bytes: Vec<u8>,
    at: usize,
    end: End,
    /// `100 Continue` is owed at the first read that finds nothing.
    continue_owed: bool,
    /// Bytes that were read since the loop has asked.
    read: usize,
    /// A reader has found nothing.
    awaited: bool,
    /// The exchange is over.
    over: bool,
}

/// One body.
pub struct Inlet {
    shared: Arc<Multiplexed>,
    id: u32,
    state: Mutex<State>,
}

impl Inlet {
    /// A body of a stream, of which so much has come. `expects`: its peer waits for a word that it may come.
    pub fn new(shared: &Arc<Multiplexed>, id: u32, bytes: Vec<u8>, expects: bool) -> Arc<Self> {
        let state = State {
            bytes,
            at: 0,
            end: End::Open,
            continue_owed: expects,
            read: 0,
            awaited: false,
            over: false,
        };
        Arc::new(Self { shared: Arc::clone(shared), id, state: Mutex::new(state) })
    }

    /// More has come. True: a task or greenlet waits for it.
    pub fn put(&self, bytes: &[u8]) -> bool {
        let mut state = lock(&self.state);
        if state.at > 0 {
            let at = std::mem::take(&mut state.at);
            state.bytes.drain(..at);
        }
        state.bytes.extend_from_slice(bytes);
        state.continue_owed = false;
        self.told(state)
    }

    /// All of it has come. True: somebody waits.
    pub fn complete(&self) -> bool {
        self.ends(End::Complete)
    }

    /// It is refused. True: somebody waits.
    pub fn refuse(&self, fault: Fault) -> bool {
        self.ends(End::Refused(fault))
    }

    /// No more of it will come. True: somebody waits.
    pub fn lose(&self) -> bool {
        self.ends(End::Lost)
    }

    fn ends(&self, end: End) -> bool {
        let mut state = lock(&self.state);
        if state.end == End::Open {
            state.end = end;
        }
        self.told(state)
    }

    fn told(&self, mut state: crate::sync::Guard<'_, State>) -> bool {
        let awaited = std::mem::take(&mut state.awaited);
        drop(state);
        if awaited {
            self.shared.news().tell();
        }
        awaited
    }

    /// Bytes that were read since the last call: so much more may come.
    pub fn take_read(&self) -> usize {
        std::mem::take(&mut lock(&self.state).read)
    }

    /// What [`Inlet::wait`] is to be told, before a look.
    pub fn seen(&self) -> u64 {
        self.shared.news().count()
    }

    /// Waits until something has happened since `seen`, at most so many milliseconds.
    pub fn wait(&self, seen: u64, milliseconds: Millis, may_wait: &MayWait) {
        self.shared.news().wait(seen, milliseconds, may_wait);
    }

    /// Appends up to `most` bytes, without waiting. How long the peer may take is the loop's business.
    ///
    /// # Errors
    /// As [`BodyError`] says.
    pub fn try_read(&self, into: &mut Vec<u8>, most: usize) -> Result<Arrival, BodyError> {
        let mut state = lock(&self.state);
        if state.over {
            return Err(BodyError::Over);
        }
        if let End::Refused(fault) = state.end {
            return Err(BodyError::Fault(fault));
        }
        let rest = &state.bytes[state.at..];
        let length = rest.len().min(most);
        if length > 0 {
            into.extend_from_slice(&rest[..length]);
            state.at += length;
            state.read += length;
            if state.at == state.bytes.len() {
                (state.bytes, state.at) = (Vec::new(), 0);
                // Whoever has read all may wait for more without another look.
                state.awaited = true;
            }
            let last = state.bytes.is_empty() && state.end == End::Complete;
            drop(state);
            // The peer may send more.
            self.shared.ask_for_visit();
            return Ok(Arrival::Some { last });
        }
        match state.end {
            End::Complete => Ok(Arrival::Some { last: true }),
            End::Lost => Err(BodyError::Incomplete),
            End::Open | End::Refused(_) => {
                state.awaited = true;
                let owed = std::mem::take(&mut state.continue_owed);
                drop(state);
                if owed {
                    // Whoever does not hear it has left, which shows at the next look.
                    let _ = self.shared.half().send(self.id, CONTINUE, &[], false);
                    let _ = self.shared.send();
                }
                Ok(Arrival::None { until: Millis::MAX })
            }
        }
    }

    /// Takes back what was read and is not wanted yet. Only what the last read gave.
    pub fn unread(&self, bytes: &[u8]) {
        let mut state = lock(&self.state);
        state.read = state.read.saturating_sub(bytes.len());
        let at = state.at;
        let rest = state.bytes.split_off(at);
        (state.bytes, state.at) = ([bytes, &rest].concat(), 0);
    }

    /// Whether all of it has come, and the refusal if it is no body.
    pub fn stop(&self) -> (bool, Option<Fault>) {
        match lock(&self.state).end {
            End::Complete => (true, None),
            End::Refused(fault) => (false, Some(fault)),
            End::Open | End::Lost => (false, None),
        }
    }

    pub fn is_lost(&self) -> bool {
        lock(&self.state).end == End::Lost
    }

    /// The exchange is over: later reads say so, and what was not read is dropped.
    pub fn end_reading(&self) {
        let mut state = lock(&self.state);
        state.over = true;
        (state.bytes, state.at) = (Vec::new(), 0);
    }
}
