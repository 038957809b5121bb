//! Probes at the addresses of the application: paths that are answered before it is asked (`--health-paths`).
//!
//! Knows: which paths those are, and where a server's numbers are. Does not know: what follows from numbers (`health.rs`),
//! or when requests are looked at (`requests/native_requests.rs`). Runs under the baton, also on the watchdog's thread, so that
//! it is answered where every thread is stuck; under an event loop, on its thread. Nothing here needs the interpreter.

use std::sync::Arc;

use reactor::sys::monotonic_ms;
use wire::Millis;

use crate::engine::{Engine, Stage};
use crate::exchange::Exchange;
use crate::health::{Check, Health, HealthPaths, Seen};
use crate::reply_builder::ReplyBuilder;

/// How the server is follows from the numbers of all its workers, so that it costs more the more there are: whoever asks
/// without end is told what was found so long ago, in milliseconds.
const LOOK_MS: Millis = 100;

/// Those of one loop.
pub(crate) struct Probes {
    engine: Arc<Engine>,
    seen: Seen,
    /// What was found the last time, and when.
    found: Option<(Millis, Health)>,
    builder: ReplyBuilder,
}

impl Probes {
    /// None: no path is one.
    pub fn new(engine: &Arc<Engine>) -> Option<Self> {
        let any = !engine.config.health_paths.paths.is_empty();
        any.then(|| Self {
            engine: Arc::clone(engine),
            seen: Seen::default(),
            found: None,
            builder: ReplyBuilder::new(),
        })
    }

    /// What a request asks of the server and not of the application: whole paths, GET and HEAD.
    pub fn check(&self, exchange: &Exchange) -> Option<Check> {
        if !matches!(exchange.head.method(), b"GET" | b"HEAD") {
            return None;
        }
        let path = exchange.head.path();
        self.engine.config.health_paths.paths.iter().find(|known| known.0 == path).map(|known| known.1)
    }

    /// Answers it.
    pub fn answer(&mut self, exchange: &mut Exchange, check: Check) {
        let (good, text) = self.look().told(check, exchange.head.query());
        self.engine.counters.probes_answered.add_alone();
        exchange.is_probe = true;
        let head = &mut self.builder.head;
        head.clear();
        let written = head
            .status(if good { b"200 OK" } else { b"503 Service Unavailable" })
            .and(head.field(b"Content-Type", b"text/plain; charset=utf-8"))
            .and(head.field(b"Cache-Control", b"no-store"));
        if written.is_ok() {
            // A peer that is gone shows when the connection is back.
            let _ = exchange.whole(&mut self.builder, text.as_bytes(), &self.engine);
        }
    }

    fn look(&mut self) -> Health {
        let config = &self.engine.config;
        let HealthPaths { patience, statistics, .. } = &config.health_paths;
        let (Some(segment), Some(scoreboard)) = (statistics, &config.scoreboard) else {
            // It is this process alone, and it answers.
            let serves = self.engine.stage() == Stage::Serving;
            let ready = u64::from(serves);
            return Health { supervised: true, workers: 1, ready, up: true, stopping: !serves, stuck: 0 };
        };
        let now = monotonic_ms();
        if let Some((at, found)) = self.found
            && now < at + LOOK_MS
        {
            return found;
        }
        let found = Health::look(segment, scoreboard, (*patience, &mut self.seen), now);
        segment.let_go();
        self.found = Some((now, found));
        found
    }
}
