//! What a thread holds that others wait for, remembered by debug builds and looked at wherever a
//! thread can wait: the rule that nobody waits with such a thing in hand holds while it is checked.
//!
//! Knows: three kinds of things, and who may wait with which. Does not know: Python: whether this
//! thread has the interpreter is asked of whoever knows. In release builds there is nothing here.
//!
//! | waits for | interpreter | baton | a lock |
//! |---|---|---|---|
//! | work, as the leader does | no | yes: it is only ever tried | no |
//! | the interpreter | | no: one thread may keep it, and the loop has more to do | no: whoever has the interpreter may want it |
//! | anything else | no | no | no |

#[cfg(debug_assertions)]
pub use record::{Holding, ask_of_the_interpreter, hold, will_wait};

/// What a thread may hold while others need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    Baton,
    Lock,
}

/// What a thread is about to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The next thing to do, as the leader.
    Work,
    /// The interpreter.
    Interpreter,
    /// A peer, another thread, a disk, a clock: what it is.
    For(&'static str),
}

/// Nothing is remembered.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn will_wait(_: Wait) {}

#[cfg(debug_assertions)]
mod record {
    use std::backtrace::Backtrace;
    use std::cell::{Cell, RefCell};
    use std::io::Write;
    use std::marker::PhantomData;
    use std::panic::Location;
    use std::sync::OnceLock;

    use super::{Thing, Wait};

    thread_local! {
        static HELD: RefCell<Vec<(u64, Thing, &'static Location<'static>)>> = const { RefCell::new(Vec::new()) };
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }

    /// Says whether the calling thread has the interpreter.
    static HAS_INTERPRETER: OnceLock<fn() -> bool> = OnceLock::new();

    /// Sets who is asked whether a thread has the interpreter.
    pub fn ask_of_the_interpreter(has: fn() -> bool) {
        let _ = HAS_INTERPRETER.set(has);
    }

    /// Something is held until this is dropped, on the thread that holds it.
    #[derive(Debug)]
    pub struct Holding(u64, PhantomData<*const ()>);

    /// The calling thread holds something from now on.
    #[track_caller]
    pub fn hold(thing: Thing) -> Holding {
        let number = NEXT.get();
        NEXT.set(number + 1);
        // At a thread's very end the record is gone, and nothing waits any more.
        let _ = HELD.try_with(|held| held.borrow_mut().push((number, thing, Location::caller())));
        Holding(number, PhantomData)
    }

    impl Drop for Holding {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| held.borrow_mut().retain(|(number, ..)| *number != self.0));
        }
    }

    /// Ends the process, saying why, where the calling thread must not wait for this.
    #[track_caller]
    pub fn will_wait(wait: Wait) {
        let Some(held) = forbidden(wait) else { return };
        let text = format!(
            "forehand: the rule of waiting is broken at {}: thread {:?} would wait for {wait:?} and holds {held}\n{}\n",
            Location::caller(),
            std::thread::current().name().unwrap_or("without a name"),
            Backtrace::force_capture(),
        );
        let _ = std::io::stderr().write_all(text.as_bytes());
        std::process::abort();
    }

    /// What the calling thread holds and must not, to wait for this.
    pub(super) fn forbidden(wait: Wait) -> Option<String> {
        let has = HAS_INTERPRETER.get().is_some_and(|has| has());
        if has && wait != Wait::Interpreter {
            return Some("the interpreter".into());
        }
        HELD.try_with(|held| {
            let held = held.borrow();
            let bad = held.iter().find(|(_, thing, _)| *thing == Thing::Lock || wait != Wait::Work);
            bad.map(|(_, thing, place)| format!("{thing:?} since {place}"))
        })
        .ok()
        .flatten()
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::record::forbidden;
    use super::*;

    #[test]
    fn whoever_holds_nothing_may_wait_for_anything() {
        for wait in [Wait::Work, Wait::Interpreter, Wait::For("a peer")] {
            assert_eq!(forbidden(wait), None);
        }
    }

    #[test]
    fn a_lock_is_held_across_no_wait_and_the_baton_across_that_for_work() {
        let baton = hold(Thing::Baton);
        assert_eq!(forbidden(Wait::Work), None);
        for wait in [Wait::Interpreter, Wait::For("a peer")] {
            assert!(forbidden(wait).is_some_and(|held| held.starts_with("Baton since ")), "{wait:?}");
        }
        let lock = hold(Thing::Lock);
        for wait in [Wait::Work, Wait::Interpreter, Wait::For("a peer")] {
            assert!(forbidden(wait).is_some(), "{wait:?}");
        }
        // Let go of in another order than they were taken in.
        drop(baton);
        assert!(forbidden(Wait::Work).is_some_and(|held| held.contains("holding.rs")));
        drop(lock);
        assert_eq!(forbidden(Wait::For("a peer")), None);
    }

    #[test]
    fn what_another_thread_holds_is_no_matter() {
        let _lock = hold(Thing::Lock);
        let free = std::thread::spawn(|| forbidden(Wait::For("a peer"))).join();
        assert_eq!(free.ok(), Some(None));
    }
}
