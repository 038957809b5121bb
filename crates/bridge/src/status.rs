//! `forehand._core.serve_status`: the status endpoint, in a process of its own.
//!
//! Knows: how its pieces are put together. Does not know: what it answers (`server/status`). Runs on the thread that calls
//! it, which does not come back; the interpreter is not used meanwhile.

use std::os::fd::RawFd;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use reactor::sys::{Access, ListenerFd, duplicate_file};
use server::engine::Config;
use server::log::Log;
use server::pool::Threads;
use server::scoreboard::Scoreboard;
use server::statistics::segment::Segment;
use server::status::{Status, Told, limits, statsd};
use server::turn::Loop;

use crate::settings::get;

/// One answers while another looks.
const THREADS: usize = 2;
/// Of the thread that sends to statsd: it formats text.
const STACK_BYTES: usize = 256 << 10;

/// Serves until the process ends. `listeners`: a descriptor each, and whether it is a loopback address and whether only
/// processes of this machine reach it; without one only statsd is sent to. `shared`: descriptors of the statistics and of
/// the scoreboard. `settings`: `token`,
/// `stall_ms`, `slow_ms`, `deadlines`, `build`, `application`, `statsd_host`, `statsd_prefix`,
/// `statsd_interval_ms`, `dogstatsd_tags`.
pub fn serve(
    py: Python<'_>,
    listeners: Vec<(RawFd, bool, bool)>,
    shared: (RawFd, RawFd),
    settings: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let segment = Segment::open(duplicate_file(shared.0)?.into(), Access::Read)?;
    let told = Told {
        token: get::<Vec<u8>>(settings, "token", Vec::new())?,
        loopback: listeners.iter().map(|one| one.1).collect(),
        private: listeners.iter().map(|one| one.2).collect(),
        stall: get(settings, "stall_ms", 0)?,
        deadlines: get(settings, "deadlines", false)?,
        slow: get(settings, "slow_ms", 0)?,
        build: get(settings, "build", Vec::new())?,
        application: get(settings, "application", None)?,
    };
    let statsd = statsd::Settings {
        address: get(settings, "statsd_host", String::new())?,
        prefix: get(settings, "statsd_prefix", String::new())?,
        every: get(settings, "statsd_interval_ms", 10_000)?,
        tags: get(settings, "dogstatsd_tags", String::new())?,
    };
    if listeners.is_empty() {
        return Ok(py.detach(|| statsd::run(&segment, &statsd))?);
    }
    if !statsd.address.is_empty() {
        let segment = Segment::open(duplicate_file(shared.0)?.into(), Access::Read)?;
        let name = std::thread::Builder::new().name("forehand-statsd".into()).stack_size(STACK_BYTES);
        // Without a way to the collector there is nothing to be sent, and nothing else suffers.
        name.spawn(move || statsd::run(&segment, &statsd).unwrap_or_default())?;
    }
    let status = Status::new(segment, Scoreboard::look(shared.1)?, told);
    let sockets = listeners.iter().map(|one| Ok(ListenerFd::new(one.0)?.into())).collect::<PyResult<_>>()?;
    let config =
        Config { limits: limits(), shared_listeners: true, threads: THREADS as u32, ..Config::default() };
    let threads = Threads::new(status, Loop::new(config, Log::none(), sockets)?, THREADS);
    reactor::sys::give_back_memory();
    py.detach(|| {
        threads.start()?;
        threads.join(None);
        Ok::<_, std::io::Error>(())
    })?;
    Ok(())
}
