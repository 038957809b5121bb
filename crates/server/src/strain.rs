//! Does a thread burn, so that it holds up the others? Read off how long the leader waits.
//!
//! Knows: how long the leader has waited for the interpreter each time that it came back from the
//! kernel, and when. Does not know: the interpreter, or what the threads do. The leader writes; any
//! thread reads.
//!
//! ```text
//!          a long wait             more of them, over 30 ms
//!   CALM ──────────────► BURNING ───────────────────────────► strained, for 200 ms after each, or until it is calm
//!     ▲                     │     twice as long as is usual here
//!     │                     ├───────────────────────────────► and stuck, as long
//!     └─────────────────────┘ three short waits, and none that was long for 10 ms
//! ```
//!
//! Who comes new goes to another worker from the first sign on, for as long as that is fresh: that costs nobody anything, and two
//! threads that burn in one worker make each other and all the rest wait. Of a strain other workers know, too, and for longer. A worker
//! that is stuck gives away the clients that it has: that costs them and whoever takes them, and is in vain where the thread
//! is done a moment later, so what has burnt before and was done soon tells how long is usual.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use wire::Millis;

/// A wait so long (microseconds) means that a thread burns: nearly a turn of the usual length.
const BURNS_US: u64 = 400;
/// And this goes on to mean it: nearly a turn of the short length.
const STILL_BURNS_US: u64 = 40;
/// So many shorter waits, one after the other, and nobody burns any more: a single one may be luck, ...
const CALM: u32 = 3;
/// ... and for so long none was long. Who has lost its turn asks for the next when it has a processor
/// again, which takes some of the kernel's slices where others want one; until then every wait is short.
const CALM_MS: Millis = 10;
/// A worker is strained when a thread has burnt for so long, ...
const STRAIN_AFTER_MS: Millis = 30;
/// ... and was found to at so many times that lie as far apart as calm takes: threads that begin to sleep
/// at once make a leader wait as well, and then perhaps nothing happens for a while, ...
const SIGNS: u32 = 3;
/// ... and for so long after the last sign of it, where nothing tells that nobody does any more.
pub const STRAIN_MS: Millis = 200;
/// For so long a sign is fresh.
pub const FRESH_MS: Millis = 10;
/// So long is taken for usual before anything has shown it: as a view of 40 ms of a processor takes where others want one, too.
const FIRST_USUAL_MS: Millis = 60;
/// Who burns for longer than this is stuck, whatever is usual. Where processors are wanted by several, a view of 40 ms of one
/// takes 100 and more: were those stuck, half of what is usual would be forgotten each time, and the next, shorter ones be
/// taken for stuck as well.
const LONGEST_USUAL_MS: Millis = 250;
/// What was usual is forgotten by such a part, and a millisecond at least, with each that burns for a shorter time: slowly,
/// as of views that take the same time of a processor each, one in twenty may take twice as long as the others by the clock.
const FORGET: Millis = 64;

/// One that uses more than so many percent of a processor burns alone, as several share one interpreter; or of what all of
/// them together use, where other processes want the processors.
const ALONE_PERCENT: u64 = 55;
/// Two of them use more than so many together, where nobody else burns: of three that do, two use 67.
const BOTH_PERCENT: u64 = 72;
/// So many looks that are no farther apart than so long, and requests come often enough that those two threads which burn
/// are better interrupted: that costs them a few percent, for nothing where only more of their kind come.
const OFTEN_LOOKS: u32 = 2;
const OFTEN_US: u64 = 20_000;
/// What threads have used within more than so many microseconds says nothing of the last few milliseconds.
const STALE_US: u64 = 100_000;

/// What one wait says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A thread burns.
    Burns,
    /// Nobody does, or not any more.
    Calm,
    /// It may have been luck.
    Unclear,
}

/// What the leader's waits have said so far.
#[derive(Debug)]
pub struct Strain {
    burning: AtomicBool,
    /// When the burning began.
    since: AtomicU64,
    /// The last long wait.
    last: AtomicU64,
    /// How many have counted since it began, ...
    signs: AtomicU32,
    /// ... and when the last of them did.
    counted: AtomicU64,
    /// Shorter waits since then, ...
    quiet: AtomicU32,
    /// ... and when the first of them was.
    quiet_since: AtomicU64,
    burns_until: AtomicU64,
    until: AtomicU64,
    stuck_until: AtomicU64,
    /// For so long threads burn that are done soon.
    usual: AtomicU64,
}

