//! What was counted of routes before a worker began, or while its lanes slept: whose calls are short, and whose compute.
//!
//! Knows: sums by route. Does not know: what follows from them. A worker's own on the loop's thread, those of all
//! workers in any process.

use std::collections::BTreeMap;
use std::io;

use super::Statistics;
use super::layout::{BLOCKS, META, Meta, RETIRED, ROUTE_COUNT, load};
use super::routes::{self, Route};
use super::segment::Segment;

/// Calls of a quick route take less on average, in nanoseconds.
const QUICK_NS: u64 = 5_000_000;
/// What calls use of a processor is known from so many on: the first ones have to import what they need.
const FEWEST_MEASURED: u64 = 4;

/// What the next worker begins with: names, and microseconds of a call on average.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KnownRoutes {
    /// How long calls take.
    pub quick: Vec<(String, u64)>,
    /// What calls use of a processor, of all that were measured.
    pub used: Vec<(String, u64)>,
}

impl Statistics {
    /// Those of this worker: name, and how long a call takes on average, in microseconds.
    pub fn quick_routes(&self) -> Vec<(String, u64)> {
        let Some(block) = &self.block else { return Vec::new() };
        let known = (1..ROUTE_COUNT).filter_map(|place| {
            let route = routes::read(block.words, place)?;
            let all = route.app.checked_div(route.requests)?;
            // The first call of many a route has had to import what it needs: the last ones tell more.
            let last = block.routes.mean(place, route.requests);
            Some((route.name, last.map_or(all, |last| last.min(all))))
        });
        quick(known)
    }
}

/// Those of all workers, the dead ones included.
///
/// # Errors
/// The kernel's.
pub fn known_routes(segment: &Segment) -> io::Result<KnownRoutes> {
    let mut sums: BTreeMap<String, Route> = BTreeMap::new();
    for block in 0..segment.used().min(BLOCKS) {
        let words = segment.block(block)?;
        // Nobody has ever written there: it is left untouched, and takes no memory.
        if block != RETIRED && load(&words[META + Meta::Pid as usize]) == 0 {
            continue;
        }
        for route in (1..ROUTE_COUNT).filter_map(|place| routes::read(words, place)) {
            sums.entry(route.name.clone()).or_default().add(&route);
        }
    }
    let measured = sums.iter().filter(|(_, sum)| sum.measured >= FEWEST_MEASURED);
    let used = measured.map(|(name, sum)| (name.clone(), sum.cpu / sum.measured / 1000)).collect();
    let means = sums.into_iter().filter_map(|(name, sum)| Some((name, sum.app.checked_div(sum.requests)?)));
    Ok(KnownRoutes { quick: quick(means), used })
}

fn quick(means: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    means.filter(|(_, ns)| *ns < QUICK_NS).map(|(name, ns)| (name, ns / 1000)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, remove_file};

    use reactor::sys::Access;

    use super::super::layout::{META, Meta, store};
    use super::super::played::{Worker, head};
    use super::super::segment::Segment;
    use super::super::{layout, routes};
    use super::{FEWEST_MEASURED, KnownRoutes};

    #[test]
    fn routes_are_quick_whose_calls_are_short_on_average() {
        let mut worker = Worker::default();
        let mut answers = |path: &str, took: u64| {
            let head = head(&format!("GET {path}"));
            let times = worker.answers(&head, took);
            worker.counts(&head, &times, 200);
        };
        for number in 0..20 {
            // Of its calls the first ones are not counted for a route that is not known yet.
            answers("/late-to-begin", if number < 3 { 900_000_000 } else { 40_000 });
            answers("/report", 70_000_000);
            answers("/health", 40_000);
        }
        for _ in 0..80 {
            answers("/late-to-begin", 40_000);
        }
        worker.statistics.looks();
        let mut quick = worker.statistics.quick_routes();
        quick.sort();
        let names: Vec<&str> = quick.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["GET /health", "GET /late-to-begin"]);
        assert!(quick.iter().all(|(_, us)| *us < 5_000), "{quick:?}");
    }

    #[test]
    fn what_all_workers_know_of_routes_is_known_to_the_next_one() {
        let path = std::env::temp_dir().join(format!("forehand-quick-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a new file");
        remove_file(path).expect("it was there");
        file.set_len(Segment::BYTES as u64).expect("a file with a hole");
        let segment = Segment::open(file.into(), Access::Write).expect("statistics begin");
        let known = || super::known_routes(&segment).expect("they are read");
        assert_eq!(known(), KnownRoutes::default());
        segment.take(1);
        let counts = |block: usize, name: &str, (requests, app): (u64, u64)| {
            let route = routes::Route { name: name.into(), requests, app, ..routes::Route::default() };
            routes::fold(segment.block(block).expect("a block"), &route);
        };
        // Of one that is dead and one that lives; nobody is in between.
        counts(layout::RETIRED, "GET /health", (3, 3_000_000));
        counts(layout::RETIRED, "GET /report", (1, 4_000_000));
        counts(2, "GET /health", (1, 5_000_000));
        counts(2, "GET /report", (9, 90_000_000));
        counts(2, "GET /never", (0, 0));
        assert_eq!(known().quick, [("GET /health".into(), 1_000), ("GET /report".into(), 4_000)]);
        store(&segment.block(2).expect("a block")[META + Meta::Pid as usize], 1);
        assert_eq!(known().quick, [("GET /health".into(), 2_000)]);
        let measures = |block: usize, name: &str, (measured, cpu): (u64, u64)| {
            let route = routes::Route { name: name.into(), measured, cpu, ..routes::Route::default() };
            routes::fold(segment.block(block).expect("a block"), &route);
        };
        for (name, measured) in
            [("GET /fewer", FEWEST_MEASURED - 1), ("GET /enough", FEWEST_MEASURED), ("GET /more", 40)]
        {
            measures(2, name, (measured - 1, (measured - 1) * 5_000_000));
            measures(layout::RETIRED, name, (1, 5_000_000));
        }
        assert_eq!(known().used, ["GET /enough", "GET /more"].map(|name| (name.into(), 5_000)));
    }
}
