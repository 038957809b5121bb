//! A run from its first thread to its result. The main thread's: it starts the others, listens to them, and adds up.

use crate::collect::Collector;
use crate::job::{Job, nanoseconds};
use crate::plan::{Load, Stop};
use crate::report::{self, Frame};
use crate::system::{self, Clock};
use crate::trace::Tracer;
use crate::worker::{Lines, News, Worker};
use serde_json::Value;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

/// Time for threads to be there before second 0.
const BEFORE_START: u64 = 20_000_000;

/// What is written to standard error while the load runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Live {
    #[default]
    Nothing,
    Lines,
    Json,
}

fn machine(what: &str) -> impl Fn(std::io::Error) -> Stop + '_ {
    move |error| Stop::Machine(format!("cannot {what}: {error}"))
}

/// Nanoseconds from now to second 0.
fn delay(job: &Job) -> Result<u64, Stop> {
    let Some(start_at) = job.plan.start_at else { return Ok(BEFORE_START) };
    let left = start_at - system::unix_time();
    if left <= 0.0 {
        return Err(Stop::Plan(format!("start_at is {:.3} s ago: give a moment to come", -left)));
    }
    Ok(nanoseconds(left))
}

/// Runs the load, or says in one line why it cannot. `stop` ends it early.
pub fn run(job: &Job, stop: &AtomicBool, live: Live) -> Result<Value, Stop> {
    system::raise_descriptor_limit();
    if !job.plan.cpus.is_empty() {
        let cpus = &job.plan.cpus;
        system::bind_to(cpus).map_err(machine(&format!(
            "bind to the processors {cpus:?}, of which this process may use some or none"
        )))?;
    }
    let delay = delay(job)?;
    let clock = Clock::starting_in(delay);
    let started_at = system::unix_time() + delay as f64 / 1e9;
    let (news, heard) = mpsc::channel();
    let mut empty = Vec::new();
    let mut ends = Vec::new();
    for number in 0..job.threads {
        let (give, fresh) = mpsc::channel();
        let lines = Lines { thread: number, news: news.clone(), fresh, stop };
        ends.push(lines);
        empty.push(give);
    }
    drop(news);
    let mut collector = Collector::new(job.plan.warmup_s, empty);
    thread::scope(|scope| {
        for lines in ends {
            let started = thread::Builder::new().name(format!("load-{}", lines.thread)).spawn_scoped(
                scope,
                move || {
                    work(job, clock, lines);
                },
            );
            if let Err(error) = started {
                stop.store(true, Ordering::Relaxed);
                return Err(machine(&format!("start {} threads", job.threads))(error));
            }
        }
        listen(job, &heard, &mut collector, live).inspect_err(|_| stop.store(true, Ordering::Relaxed))
    })?;
    let frame = Frame {
        started_at,
        elapsed_s: clock.now() as f64 / 1e9,
        interrupted: stop.load(Ordering::Relaxed),
        cpu_s: system::process_cpu() as f64 / 1e9,
        memory_peak: system::memory_peak(),
    };
    Ok(report::result(job, collector.collected(), frame))
}

fn work(job: &Job, clock: Clock, lines: Lines<'_>) {
    let (number, stop) = (lines.thread, lines.stop);
    if !job.plan.cpus.is_empty() {
        // It could be bound to all of them, so to one of them too.
        let _ = system::bind_to(&[job.plan.cpus[number % job.plan.cpus.len()]]);
    }
    let connections = match &job.plan.load {
        Load::Closed(closed) => job.share(closed.connections as u64, number),
        Load::Open(_) | Load::Sessions(_) => 0,
    };
    let news = lines.news.clone();
    match Worker::new(job, clock, lines) {
        Ok(worker) => {
            clock.wait_for_start(|| stop.load(Ordering::Relaxed));
            worker.run(connections);
        }
        // Nobody listens any more only where the main thread has failed, which it says itself.
        Err(error) => drop(news.send((number, News::Broken(error)))),
    }
}

fn listen(
    job: &Job,
    heard: &mpsc::Receiver<(usize, News)>,
    collector: &mut Collector,
    live: Live,
) -> Result<(), Stop> {
    let mut tracer = tracer(job)?;
    let cannot_write = |error| Stop::Machine(format!("cannot write the trace: {error}"));
    let mut told = 0;
    while !collector.is_done() {
        let (thread, news) = heard.recv().map_err(|_| {
            Stop::Machine("a thread of the load has died; this is a bug of the engine".into())
        })?;
        if let (Some(tracer), News::Page { page, .. }) = (&mut tracer, &news) {
            tracer.write(&page.traces).map_err(cannot_write)?;
        }
        let whole =
            collector.take(thread, news).map_err(machine("set up epoll and its timer, or wait with them"))?;
        for second in told..whole {
            let line = &collector.collected().seconds[second];
            let text = match live {
                Live::Nothing => continue,
                Live::Lines => report::live_line(second as u64, line),
                Live::Json => report::live_json(second as u64, line, job.plan.warmup_s).to_string(),
            };
            // Who closed standard error does not want the line; the load goes on.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
        told = whole;
    }
    tracer.as_mut().map_or(Ok(()), Tracer::finish).map_err(cannot_write)
}

fn tracer(job: &Job) -> Result<Option<Tracer>, Stop> {
    let Some(path) = &job.plan.trace else { return Ok(None) };
    let names = job.templates.iter().map(|template| template.name.clone()).collect();
    let create = Tracer::create(path, names);
    create.map(Some).map_err(machine(&format!("write the trace to {path:?}")))
}
