//! When what has ended is counted: at once, or when the replies of its pipeline are sent, among which its own waits.
//!
//! Knows: whether replies of its connection wait. Does not know: what is counted, or how others are that wait
//! (`connections/pipelines.rs`). Runs under the baton.

use reactor::sys::monotonic_ns;

use crate::connections::{Connections, MOST_NAMED, Waiting};
use crate::exchange::Exchange;
use crate::poller::Poller;
use crate::statistics::{Ended, Statistics};

/// The reply of an exchange that has ended waits with others of its connection: it is counted when these are. Or says where it
/// is to be kept until then.
#[inline]
pub(super) fn wait<'a>(
    exchange: &mut Exchange,
    waiting: &'a mut Waiting,
    statistics: &mut Statistics,
) -> Option<&'a mut Vec<Ended>> {
    if statistics.waits(&mut waiting.alike, &exchange.counted()) {
        return None;
    }
    if waiting.others.len() >= MOST_NAMED {
        statistics.is_unnamed(&mut exchange.times);
    }
    Some(&mut waiting.others)
}

/// Counts an exchange that has ended, with those that have waited for it.
#[inline]
pub(super) fn settle(exchange: &Exchange, connections: &mut Connections, poller: &mut Poller) {
    match connections.take_waiting(exchange.token(), exchange.pipelined()) {
        None => poller.statistics.settle_now(&exchange.counted()),
        Some(mut waiting) => {
            settle_with(exchange, &mut waiting, &mut poller.statistics);
            connections.reuse(waiting);
        }
    }
}

/// With its reply those have left that waited for it; or all of them are lost.
fn settle_with(exchange: &Exchange, waiting: &mut Waiting, statistics: &mut Statistics) {
    let ended = exchange.counted();
    let now = if ended.times.ended == 0 { monotonic_ns() } else { ended.times.ended };
    if exchange.pipelined().is_none() {
        waiting.lose(statistics, now);
        statistics.settle(&ended, now);
    } else if statistics.waits(&mut waiting.alike, &ended) {
        waiting.settle(statistics, now);
    } else {
        waiting.settle(statistics, now);
        statistics.settle(&ended, now);
    }
}
