//! `forehand profile` inside a worker: its stacks are looked at again and again, by which it shows where its time goes.
//!
//! Knows: when to look, and what looking may cost. Does not know: how a stack is read (`stacks.rs`), or what is made of it
//! (`server/profile/report.rs`). Runs on a thread of its own, which never asks for the interpreter: what holds its lock
//! for long is seen at work, and nobody waits for who looks. Without a profile there is no thread.

mod stacks;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use reactor::holding::{Wait, will_wait};
use reactor::sys::{duplicate_file, monotonic_ns, thread_cpu_ns};
use server::engine::Engine;
use server::profile::pace::Pace;
use server::profile::report::{self, Report};

use self::stacks::Stacks;

/// How often it says how far it is.
const SAY_EVERY: u64 = 200_000_000;
/// A profile that cannot see anything gives up after so many looks in a row.
const BLIND: u32 = 50;
/// A look speaks for the time since the last one, and for no more than so many pauses.
const MOST_PAUSES: u64 = 4;
const SECOND: u64 = 1_000_000_000;
/// One at a time in a process.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// What somebody wants to see.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub seconds: f64,
    /// Looks a second, at most.
    pub rate: u32,
    /// Only threads that use a processor.
    pub running: bool,
}

/// Begins a profile, whose report goes to a copy of this descriptor; returns at once.
///
/// # Errors
/// The system's, when there is no descriptor or no thread for it.
pub fn start(engine: &Arc<Engine>, fd: RawFd, wanted: Wanted) -> io::Result<()> {
    let mut out = duplicate_file(fd)?;
    if RUNNING.swap(true, Ordering::AcqRel) {
        return report::refuse(&mut out, "a profile of this worker is under way: wait until it has ended");
    }
    let engine = Arc::clone(engine);
    let spawned = thread::Builder::new().name("forehand-prof".into()).stack_size(1 << 20).spawn(move || {
        // What a library that reads foreign memory may come to is no reason for the worker to end.
        let ended = catch_unwind(AssertUnwindSafe(|| look(&engine, &mut out, wanted)));
        let failed =
            ended.unwrap_or_else(|_| Err("reading the stacks has failed inside the library for it".into()));
        if let Err(text) = failed {
            // Who is gone hears nothing.
            let _ = report::refuse(&mut out, &text);
        }
        RUNNING.store(false, Ordering::Release);
    });
    if let Err(error) = spawned {
        RUNNING.store(false, Ordering::Release);
        return Err(error);
    }
    Ok(())
}

/// Looks until the time is over. The error is for who asked.
fn look(engine: &Engine, out: &mut File, wanted: Wanted) -> Result<(), String> {
    let mut stacks = Stacks::open(wanted.running)?;
    let mut report = Report::default();
    let mut pace = Pace::new(wanted.rate, (thread_cpu_ns(), monotonic_ns()));
    let begun = monotonic_ns();
    let end = begun + (wanted.seconds.clamp(0.1, 3600.0) * SECOND as f64) as u64;
    let (mut now, mut said, mut blind) = (begun, begun, 0);
    while now < end {
        will_wait(Wait::For("the next look at the stacks"));
        let pause = pace.pause();
        thread::sleep(Duration::from_nanos(pause));
        let before = now;
        now = monotonic_ns();
        match stacks.look(engine) {
            Ok(found) => {
                blind = 0;
                // Where others had the processor for long, one look says nothing about all of that time.
                report.add(found, (now - before).min(pause * MOST_PAUSES));
            }
            Err(text) => {
                // What changes while it is read cannot be read: the next look sees it.
                blind += 1;
                if blind == BLIND {
                    return Err(format!("the stacks cannot be read: {text}"));
                }
                report.failed += 1;
            }
        }
        pace.took(thread_cpu_ns());
        if now - said >= SAY_EVERY {
            said = now;
            // Who asked is gone: nobody wants the rest.
            let Ok(()) = report.progress(out, now - begun) else { return Ok(()) };
        }
    }
    let _ = report.write(out, (now - begun, thread_cpu_ns()));
    let _ = out.flush();
    Ok(())
}
