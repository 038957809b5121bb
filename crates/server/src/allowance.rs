//! How much is done between two looks at what has happened.
//!
//! Knows: numbers of requests, reads and visits. Does not know: whose they are. Runs under the
//! baton.
//!
//! Whoever has much to say is served for as long as an allowance lasts; then the loop polls
//! without waiting, and everybody who said something meanwhile has a turn before the rest. So
//! nobody waits for the end of an upload or of a long pipeline, and the poll, which costs a
//! microsecond, comes once in a quarter of a megabyte or in some hundred quick requests. The bounds
//! are counts of work, each worth a fifth of a millisecond.

use reactor::sys::monotonic_us;

/// Requests that are begun: as many as 64 connections pipeline by sixteens, which are best answered
/// without a break. Those that take no longer than two microseconds each reach it.
pub const REQUESTS_A_LOOK: u32 = 1024;
/// Quick requests end the allowance once it has lasted so long: in a pipeline of them each poll and each sending in
/// between costs a tenth of a request.
const LASTS_US: u64 = 2000;
/// Requests that take so long each, in microseconds, are slow, ...
const SLOW_US: u64 = 20;
/// ... and end it sooner: somebody who asks beside them waits hardly longer than without them.
const LASTS_SLOW_US: u64 = 50;
/// How often the clock is looked at, in requests, unless they are slow: then at every one. It costs something, too.
pub const REQUESTS_A_CLOCK: u32 = 8;
/// Reads of connections that have more than one has brought: a quarter of a megabyte at the most.
pub const READS_A_LOOK: u32 = 4;
/// How often one connection is read before others have their turn.
pub const READS_A_VISIT: u32 = 4;
/// So many bytes that are sent count as much as a read does.
const BYTES_A_READ: u64 = 64 * 1024;
/// So many pieces of bodies (chunks) count as much as a read does.
const PIECES_A_READ: u32 = 2048;
/// A read brings so much at the most, ...
pub const READ_BYTES: usize = 64 * 1024;
/// ... and so much where pieces are small: what it brought is taken apart at once, and others wait meanwhile.
pub const CRUMBS_BYTES: usize = 8 * 1024;
/// So many reads after one with many pieces bring less.
const READS_OF_CRUMBS: u32 = 16;

/// What may still be done before the next look.
#[derive(Debug, Default)]
pub struct Allowance {
    requests: u32,
    reads: u32,
    /// Pieces of bodies that have not been counted as a read.
    pieces: u32,
    visits: usize,
    /// When the clock was looked at first and last, in microseconds; zero while it was not.
    since: u64,
    looked: u64,
    /// Requests until it is looked at again.
    unlooked: u32,
    /// Requests are taken for slow at so many further looks at it, maybe of later allowances: a quick one among slow
    /// ones changes nothing.
    slow: u32,
    /// So many further reads, maybe of later allowances, bring less.
    crumbs: u32,
    /// When the last turn of an event loop began for which requests waited, in microseconds; zero: none waited.
    turned: u64,
}

impl Allowance {
    /// The loop has looked; so many connections go on without an edge.
    #[inline]
    pub fn renew(&mut self, resumed: usize) {
        let slow = self.slow;
        let unlooked = if slow > 0 { 1 } else { REQUESTS_A_CLOCK };
        *self = Self {
            requests: REQUESTS_A_LOOK,
            reads: READS_A_LOOK,
            visits: resumed,
            unlooked,
            slow,
            crumbs: self.crumbs,
            turned: self.turned,
            ..Self::default()
        };
    }

    /// A request is about to be begun.
    #[inline]
    pub fn count_request(&mut self) {
        self.requests = self.requests.saturating_sub(1);
        self.unlooked = self.unlooked.saturating_sub(1);
        if self.unlooked == 0 {
            self.look_at_clock(monotonic_us());
        }
    }

