//! A thread beside an event loop: it sends what is finished though a step blocks the loop, and
//! has named what does.
//!
//! Knows: signs of life, and how long none has come. Does not know: the interpreter, which a [`Witness`] looks into. What
//! is to be done is decided by [`Attention`] (`watchdog/attention.rs`), purely. The thread sleeps while nothing happens, and
//! looks only while replies wait, steps run, or requests are in flight.
//!
//! A step of the application tells its beginning and its end. What else runs in the loop (tasks
//! that the application has started, other libraries' callbacks) does not: there the loop is
//! woken, and who has not answered in time is blocked.

mod attention;
mod lately;

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use reactor::holding::{Wait, will_wait};
use reactor::sys::{ThreadWaits, monotonic_us};
use wire::Millis;

use self::attention::{Attention, Verdict, is_starved};
use self::lately::Lately;
use crate::engine::{Engine, Held};
use crate::evented::Evented;
use crate::heartbeat::{Heartbeat, Sleep};
use crate::log::Level;
use crate::rows::{Field, LATELY_MS, loop_held};
use crate::statistics::condition;

/// A step that goes on for so many times as long as is told is told before its end.
const ENDLESS: u64 = 10;
/// A loop that is blocked twice within this time is so for a reason: new clients, and those that it has, are better off with
/// another worker.
const SOON_US: u64 = LATELY_MS * 1000;
/// A loop that was held up for so long within ten seconds, all in all, in milliseconds, is worth a word to the supervisor, ...
const TOLD_FROM_MS: Millis = 1_000;
/// ... so often.
const TOLD_EVERY_MS: Millis = 1_000;
/// Room for the interpreter, which the witness looks into from here.
const STACK_BYTES: usize = 1 << 20;

/// What a witness has seen of a loop that is blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// Where it stands (a file and line), and in words for the log: what runs, and where.
    Place { key: String, what: String, place: String },
    /// It had gone on before the interpreter was to be had, and it was not the machine that held it.
    TooLate,
    /// Nothing of the application's runs: the thread has no processor.
    Nothing,
}

/// Who can see where the loop's thread stands.
pub trait Witness: Send {
    /// Looks. `still`: nothing has moved since it was called.
    fn look(&mut self, still: &dyn Fn() -> bool) -> Sight;
}

/// The thread, which ends with its loop.
pub struct Watchdog(JoinHandle<()>);

impl Watchdog {
    /// Begins to watch.
    ///
    /// # Errors
    /// The system's, when no thread can be started.
    pub fn start(driver: &Evented, witness: Box<dyn Witness>) -> io::Result<Self> {
        let life = Life {
            engine: Arc::clone(driver.engine()),
            heartbeat: Arc::clone(driver.heartbeat()),
            loop_fd: driver.fileno(),
            waits: ThreadWaits::of_this_thread(),
            waited: None,
            witness,
            told: HashSet::new(),
            blocked_until: None,
            lately: Lately::default(),
            reported: 0,
        };
        let builder = thread::Builder::new().name("forehand-watch".into()).stack_size(STACK_BYTES);
        Ok(Self(builder.spawn(move || life.live())?))
    }

    /// Waits for its end, which `Heartbeat::end` has brought about. Without the interpreter:
    /// it may be about to look into it.
    pub fn join(self) {
        // It can only fail by a fault of ours, which has been told.
        let _ = self.0.join();
    }
}

/// A block under way.
struct Spell {
    sight: Sight,
    told: bool,
    /// Not the first one, so that clients are better off elsewhere.
    again: bool,
}

/// The thread's own.
struct Life {
    engine: Arc<Engine>,
    heartbeat: Arc<Heartbeat>,
    loop_fd: i32,
    /// The loop's thread, and how long it had waited for a processor when it was first seen not to move; microseconds.
    waits: ThreadWaits,
    waited: Option<u64>,
    witness: Box<dyn Witness>,
    /// Places that were named.
    told: HashSet<String>,
    /// When it was blocked for too long, by the application, the last time; microseconds.
    blocked_until: Option<u64>,
    lately: Lately,
    /// When the supervisor was told of it the last time; milliseconds.
    reported: Millis,
}

impl Life {
    fn live(mut self) {
        let slow = self.engine.config.limits.slow_callback_duration.saturating_mul(1000);
        let mut attention = Attention::new(slow);
        if let Some(words) = self.engine.config.statistics.filter(|_| slow > 0) {
            condition::is_watched(words);
        }
        let mut spell: Option<Spell> = None;
        let (mut last, mut kept) = (monotonic_us(), 0);
        while !self.heartbeat.has_ended() {
            let (now, pulse) = (monotonic_us(), self.heartbeat.pulse());
            let (before, lasted) = (attention.seen(), attention.lasted());
            // A loop that comes round sends by itself, and is not disturbed by the lock.
            let kept_now = self.heartbeat.kept();
            let holding = if pulse == before { self.heartbeat.is_holding() } else { kept_now != kept };
            kept = kept_now;
            let signs = (pulse, self.heartbeat.done());
            let verdict = attention.look(signs, now - last, holding, self.engine.in_flight() > 0);
            last = now;
            if pulse != before {
                self.waited = None;
            } else if slow > 0 && self.waited.is_none() {
                self.waited = self.waits.micros();
            }
            if verdict.send {
                self.heartbeat.send();
                self.engine.counters.replies_relieved.add();
            }
            if pulse != before
                && let Some(spell) = spell.take()
            {
                self.went_on(&spell, lasted, now);
                if !spell.told {
                    self.tell(&spell.sight, lasted, "");
                }
            }
            if verdict.call {
                self.engine.waker.wake();
            }
            if let Some(still) = verdict.blocked {
                match &mut spell {
                    None => {
                        let seen = self.see((pulse, now), &mut attention);
                        self.engine.held(if seen.again { Held::FromLeader } else { Held::No });
                        spell = Some(seen);
                    }
                    Some(spell) if !spell.told && still >= slow * ENDLESS => {
                        spell.told = true;
                        self.tell(&spell.sight, still, " so far");
                    }
                    Some(_) => {}
                }
                if let Some(spell) = &spell {
                    self.show_held(&spell.sight, still, now);
                }
                last = monotonic_us();
            }
            self.rest(&verdict, &mut attention);
        }
    }

