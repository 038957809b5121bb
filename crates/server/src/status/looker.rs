//! Who looks each second for [`History`], and sleeps for as long as nothing happens.
//!
//! Knows: when it looks, and what wakes it: the bell of the statistics, which workers ring while requests run, and their
//! supervisor when a worker has ended or a reload is over. Does not know: what becomes of what it finds. A thread of its
//! own, with maps of its own, so that nothing waits for it.

use std::thread;
use std::time::Duration;

use reactor::sys::{SharedNumbers, monotonic_ms};
use wire::Millis;

use super::history::{History, Look};
use crate::rows::{Field, Rows};
use crate::statistics::bell::RING_MS;
use crate::statistics::segment::{Segment, Server};
use crate::statistics::totals::Totals;

/// How often it looks.
const EVERY_MS: Millis = 1000;
/// After so many looks that have found nothing it sleeps. A worker that has rung does not do it again for a while: what comes
/// meanwhile is found by one of these.
const QUIET_LOOKS: u32 = 2;

const _: () = assert!(QUIET_LOOKS as Millis * EVERY_MS > RING_MS);

/// Looks for ever.
pub fn run(history: &History, segment: &Segment, rows: &Rows<SharedNumbers>) -> ! {
    let first = loop {
        match look(segment, rows) {
            Some(first) => break first,
            None => thread::sleep(Duration::from_millis(EVERY_MS)),
        }
    };
    let mut began = monotonic_ms();
    history.begin(began, first);
    let mut quiet = 0;
    loop {
        // Whoever rings from now on may have something that this look does not find.
        let rings = segment.rings();
        let next = began + EVERY_MS;
        thread::sleep(Duration::from_millis(next.saturating_sub(monotonic_ms())));
        let now = monotonic_ms();
        // What cannot be read now is a part of the next look.
        let Some(found) = look(segment, rows) else {
            thread::sleep(Duration::from_millis(EVERY_MS));
            continue;
        };
        quiet = if history.add(began, now, found) { 0 } else { quiet + 1 };
        began = now;
        if quiet >= QUIET_LOOKS {
            segment.wait(rings);
            began = monotonic_ms();
        }
    }
}

fn look(segment: &Segment, rows: &Rows<SharedNumbers>) -> Option<Look> {
    let totals = Totals::read(segment).ok();
    let found = totals.map(|totals| {
        let sum = |field| totals.rows.iter().map(|row| rows.of(*row, field)).sum();
        Look {
            busy: sum(Field::Busy),
            threads: sum(Field::Threads),
            queued: totals.rows.iter().map(|row| rows.queued_of(*row).0).sum(),
            exits: segment.exits(),
            reloads: (segment.server(Server::ReloadsDone), segment.server(Server::ReloadsFailed)),
            totals,
        }
    });
    segment.let_go();
    found
}