impl Strain {
    pub const fn new() -> Self {
        Self {
            burning: AtomicBool::new(false),
            since: AtomicU64::new(0),
            last: AtomicU64::new(0),
            signs: AtomicU32::new(0),
            counted: AtomicU64::new(0),
            quiet: AtomicU32::new(0),
            quiet_since: AtomicU64::new(0),
            burns_until: AtomicU64::new(0),
            until: AtomicU64::new(0),
            usual: AtomicU64::new(FIRST_USUAL_MS),
            stuck_until: AtomicU64::new(0),
        }
    }

    /// Until when (monotonic milliseconds) a thread is taken to burn, by a sign of it that is fresh; zero: none does.
    #[inline]
    pub fn burns_until(&self) -> Millis {
        self.burns_until.load(Ordering::Relaxed)
    }

    /// Until when (monotonic milliseconds) this worker is strained; zero: it is not.
    #[inline]
    pub fn until(&self) -> Millis {
        self.until.load(Ordering::Relaxed)
    }

    /// Until when (monotonic milliseconds) this worker is stuck: strained for longer than is usual; zero: it is not.
    #[inline]
    pub fn stuck_until(&self) -> Millis {
        self.stuck_until.load(Ordering::Relaxed)
    }

    /// Since `from` threads have burnt for longer than is usual, as far as the signs tell: who did before that is known, and done.
    pub fn is_stuck_since(&self, from: Millis) -> bool {
        self.lasted_since(from) >= self.is_too_long()
    }

    /// For how long (milliseconds) threads have burnt that do, or did the last time, since `from`.
    pub fn lasted_since(&self, from: Millis) -> Millis {
        let [since, last] = [&self.since, &self.last].map(|at| at.load(Ordering::Relaxed));
        last.saturating_sub(since.max(from))
    }

    /// False for a wait (microseconds) that [`Strain::note`] need not hear of: a short one while nobody burns.
    #[inline]
    pub fn matters(&self, waited: u64) -> bool {
        waited >= BURNS_US || self.burning.load(Ordering::Relaxed)
    }

    /// The leader has waited so long (microseconds) for the interpreter, and has it now.
    #[cold]
    pub fn note(&self, waited: u64, now: Millis) -> Sign {
        let burning = self.burning.load(Ordering::Relaxed);
        if waited >= if burning { STILL_BURNS_US } else { BURNS_US } {
            self.quiet.store(0, Ordering::Relaxed);
            self.last.store(now, Ordering::Relaxed);
            if !burning {
                self.since.store(now, Ordering::Relaxed);
                self.signs.store(0, Ordering::Relaxed);
                self.burning.store(true, Ordering::Relaxed);
            }
            let signs = self.signs.load(Ordering::Relaxed);
            if signs == 0 || now >= self.counted.load(Ordering::Relaxed) + CALM_MS {
                self.signs.store(signs.saturating_add(1), Ordering::Relaxed);
                self.counted.store(now, Ordering::Relaxed);
            }
            self.burns(now);
            return Sign::Burns;
        }
        let quiet = self.quiet.fetch_add(1, Ordering::Relaxed) + 1;
        if quiet == 1 {
            self.quiet_since.store(now, Ordering::Relaxed);
        }
        if quiet < CALM || now < self.last.load(Ordering::Relaxed) + CALM_MS {
            return Sign::Unclear;
        }
        self.burning.store(false, Ordering::Relaxed);
        let since = self.since.load(Ordering::Relaxed);
        let [lasted, at_most] =
            [&self.last, &self.quiet_since].map(|end| end.load(Ordering::Relaxed).saturating_sub(since));
        self.learn(lasted, at_most);
        for until in [&self.burns_until, &self.until, &self.stuck_until] {
            until.store(0, Ordering::Relaxed);
        }
        Sign::Calm
    }

    /// There was a sign: what follows from it, by how long it has been so.
    fn burns(&self, now: Millis) {
        self.burns_until.store(now + FRESH_MS, Ordering::Relaxed);
        let lasted = self.lasted_since(0);
        if self.signs.load(Ordering::Relaxed) < SIGNS {
            return;
        }
        for (after, told) in [(STRAIN_AFTER_MS, &self.until), (self.is_too_long(), &self.stuck_until)] {
            if lasted >= after {
                told.store(now + STRAIN_MS, Ordering::Relaxed);
            }
        }
    }

