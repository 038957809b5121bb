//! Adds the threads' pages up, second by second, as they come. Runs on the main thread.

use crate::record::{Second, TIMES, Tally, Whole};
use crate::worker::News;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::Sender;

/// What the seconds and the threads add up to.
#[derive(Debug)]
pub struct Collected {
    /// Every second of which all threads have told, in order, from 0 on.
    pub seconds: Vec<Line>,
    /// The seconds after the warm-up.
    pub total: Second,
    pub whole: Option<Whole>,
    pub threads: usize,
}

/// A second of the series, its distributions packed.
#[derive(Debug)]
pub struct Line {
    pub tally: Tally,
    pub packed: Vec<String>,
    pub p50_us: Option<u64>,
    pub p99_us: Option<u64>,
}

pub struct Collector {
    collected: Collected,
    warmup: u64,
    /// Pages of seconds that not every thread has passed.
    open: BTreeMap<u64, Box<Second>>,
    /// The first second of which each thread has not told; u64::MAX when it is done.
    reached: Vec<u64>,
    empty: Vec<Sender<Box<Second>>>,
}

impl Collector {
    pub fn new(warmup: u64, empty: Vec<Sender<Box<Second>>>) -> Collector {
        let threads = empty.len();
        let collected = Collected { seconds: Vec::new(), total: Second::default(), whole: None, threads };
        Collector { collected, warmup, open: BTreeMap::new(), reached: vec![0; threads], empty }
    }

    /// Takes a thread's news; gives how many seconds are whole now.
    pub fn take(&mut self, thread: usize, news: News) -> io::Result<usize> {
        match news {
            News::Page { second, page } => {
                self.reached[thread] = second + 1;
                self.put(thread, second, page);
            }
            News::Done(whole) => {
                self.reached[thread] = u64::MAX;
                self.add_whole(*whole);
            }
            News::Broken(error) => return Err(error),
        }
        let passed = self.reached.iter().min().copied().unwrap_or(u64::MAX);
        while let Some(entry) = self.open.first_entry() {
            if *entry.key() >= passed {
                break;
            }
            let (second, page) = entry.remove_entry();
            self.close(second, page);
        }
        Ok(self.collected.seconds.len())
    }

    pub fn is_done(&self) -> bool {
        self.reached.iter().all(|reached| *reached == u64::MAX)
    }

    pub fn collected(&self) -> &Collected {
        &self.collected
    }

    fn put(&mut self, thread: usize, second: u64, mut page: Box<Second>) {
        if let Some(sum) = self.open.get_mut(&second) {
            sum.add(&page);
            page.clear();
            // A thread that is done needs no more pages.
            let _ = self.empty[thread].send(page);
        } else {
            self.open.insert(second, page);
        }
    }

    fn close(&mut self, second: u64, mut page: Box<Second>) {
        // A thread that was held up for whole seconds tells nothing of them.
        while (self.collected.seconds.len() as u64) < second {
            self.collected.seconds.push(Line::empty());
        }
        if second >= self.warmup {
            self.collected.total.add(&page);
        }
        self.collected.seconds.push(Line::of(&page));
        page.clear();
        let _ = self.empty[0].send(page);
    }

    fn add_whole(&mut self, whole: Whole) {
        let Some(sum) = &mut self.collected.whole else {
            self.collected.whole = Some(whole);
            return;
        };
        if sum.offered.len() < whole.offered.len() {
            sum.offered.resize(whole.offered.len(), 0);
        }
        for (mine, theirs) in sum.offered.iter_mut().zip(&whole.offered) {
            *mine += theirs;
        }
        for (mine, theirs) in [(&mut sum.lateness, &whole.lateness), (&mut sum.heartbeat, &whole.heartbeat)] {
            mine.add(theirs).expect("the bounds are the same");
        }
        for (mine, theirs) in sum.parts.iter_mut().zip(&whole.parts) {
            mine.add(theirs);
        }
        sum.beats_late += whole.beats_late;
        sum.most_open += whole.most_open;
        sum.most_queued += whole.most_queued;
        sum.cpu_share = sum.cpu_share.max(whole.cpu_share);
        sum.last_reply = sum.last_reply.max(whole.last_reply);
        sum.exhausted &= whole.exhausted;
    }
}

impl Line {
    fn of(page: &Second) -> Line {
        let response = &page.times.0[0];
        let at = |quantile| (!response.is_empty()).then(|| response.value_at_quantile(quantile));
        let packed = page.times.0.iter().map(crate::report::packed).collect();
        Line { tally: page.tally.clone(), packed, p50_us: at(0.5), p99_us: at(0.99) }
    }

    /// A second in which no thread said anything.
    fn empty() -> Line {
        Line { tally: Tally::default(), packed: vec![String::new(); TIMES.len()], p50_us: None, p99_us: None }
    }
}
