//! `forehand._core.Statistics`: what all workers count and time, as Python sees it.
//!
//! Knows: the shared memory behind a descriptor. Does not know: who asks. In the supervisor, which begins it, says there how
//! the server is, and adds up those that have died; and in processes that only read.

use std::os::fd::RawFd;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use reactor::sys::{Access, duplicate_file, monotonic_ns};
use server::counters;
use server::statistics::carried;
use server::statistics::layout::Meta;
use server::statistics::phase::{self, Phase};
use server::statistics::records::Record;
use server::statistics::segment::{SERVER_NAMES, Segment};
use server::statistics::snapshot::Snapshot;
use server::status::files;

/// A request that is inside a worker: (number, method and path, its thread as Python names it, seconds since its first
/// byte, seconds since it was begun, its name, whether it is being sent, so that no thread is at it).
type Inside = (u64, String, u64, f64, f64, String, bool);

/// Statistics that workers share.
#[pyclass(frozen, module = "forehand._core")]
pub struct Statistics {
    segment: Segment,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[pymethods]
impl Statistics {
    /// So many bytes there must be behind the descriptor.
    #[classattr]
    const BYTES: usize = Segment::BYTES;

    /// Those behind a descriptor, of which a copy is kept. `writable`: the supervisor's; new ones begin with it.
    #[new]
    fn new(fd: RawFd, writable: bool) -> PyResult<Self> {
        let access = if writable { Access::Write } else { Access::Read };
        Ok(Self { segment: Segment::open(duplicate_file(fd)?.into(), access)? })
    }

    /// All that was counted until now, as a text for another program.
    fn told(&self) -> PyResult<String> {
        Ok(carried::told(&self.segment)?)
    }

    /// Goes on from what another program has counted, in the text that it has left.
    fn take_over(&self, text: &str) -> PyResult<()> {
        Ok(carried::take(&self.segment, text)?)
    }

    /// A worker is about to live in that row.
    fn take(&self, row: usize) {
        self.segment.take(row);
    }

    /// Says something of the server, by the names of `server/statistics/segment.rs`.
    fn set(&self, name: &str, value: u64) -> PyResult<()> {
        self.segment.set(place(name)?, value);
        Ok(())
    }

    /// Counts something that has happened to the server.
    fn count(&self, name: &str) -> PyResult<()> {
        self.segment.add(place(name)?, 1);
        Ok(())
    }

    /// A worker has ended for that reason: where that stands.
    fn count_exit(&self, reason: &str) -> usize {
        self.segment.count_exit(reason)
    }

    /// The worker of that row has ended: its numbers become those of all dead.
    /// `died`: its number, and where it stands why. `metrics`: the folder of the application's own, where that is ours, and
    /// the process that has ended.
    #[pyo3(signature = (row, died, metrics = None))]
    fn fold(&self, row: usize, died: (u64, usize), metrics: Option<(PathBuf, u64)>) -> PyResult<()> {
        let mut folded = Ok(());
        self.segment.fold(row, died, || {
            if let Some((folder, pid)) = &metrics {
                folded = files::fold(folder, *pid);
            }
        })?;
        Ok(folded?)
    }

    /// A process that was no worker has ended: what the application has counted in it is kept.
    fn fold_metrics(&self, folder: PathBuf, pid: u64) -> PyResult<()> {
        Ok(self.segment.unread(|| files::fold(&folder, pid))?)
    }

    /// The requests that are inside the worker of a row, the oldest first. `dead`: it has ended.
    fn inside(&self, row: usize, dead: bool) -> PyResult<Vec<Inside>> {
        let now = monotonic_ns();
        let mut inside = self.segment.inside(row, dead)?;
        inside.sort_by_key(|one| one.first);
        let age = |since: u64| seconds(now.saturating_sub(since));
        Ok(inside
            .into_iter()
            .map(|one| {
                let sending = one.sending.is_some();
                (one.number, one.line, one.thread, age(one.first), age(one.begun), one.id, sending)
            })
            .collect())
    }

    /// The number of the request that a thread was at, in the worker of a row that has ended; None: it was at none.
    fn at(&self, row: usize, thread: u64) -> PyResult<Option<u64>> {
        Ok(self.segment.at(row, thread)?.map(|one| one.number))
    }

    /// Requests that have ended in the worker of a row and were kept, the oldest first; None: in those that are dead.
    fn records<'py>(&self, py: Python<'py>, row: Option<usize>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let all = self.segment.records(row)?;
        all.into_iter().map(|record| self.shown(py, &record)).collect()
    }

    /// What all workers have counted, those included that are dead.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = Snapshot::read(&self.segment)?;
        let all = PyDict::new(py);
        all.set_item("requests", found.meta(Meta::Ended))?;
        all.set_item("died_inside", found.meta(Meta::DiedInside))?;
        all.set_item("unplaced", found.meta(Meta::Unplaced))?;
        all.set_item("inside", found.inside())?;
        all.set_item("failed", found.failures().1)?;
        let counted = PyDict::new(py);
        for (name, count) in counters::names().iter().zip(&found.counters).filter(|(_, count)| **count > 0) {
            counted.set_item(name, count)?;
        }
        all.set_item("counters", counted)?;
        let phases = PyDict::new(py);
        for (name, histogram) in phase::NAMES.iter().zip(&found.phases) {
            let quantile = |share| histogram.quantile(share).map(seconds);
            let (count, sum) = (histogram.count(), seconds(histogram.sum));
            phases.set_item(name, (count, sum, quantile(0.5), quantile(0.95), quantile(0.99)))?;
        }
        all.set_item("phases", phases)?;
        let total = &found.phases[Phase::Total as usize];
        let buckets: Vec<(f64, u64)> = total.filled().map(|(end, count)| (seconds(end), count)).collect();
        all.set_item("buckets", buckets)?;
        let routes = PyDict::new(py);
        for (name, route) in &found.routes {
            let cpu = (route.measured > 0).then(|| seconds(route.cpu_of_all()));
            routes.set_item(name, (route.requests, route.errors, seconds(route.app), cpu))?;
        }
        all.set_item("routes", routes)?;
        Ok(all)
    }
}

impl Statistics {
    fn shown<'py>(&self, py: Python<'py>, record: &Record) -> PyResult<Bound<'py, PyDict>> {
        let one = PyDict::new(py);
        if let Some(died) = record.died {
            one.set_item("worker", died.worker)?;
            one.set_item("pid", died.pid)?;
            one.set_item("died", self.segment.exit(died.exit))?;
        }
        one.set_item("number", record.number)?;
        one.set_item("ended", record.wall as f64 / 1e6)?;
        one.set_item("status", record.status)?;
        one.set_item("error", phase::ENDINGS.get(usize::from(record.ending)).copied().unwrap_or_default())?;
        one.set_item("request", &record.line)?;
        one.set_item("id", &record.id)?;
        one.set_item("thread", record.thread)?;
        one.set_item("bytes", record.sent)?;
        one.set_item("where", &record.stood)?;
        one.set_item("remarkable", record.remarkable)?;
        let phases = PyDict::new(py);
        for (name, span) in
            phase::NAMES.iter().zip(record.spans).filter(|(_, span)| *span != phase::NOT_MEASURED)
        {
            phases.set_item(name, seconds(span))?;
        }
        one.set_item("phases", phases)?;
        Ok(one)
    }
}

fn place(name: &str) -> PyResult<usize> {
    let found = SERVER_NAMES.iter().position(|known| *known == name);
    found.ok_or_else(|| PyValueError::new_err(format!("statistics have no '{name}'")))
}