    /// After so many milliseconds a thread that burns is stuck: twice what is usual, as two of the usual ones that meet
    /// in one worker take that long together.
    fn is_too_long(&self) -> Millis {
        let usual = self.usual.load(Ordering::Relaxed);
        (usual * 2).clamp(STRAIN_AFTER_MS, LONGEST_USUAL_MS)
    }

    /// A thread has burnt for so many milliseconds, as far as anybody has seen, and no longer than `at_most`: where clients
    /// have moved away few come by that would see it.
    fn learn(&self, lasted: Millis, at_most: Millis) {
        let usual = self.usual.load(Ordering::Relaxed);
        let learnt = match lasted {
            // Behind one that is stuck the next may be: what is usual there is not worth much.
            _ if at_most > LONGEST_USUAL_MS => usual / 2,
            _ => lasted.max(usual - usual.div_ceil(FORGET)),
        };
        self.usual.store(learnt, Ordering::Relaxed);
    }
}

impl Default for Strain {
    fn default() -> Self {
        Self::new()
    }
}

/// How often somebody comes back to threads that burn, look by look.
#[derive(Debug, Default)]
pub struct Looks {
    /// So many in a row were no farther apart than [`OFTEN_US`].
    in_a_row: u32,
}

impl Looks {
    pub const fn new() -> Self {
        Self { in_a_row: 0 }
    }

