//! Metrics of the condition that workers are in: their queues, their event loops, their interpreters' collectors.
//!
//! Knows: names, help, labels. Does not know: how they are written (`exposition.rs`), where numbers come from
//! (`statistics/condition.rs`).

use wire::Millis;

use super::exposition::Exposition;
use super::samples::Distribution;
use crate::statistics::condition::{LANE_NAMES, PAUSE_BOUNDS};
use crate::statistics::snapshot::{Snapshot, Worker};

fn ns(ms: Millis) -> u64 {
    ms.saturating_mul(1_000_000)
}

pub fn queue(text: &mut Exposition, found: &Snapshot) {
    text.gauge("forehand_lane_queue_length", "The same by lane: those of routes that are quick or that nobody knows wait for a thread, those that are slow for one that is not kept, and limited ones for others below the same path.");
    for (lane, name) in LANE_NAMES.into_iter().enumerate() {
        text.sample(&[("lane", name)], found.workers.iter().map(|worker| worker.lanes[lane]).sum());
    }
    text.gauge(
        "forehand_queue_oldest_seconds",
        "For how long the oldest of those that wait has, in any worker; 0: nobody waits.",
    );
    text.seconds(&[], ns(oldest(&found.workers).unwrap_or(0)));
}

/// For how long the oldest waits, in milliseconds; none: nobody does.
pub fn oldest(workers: &[Worker]) -> Option<Millis> {
    workers.iter().filter_map(|worker| worker.waits).max()
}

/// `number`: what is said of which worker a process is.
pub fn loops<'a>(text: &mut Exposition, found: &Snapshot, number: impl Fn(&str) -> &'a str) {
    text.gauge(
        "forehand_loop_longest_step_seconds",
        "For how long something has held up the event loop or hub of each worker at most, in the last minute; 0: nothing has for --slow-callback-duration.",
    );
    for (worker, held) in found.workers.iter().filter_map(|worker| Some((worker, worker.held?))) {
        let pid = worker.pid.to_string();
        text.seconds(&[("worker", number(&pid)), ("pid", &pid)], ns(held));
    }
}

pub fn collections(text: &mut Exposition, found: &Snapshot) {
    let collected = found.collected();
    text.counter("cpython_gc_collections_total", "Collections of all workers' interpreters, by generation.");
    for (generation, count) in collected.generations.into_iter().enumerate() {
        text.sample(&[("generation", &generation.to_string())], count);
    }
    text.histogram(
        "forehand_gc_pause_seconds",
        "How long those took: the interpreter does nothing else meanwhile.",
    );
    text.distribution(&[], &Distribution::of_buckets(&PAUSE_BOUNDS, &collected.buckets, collected.paused));
}
