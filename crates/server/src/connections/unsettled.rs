//! Requests that are timed longer than their exchanges live: those that are still arriving, and those whose replies wait for
//! their clients, or for those to the next requests of their pipelines.
//!
//! Knows: when a request's first byte came, and what is to be counted of it. Does not know: what is sent, or to whom. Runs
//! under the baton. Where statistics are not kept, nothing is in it.

use std::collections::HashMap;
use std::sync::Arc;

use reactor::sys::monotonic_ns;

use super::Connections;
use super::pipelines::{Over, Pipelines, Waiting};
use crate::connection::{Connection, Phase};
use crate::exchange::Replying;
use crate::pipelined::PipelinedReplies;
use crate::poller::Poller;
use crate::statistics::{Ended, Statistics};

#[derive(Default)]
pub(super) struct Unsettled {
    /// When the first bytes of requests had come of which there is more to come, by their connections.
    partial: HashMap<u64, u64>,
    /// What is counted of requests whose replies their clients have not taken yet.
    waiting: HashMap<Replying, Ended>,
    /// The same of those whose replies wait for others.
    pipelines: Pipelines,
    /// Of both, the ones that are over: they are counted before the next look.
    over: Vec<Ended>,
    pipelines_over: Vec<(Over, Waiting)>,
}

impl Unsettled {
    /// The stamp of the first byte of a connection's request; zero: it came with an earlier one.
    #[inline]
    pub fn take_first(&mut self, token: u64) -> u64 {
        if self.partial.is_empty() { 0 } else { self.partial.remove(&token).unwrap_or(0) }
    }

    /// A connection is closed: whoever waits for something of it gets no more.
    #[inline]
    pub fn forget(&mut self, connection: &Connection) {
        let token = connection.token;
        if !self.partial.is_empty() {
            self.partial.remove(&token);
        }
        if !self.pipelines.is_empty() {
            self.pipelines.close(token, connection.sending.pipelined.as_deref(), &mut self.pipelines_over);
        }
        if !self.waiting.is_empty() {
            self.lose(token);
        }
    }

    #[cold]
    fn lose(&mut self, token: u64) {
        for (_, mut ended) in self.waiting.extract_if(|replying, _| replying.0 == token) {
            ended.times.client_is_gone();
            self.over.push(ended);
        }
    }

    /// Nothing of a reply waits any more. `gone`: its client has not got all of it.
    #[inline]
    pub fn end(&mut self, replying: Replying, gone: bool) {
        if !self.pipelines.is_empty() {
            self.pipelines.look_at(replying.0, &mut self.pipelines_over);
        }
        if !self.waiting.is_empty()
            && let Some(mut ended) = self.waiting.remove(&replying)
        {
            if gone {
                ended.times.client_is_gone();
            }
            self.over.push(ended);
        }
    }

    /// Counts those that are over.
    fn count(&mut self, poller: &mut Poller) {
        let now = monotonic_ns();
        for (became, mut waiting) in self.pipelines_over.drain(..) {
            became.settle(&mut waiting, &mut poller.statistics, now);
            self.pipelines.reuse(waiting);
        }
        for ended in self.over.drain(..) {
            poller.statistics.settle(&ended.counted(), now);
        }
    }
}

impl Connections {
    /// Part of a request has come: from now on it is received.
    pub(super) fn note_partial(&mut self, connection: &Connection, poller: &Poller) {
        if poller.statistics.is_on() && connection.phase == Phase::Reading {
            self.unsettled.partial.entry(connection.token).or_insert(poller.statistics.stamp());
        }
    }

    /// The reply to a request waits for its client: it is over when that has taken it. What the client has sent is not held
    /// for so long: it may be much.
    #[cold]
    pub fn settle_later(&mut self, replying: Replying, mut ended: Ended, statistics: &Statistics) {
        statistics.is_left(&ended.times);
        ended.head = Arc::new(ended.head.without_fields());
        self.unsettled.waiting.insert(replying, ended);
    }

    /// The reply to a request waits for those to the next ones of its pipeline: those that are counted when they are sent, by
    /// whomever.
    #[inline]
    pub fn wait_with(&mut self, token: u64, replies: &Arc<PipelinedReplies>) -> &mut Waiting {
        self.unsettled.pipelines.of(token, replies)
    }

    /// Requests of a connection, of whose replies none waits any more, which have waited in `replies`; their list is to be given
    /// back.
    #[inline]
    pub fn take_waiting(&mut self, token: u64, replies: Option<&PipelinedReplies>) -> Option<Waiting> {
        if self.unsettled.pipelines.is_empty() {
            return None;
        }
        self.unsettled.pipelines.take(token, replies)
    }

    #[inline]
    pub fn reuse(&mut self, waiting: Waiting) {
        self.unsettled.pipelines.reuse(waiting);
    }

    /// Counts those that have waited for their clients, or for others, and are over, and all others that have ended.
    #[inline]
    pub fn settle_over(&mut self, poller: &mut Poller) {
        if !self.unsettled.pipelines.is_empty() {
            self.unsettled.pipelines.look(&mut self.unsettled.pipelines_over);
        }
        if !self.unsettled.over.is_empty() || !self.unsettled.pipelines_over.is_empty() {
            self.unsettled.count(poller);
        }
        poller.statistics.looks();
    }
}