    fn look_at_clock(&mut self, now: u64) {
        if self.since == 0 {
            self.since = now;
        } else {
            let requests = if self.slow > 0 { 1 } else { u64::from(REQUESTS_A_CLOCK) };
            self.slow = match now.saturating_sub(self.looked) > requests * SLOW_US {
                true => REQUESTS_A_CLOCK,
                false => self.slow.saturating_sub(1),
            };
            let lasts = if self.slow > 0 { LASTS_SLOW_US } else { LASTS_US };
            if now.saturating_sub(self.since) > lasts {
                self.requests = 0;
            }
        }
        self.looked = now;
        self.unlooked = if self.slow > 0 { 1 } else { REQUESTS_A_CLOCK };
    }

    /// An event loop begins a turn for which requests wait, and has begun so many since the last one. They ran after
    /// they were given out, so that they are judged here.
    pub fn turn_begins(&mut self, begun: usize) {
        self.judge_turn(begun, monotonic_us());
    }

    fn judge_turn(&mut self, begun: usize, now: u64) {
        let last = std::mem::replace(&mut self.turned, now);
        if last != 0 && begun > 0 {
            self.slow = match now.saturating_sub(last) > begun as u64 * SLOW_US {
                true => REQUESTS_A_CLOCK,
                false => self.slow.saturating_sub(1),
            };
        }
    }

    /// One for which none wait: the loop has perhaps slept before it.
    #[inline]
    pub fn quiet_turn_begins(&mut self) {
        self.turned = 0;
    }

    /// True when the last requests took long each.
    #[inline]
    pub fn is_slow(&self) -> bool {
        self.slow > 0
    }