    fn rest(&self, verdict: &Verdict, attention: &mut Attention) {
        will_wait(Wait::For("the next look"));
        let (how, seen) = (verdict.sleep, attention.seen());
        let holding = match verdict.rest {
            Some(rest) if how == Sleep::Awake => {
                thread::sleep(Duration::from_micros(rest));
                false
            }
            Some(rest) => self.heartbeat.sleep(how, seen, Some(rest / 1000), None),
            None => {
                // A loop that somebody calls may be blocked by what nobody tells of: worth a look.
                let loop_fd = (how == Sleep::Asleep).then_some(self.loop_fd);
                let holding = self.heartbeat.sleep(how, seen, None, loop_fd);
                attention.wake();
                holding
            }
        };
        if holding {
            attention.hold();
        }
    }

    /// The loop goes on, after it was blocked for too long: so many microseconds, as this thread has seen it.
    fn went_on(&mut self, spell: &Spell, lasted: u64, now: u64) {
        if spell.sight != Sight::Nothing {
            self.blocked_until = Some(now);
            self.engine.counters.loop_blocked_ms.add_many(lasted / 1000);
            self.show_held(&spell.sight, lasted, now);
            self.lately.ends();
        }
        if spell.again {
            self.engine.held(Held::No);
            // It looks who else has time for its clients.
            self.engine.waker.wake();
        }
    }

    /// Something holds up the loop, so long by now, or did. In microseconds.
    fn show_held(&mut self, sight: &Sight, lasted: u64, now: u64) {
        if *sight == Sight::Nothing {
            return;
        }
        let (lasted, now) = (lasted / 1000, now / 1000);
        self.lately.lasts(lasted, now);
        self.report_held(sight, now);
        if let Some(words) = self.engine.config.statistics {
            condition::is_held(words, lasted, now);
        }
        if let Some(scoreboard) = &self.engine.config.scoreboard {
            scoreboard.set(Field::LoopHeld, loop_held(lasted, now));
        }
    }

    /// Tells the supervisor for how long of the last ten seconds the loop was held up, and by what in the end.
    fn report_held(&mut self, sight: &Sight, now: Millis) {
        let held = self.lately.sum(now);
        if held < TOLD_FROM_MS || now < self.reported + TOLD_EVERY_MS {
            return;
        }
        self.reported = now;
        let by = match sight {
            Sight::Place { what, place, .. } => format!("{what}{place}"),
            Sight::TooLate | Sight::Nothing => String::new(),
        };
        self.engine.report(&format!("blocked {held} {by}"));
    }

    /// The loop has been blocked for too long: who does it?
    fn see(&mut self, (pulse, now): (u64, u64), attention: &mut Attention) -> Spell {
        let (began, heartbeat) = (monotonic_us(), &self.heartbeat);
        let whose = self.engine.stepping.get();
        // Before it is known who: the loop may go on while the interpreter is waited for.
        self.engine.blockers.note(whose, true);
        let mut sight = self.witness.look(&|| heartbeat.pulse() == pulse);
        attention.add(monotonic_us() - began);
        if sight == Sight::TooLate && self.was_starved(attention.lasted()) {
            sight = Sight::Nothing;
        }
        if sight == Sight::Nothing {
            self.engine.blockers.note(whose, false);
        } else {
            self.engine.counters.slow_callbacks.add();
        }
        if let Sight::Place { what, place, .. } = &sight
            && whose == self.engine.stepping.get()
        {
            self.engine.slow.note_blocked(whose, what, place.strip_prefix(" at ").unwrap_or(place));
        }
        // Once may be chance. Whoever does it again holds up the clients of this loop.
        let soon = self.blocked_until.is_some_and(|until| now < until + SOON_US);
        let again = soon && sight != Sight::Nothing;
        Spell { sight, told: false, again }
    }

    /// Whether it has not moved for so long (microseconds) only because the machine had no processor for it.
    fn was_starved(&self, lasted: u64) -> bool {
        let slow = self.engine.config.limits.slow_callback_duration.saturating_mul(1000);
        self.waited.zip(self.waits.micros()).is_some_and(|waited| is_starved(lasted, waited, slow))
    }

    /// Names a place, once. `lasted` in microseconds.
    fn tell(&mut self, sight: &Sight, lasted: u64, so_far: &str) {
        let (key, what, place) = match sight {
            Sight::Nothing => return,
            Sight::TooLate => {
                ("", "something", "; where is not known, for it let nobody look before it ended")
            }
            Sight::Place { key, what, place } => (key.as_str(), what.as_str(), place.as_str()),
        };
        let limits = &self.engine.config.limits;
        if self.told.contains(key) {
            return;
        }
        if self.told.len() as u64 >= limits.slow_callback_places {
            return self.engine.counters.slow_callbacks_unnamed.add();
        }
        self.told.insert(key.to_string());
        let seconds = lasted as f64 / 1e6;
        let bound = limits.slow_callback_duration as f64 / 1000.0;
        self.engine.log.complain(Level::Warning, || {
            format!(
                "{what} held the event loop for {seconds:.2} s{so_far}{place}: nothing else of this worker ran \
                 meanwhile (--slow-callback-duration {bound})"
            )
        });
    }
}
