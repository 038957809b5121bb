//! What waits to be sent on a connection.
//!
//! Knows: replies to pipelined requests, and behind them the queue. Does not know: what they answer, or how long their peer
//! may take. Owned by its connection.

use std::io;
use std::sync::Arc;

use crate::output::{Flushed, Output};
use crate::pipelined::PipelinedReplies;
use crate::transport::Transport;

/// What waits to be sent, in its two forms.
#[derive(Default)]
pub struct Sending {
    pub output: Option<Box<Output>>,
    pub pipelined: Option<Arc<PipelinedReplies>>,
}

impl Sending {
    /// Nothing is queued, and no pipelined reply waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.output.is_none() && self.pipelined.as_ref().is_none_or(|pipelined| pipelined.is_empty())
    }

    /// Bytes that wait, those of files included.
    pub fn waiting(&self) -> u64 {
        self.pipelined.as_ref().map_or(0, |pipelined| pipelined.waiting() as u64)
            + self.output.as_ref().map_or(0, |output| output.left())
    }

    /// Nothing more is sent: what waits is dropped. By what stays, it is seen that its client has got the others.
    pub fn drop_waiting(&mut self) {
        self.output = None;
        self.pipelined = self.pipelined.take().filter(|pipelined| pipelined.is_empty());
    }

    /// Large replies are kept for the peer.
    pub fn keeps(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.keeps())
    }

    /// Sends pipelined replies, then what is queued; drops the queue when it is empty. With it
    /// comes how much the peer has taken since this was last asked.
    pub(super) fn flush(&mut self, transport: &Transport, most: usize) -> io::Result<(Flushed, u64)> {
        let mut taken = 0;
        if let Some(pipelined) = &self.pipelined {
            let flushed = pipelined.send()?;
            // Whoever else has sent of it has sent it to this peer.
            taken = pipelined.take_count();
            if flushed == Flushed::Full {
                if let Some(output) = &mut self.output {
                    output.note_full();
                }
                return Ok((Flushed::Full, taken));
            }
        }
        if let Some(output) = &mut self.output {
            let before = output.left();
            let flushed = output.flush(transport, most)?;
            taken += before - output.left();
            if flushed != Flushed::All {
                return Ok((flushed, taken));
            }
            self.output = None;
        }
        Ok((Flushed::All, taken))
    }
}
