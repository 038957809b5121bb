//! What the loop, its threads and its users share: settings, numbers, the word to stop.
//!
//! Knows: no connection and no request. Any thread reads it; nothing in it is locked on the
//! way of a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use reactor::Waker;
use wire::{Limits, Policy, Trust};

use crate::access::AccessLog;
use crate::counters::Counters;
use crate::log::Log;

/// How an engine shall behave; fixed for its life.
pub struct Config {
    pub limits: Limits,
    pub policy: Policy,
    /// Whose forwarding headers are believed.
    pub trust: Trust,
    /// The value of the Server header; empty: none is sent.
    pub server_header: Vec<u8>,
    /// Request bodies are complete before a thread is taken.
    pub request_buffering: bool,
    /// The access log, if one is kept.
    pub access: Option<AccessLog>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            policy: Policy::default(),
            trust: Trust::none(),
            server_header: Vec::new(),
            request_buffering: true,
            access: None,
        }
    }
}

/// How far the engine is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    Serving = 0,
    /// Finish what runs, take nothing new.
    Draining = 1,
    /// Cut everything.
    Aborting = 2,
}

/// One engine: shared by its loop, its threads and its owner.
pub struct Engine {
    pub config: Config,
    pub counters: Counters,
    pub waker: Arc<Waker>,
    pub log: Log,
    stage: AtomicU8,
}

impl Engine {
    pub fn new(config: Config, waker: Arc<Waker>, log: Log) -> Self {
        Self { config, counters: Counters::new(), waker, log, stage: AtomicU8::new(Stage::Serving as u8) }
    }

    /// Where the engine is between serving and gone.
    #[inline]
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Serving,
            1 => Stage::Draining,
            _ => Stage::Aborting,
        }
    }

    /// Begins a graceful stop: what runs is finished, nothing new is taken.
    pub fn drain(&self) {
        self.stage.fetch_max(Stage::Draining as u8, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Ends at once: connections are cut, late threads are not waited for.
    pub fn abort(&self) {
        self.stage.fetch_max(Stage::Aborting as u8, Ordering::Relaxed);
        self.waker.wake();
    }
}