    /// True where one of several threads burns, and the others hardly use the interpreter, by what each has used of a processor
    /// within `since` microseconds; or where two do, and requests come often. None where that cannot be said.
    ///
    /// Time counts by what the threads have had of a processor: where other processes want one, too, requests come as much less
    /// often as those that burn get on.
    pub fn few_burn(&mut self, used: &[u64], since: u64) -> Option<bool> {
        let most = since.min(used.iter().sum());
        let (is_fresh, is_soon) = (since <= STALE_US, most > 0 && most <= OFTEN_US);
        self.in_a_row = if is_fresh && is_soon { self.in_a_row.saturating_add(1) } else { 0 };
        let (mut first, mut second) = (0, 0);
        for &used in used {
            (first, second) = if used > first { (used, first) } else { (first, second.max(used)) };
        }
        let one_burns = first * 100 > most * ALONE_PERCENT;
        let both_burn = (first + second) * 100 > most * BOTH_PERCENT;
        match self.in_a_row {
            _ if most == 0 => None,
            _ if one_burns => is_fresh.then_some(true),
            // They come seldom, or nobody has had a processor for long.
            0 => (!is_soon).then_some(false),
            // Whether they come often is not known yet.
            1..OFTEN_LOOKS if both_burn => None,
            _ => Some(both_burn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the last of so many looks says.
    fn few_burn(used: &[u64], since: u64, looks: u32) -> Option<bool> {
        let mut found = Looks::new();
        (0..looks).fold(None, |_, _| found.few_burn(used, since))
    }

    #[test]
    fn one_burns_that_has_most_of_a_processor() {
        assert_eq!(few_burn(&[100, 4000, 300], 5000, 1), Some(true));
        assert_eq!(few_burn(&[2000, 1400, 1000, 800], 5000, 1), Some(false));
    }

    #[test]
    fn two_burn_where_that_is_asked_for_often_and_three_are_not_few() {
        for (looks, few) in
            [(OFTEN_LOOKS - 1, None), (OFTEN_LOOKS, Some(true)), (OFTEN_LOOKS + 1, Some(true))]
        {
            assert_eq!(few_burn(&[2500, 2400], 5000, looks), few, "{looks} looks");
        }
        assert_eq!(few_burn(&[300, 1900, 600, 1900, 300], 5000, 2), Some(true), "beside quick ones");
        for looks in 1..4 {
            assert_eq!(few_burn(&[1700, 1600, 1600], 5000, looks), Some(false));
        }
    }

    #[test]
    fn how_much_one_or_two_are_to_have_is_kept_to_the_percent() {
        for (used, few) in [
            (vec![55, 15, 15, 15], false),
            (vec![56, 15, 15, 14], true),
            (vec![15, 37, 13, 35], false),
            (vec![15, 37, 12, 36], true),
            (vec![36, 36, 14, 14], false),
            (vec![37, 36, 14, 13], true),
        ] {
            assert_eq!(few_burn(&used, 100, 2), Some(few), "{used:?}");
        }
    }

    #[test]
    fn few_burn_though_other_processes_have_the_processor_for_most_of_the_time() {
        assert_eq!(few_burn(&[100, 1500, 300], 5000, 1), Some(true));
        assert_eq!(few_burn(&[100, 1500, 1600, 300], 80_000, 2), Some(true));
        assert_eq!(few_burn(&[800, 700, 300, 400], 5000, 2), Some(false));
    }

    #[test]
    fn often_is_told_by_what_those_that_burn_get_done_meanwhile() {
        for (used, since, often) in [
            ([10_000, 10_000], 20_000, Some(true)),
            ([10_000, 10_001], 20_001, Some(false)),
            ([10_001, 10_000], 20_000, Some(true)),
            ([10_000, 10_000], STALE_US, Some(true)),
            ([10_000, 10_000], STALE_US + 1, None),
            ([10_000, 10_001], STALE_US + 1, Some(false)),
            ([1_000_000, 1_000_000], 2_000_000, Some(false)),
        ] {
            assert_eq!(few_burn(&used, since, 2), often, "{used:?} within {since}");
        }
        let mut looks = Looks::new();
        let [often, seldom] = [[4000; 2], [10_500; 2]];
        let found = [often, often, seldom, often, often].map(|used| looks.few_burn(&used, 30_000));
        assert_eq!(found, [None, Some(true), Some(false), None, Some(true)], "in a row, and no single time");
    }

    #[test]
    fn what_threads_have_used_in_a_long_time_or_not_at_all_does_not_say_who_burns() {
        assert_eq!(few_burn(&[100, 90_000], 100_000, 1), Some(true));
        assert_eq!(few_burn(&[100, 100_000], 100_001, 2), None);
        assert_eq!(few_burn(&[0, 0], 5000, 2), None);
        assert_eq!(few_burn(&[], 5000, 2), None);
    }

    /// Notes waits at so many milliseconds each: what it says of the last one.
    fn noted(strain: &Strain, waits: impl IntoIterator<Item = (Millis, u64)>) -> Sign {
        let mut sign = Sign::Calm;
        for (now, waited) in waits {
            sign = if strain.matters(waited) { strain.note(waited, now) } else { Sign::Calm };
        }
        sign
    }

    /// Every `gap` milliseconds some requests one after the other: the first has to wait.
    fn bursts(gap: Millis, until: Millis) -> impl Iterator<Item = (Millis, u64)> {
        let times = (1..).map(move |burst| burst * gap).take_while(move |&time| time < until);
        times.flat_map(|time| [(time, 590), (time, 0), (time, 1), (time, 0)])
    }

    #[test]
    fn a_thread_burns_from_the_first_sign_on_for_as_long_as_one_is_fresh_or_until_it_is_calm() {
        let strain = Strain::new();
        assert_eq!((noted(&strain, [(100, 399)]), strain.burns_until()), (Sign::Calm, 0));
        assert_eq!((noted(&strain, [(100, 400)]), strain.burns_until()), (Sign::Burns, 110));
        assert_eq!((noted(&strain, [(104, 40)]), strain.burns_until()), (Sign::Burns, 114));
        assert_eq!((noted(&strain, [(105, 5), (106, 5)]), strain.burns_until()), (Sign::Unclear, 114));
        assert_eq!((noted(&strain, [(114, 5)]), strain.burns_until()), (Sign::Calm, 0));
        assert_eq!((strain.until(), strain.stuck_until()), (0, 0), "that was no strain");
    }

    #[test]
    fn a_thread_that_burns_without_end_is_a_strain_after_thirty_milliseconds() {
        let strain = Strain::new();
        assert_eq!(noted(&strain, (100..130).map(|now| (now, 520))), Sign::Burns);
        assert_eq!(strain.until(), 0, "that may be a long request");
        noted(&strain, [(130, 60)]);
        assert_eq!(strain.until(), 330);
    }

    #[test]
    fn requests_that_are_quick_behind_one_that_waits_do_not_hide_a_thread_that_burns() {
        for gap in [2, 9, 21, 50, 100] {
            let strain = Strain::new();
            noted(&strain, bursts(gap, 500));
            assert!(strain.until() > 500, "asked every {gap} ms");
        }
    }

    #[test]
    fn threads_that_begin_to_sleep_together_are_no_strain() {
        let strain = Strain::new();
        noted(&strain, [(100, 700), (101, 0), (101, 80), (102, 300), (136, 60), (136, 60)]);
        assert_eq!(strain.until(), 0, "nobody knows what was in between");
        noted(&strain, [(146, 520)]);
        assert_eq!(strain.until(), 346);
    }

    #[test]
    fn short_requests_that_burn_are_no_strain_where_nobody_waits_in_between() {
        let strain = Strain::new();
        for begun in (100..1000).step_by(25) {
            noted(&strain, (begun..begun + 10).map(|now| (now, 450)));
            assert_eq!(noted(&strain, (begun + 10..begun + 25).map(|now| (now, 3))), Sign::Calm);
        }
        assert_eq!(strain.until(), 0);
    }

    #[test]
    fn calm_takes_three_short_waits_and_ten_milliseconds() {
        let begun = [(100, 520), (101, 520)];
        for (waits, sign) in [
            (vec![(102, 5), (103, 5), (104, 5), (110, 5)], Sign::Unclear),
            (vec![(102, 5), (103, 5), (111, 5)], Sign::Calm),
            (vec![(102, 5), (111, 5)], Sign::Unclear),
            (vec![(102, 5), (103, 39), (111, 40)], Sign::Burns),
            (vec![(111, 5), (111, 5), (111, 5), (112, 399)], Sign::Calm),
        ] {
            let strain = Strain::new();
            noted(&strain, begun);
            assert_eq!(noted(&strain, waits.clone()), sign, "{waits:?}");
        }
    }

    /// Threads burn for so long each, and nobody for a while after each. True: the last was stuck.
    fn burnt(strain: &Strain, burns: &[Millis]) -> bool {
        let (mut at, mut was_stuck) = (1_000_000, false);
        for &lasts in burns {
            noted(strain, (at..=at + lasts).map(|now| (now, 520)));
            at += lasts;
            was_stuck = strain.stuck_until() > at;
            assert_eq!(noted(strain, [0, 0, 0, 10].map(|wait| (at + wait, 0))), Sign::Calm);
            at += 300;
            assert_eq!((strain.until(), strain.stuck_until()), (0, 0));
        }
        was_stuck
    }

    #[test]
    fn who_burns_for_longer_than_is_usual_is_stuck() {
        for (before, lasts, is_stuck) in [
            (vec![], 119, false),
            (vec![], 120, true),
            (vec![119], 237, false),
            (vec![119], 238, true),
            (vec![200], 249, false),
            (vec![200], 250, true),
            // So often what is usual was halved.
            (vec![2_000; 3], 29, false),
            (vec![2_000; 3], 30, true),
            (vec![2_000, 29], 57, false),
            (vec![2_000, 29], 58, true),
        ] {
            let burns = [&before[..], &[lasts]].concat();
            assert_eq!(burnt(&Strain::new(), &burns), is_stuck, "{burns:?}");
        }
    }

    #[test]
    fn what_is_usual_is_forgotten_with_shorter_ones() {
        for (lasts, is_stuck) in [(77, false), (78, true)] {
            let burns = [&[239][..], &[5; 90], &[lasts]].concat();
            assert_eq!(burnt(&Strain::new(), &burns), is_stuck, "39 were usual, and {lasts} ms");
        }
    }

    #[test]
    fn what_nobody_has_seen_the_end_of_is_not_usual() {
        for (quiet_at, usual) in [(1_250, true), (1_251, false)] {
            let strain = Strain::new();
            noted(&strain, (1_000..=1_100).map(|now| (now, 520)));
            // All clients have moved away; the next one comes then.
            assert_eq!(noted(&strain, [0, 0, 0, 10].map(|wait| (quiet_at + wait, 0))), Sign::Calm);
            assert_eq!(burnt(&strain, &[60]), !usual, "{quiet_at}");
        }
    }

    #[test]
    fn a_strain_ends_by_itself_and_with_who_burns() {
        let strain = Strain::new();
        noted(&strain, (100..=140).map(|now| (now, 520)));
        assert_eq!(noted(&strain, (141..150).map(|now| (now, 0))), Sign::Unclear);
        assert_eq!(strain.until(), 340, "it may have been luck");
        assert_eq!(noted(&strain, [(150, 0)]), Sign::Calm);
        assert_eq!(strain.until(), 0);
        noted(&strain, [(161, 520), (165, 520)]);
        assert_eq!(strain.until(), 0, "another thread has begun to burn, and has its thirty milliseconds");
    }
}