    /// True when a look is due before another request is begun.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.requests == 0
    }

    /// True when a connection that has been read `reads` times in this visit may be read again.
    /// The first read of a visit is everybody's.
    #[inline]
    pub fn may_read(&self, reads: u32) -> bool {
        reads == 0 || reads < READS_A_VISIT && self.reads > 0
    }

    /// A connection is read.
    #[inline]
    pub fn count_read(&mut self) {
        self.reads = self.reads.saturating_sub(1);
        self.crumbs = self.crumbs.saturating_sub(1);
    }

    /// How many bytes the next read of a connection may bring.
    #[inline]
    pub fn read_bytes(&self) -> usize {
        if self.crumbs > 0 { CRUMBS_BYTES } else { READ_BYTES }
    }

    /// A connection was sent so much, and there is more to be sent to it.
    #[inline]
    pub fn count_sent(&mut self, bytes: u64) {
        let reads = u32::try_from(bytes / BYTES_A_READ).unwrap_or(u32::MAX);
        self.reads = self.reads.saturating_sub(reads.max(1));
    }

    /// What was read had a piece of a body in it.
    #[inline]
    pub fn count_piece(&mut self) {
        self.pieces += 1;
        if self.pieces == PIECES_A_READ {
            self.pieces = 0;
            self.count_read();
            self.crumbs = READS_OF_CRUMBS;
        }
    }

    /// The same of so many.
    pub fn count_pieces(&mut self, pieces: u32) {
        for _ in 0..pieces {
            self.count_piece();
        }
    }

    /// True when another connection may go on without an edge: each does so once between two looks.
    #[inline]
    pub fn visit(&mut self) -> bool {
        if self.visits == 0 || self.reads == 0 {
            return false;
        }
        self.visits -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewed(resumed: usize) -> Allowance {
        let mut allowance = Allowance::default();
        allowance.renew(resumed);
        allowance
    }

    #[test]
    fn so_many_requests_are_begun_and_then_none() {
        let mut allowance = renewed(0);
        for _ in 1..REQUESTS_A_LOOK {
            allowance.requests -= 1;
            assert!(!allowance.is_spent());
        }
        allowance.count_request();
        assert!(allowance.is_spent());
        allowance.count_request();
        assert!(allowance.is_spent(), "it does not wrap");
        allowance.renew(0);
        assert!(!allowance.is_spent());
    }

    #[test]
    fn quick_requests_may_go_on_for_longer_than_slow_ones() {
        let quick = u64::from(REQUESTS_A_CLOCK) * SLOW_US;
        let mut allowance = renewed(0);
        allowance.look_at_clock(1_000_000);
        for looks in 1..=LASTS_US / quick {
            allowance.look_at_clock(1_000_000 + looks * quick);
            assert!(!allowance.is_spent(), "{looks} looks");
        }
        allowance.look_at_clock(1_000_001 + LASTS_US);
        assert!(allowance.is_spent());
    }

    #[test]
    fn slow_requests_end_it_soon() {
        let mut allowance = renewed(0);
        allowance.slow = 1;
        allowance.look_at_clock(1_000_000);
        allowance.look_at_clock(1_000_000 + LASTS_SLOW_US);
        assert!(!allowance.is_spent());
        allowance.look_at_clock(1_000_000 + LASTS_SLOW_US + SLOW_US + 1);
        assert!(allowance.is_spent());
    }

    #[test]
    fn the_clock_is_looked_at_for_each_request_while_they_are_slow() {
        let mut allowance = renewed(0);
        allowance.look_at_clock(1_000_000);
        allowance.look_at_clock(1_000_000 + u64::from(REQUESTS_A_CLOCK) * SLOW_US);
        assert_eq!(allowance.unlooked, REQUESTS_A_CLOCK);
        allowance.look_at_clock(1_000_001 + u64::from(REQUESTS_A_CLOCK) * SLOW_US * 2);
        assert_eq!(allowance.unlooked, 1);
        allowance.renew(0);
        assert_eq!(allowance.unlooked, 1, "the next ones are expected to be alike");
        allowance.look_at_clock(2_000_000);
        for quick in 1..REQUESTS_A_CLOCK {
            allowance.look_at_clock(2_000_000 + u64::from(quick));
            assert_eq!(allowance.unlooked, 1, "{quick} quick ones among them");
        }
        allowance.look_at_clock(2_000_000 + u64::from(REQUESTS_A_CLOCK));
        assert_eq!(allowance.unlooked, REQUESTS_A_CLOCK);
    }

    #[test]
    fn requests_that_an_event_loop_has_begun_are_judged_when_it_comes_round() {
        let mut allowance = renewed(0);
        allowance.judge_turn(4, 1_000_000);
        assert!(!allowance.is_slow(), "nobody knows what came before");
        allowance.renew(0);
        allowance.judge_turn(4, 1_000_000 + 4 * SLOW_US);
        assert!(!allowance.is_slow());
        allowance.judge_turn(4, 1_000_001 + 8 * SLOW_US);
        assert!(allowance.is_slow());
        for quick in 1..=u64::from(REQUESTS_A_CLOCK) {
            assert!(allowance.is_slow(), "{quick} quick ones among them");
            allowance.judge_turn(4, 1_000_001 + 8 * SLOW_US + quick);
        }
        assert!(!allowance.is_slow());
        allowance.quiet_turn_begins();
        allowance.judge_turn(4, 9_000_000);
        assert!(!allowance.is_slow(), "the loop may have slept");
    }

    #[test]
    fn the_first_read_of_a_visit_is_everybodys_and_further_ones_are_counted() {
        let mut allowance = renewed(0);
        for _ in 0..READS_A_LOOK {
            assert!(allowance.may_read(READS_A_VISIT - 1) && !allowance.may_read(READS_A_VISIT));
            allowance.count_read();
        }
        assert!(allowance.may_read(0) && !allowance.may_read(1));
    }

    #[test]
    fn a_read_of_many_chunks_counts_as_several() {
        let mut allowance = renewed(1);
        for _ in 0..READS_A_LOOK * PIECES_A_READ {
            assert!(allowance.may_read(1));
            allowance.count_piece();
        }
        assert!(!allowance.may_read(1) && !allowance.visit());
    }

    #[test]
    fn reads_after_one_of_many_chunks_bring_less() {
        let mut allowance = renewed(0);
        for _ in 0..PIECES_A_READ {
            assert_eq!(allowance.read_bytes(), READ_BYTES);
            allowance.count_piece();
        }
        for _ in 0..READS_OF_CRUMBS {
            assert_eq!(allowance.read_bytes(), CRUMBS_BYTES);
            allowance.renew(0);
            allowance.count_read();
        }
        assert_eq!(allowance.read_bytes(), READ_BYTES);
    }

    #[test]
    fn a_round_visits_each_once() {
        let mut allowance = renewed(2);
        assert!(allowance.visit() && allowance.visit() && !allowance.visit());
    }
}
