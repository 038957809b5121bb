//! Which routes make a worker grow (option `max_worker_memory`).
//!
//! Knows: the process's resident memory before and after a request. Does not know: what holds
//! it. What other threads do meanwhile is counted too: over many requests the route that leaks
//! stands out. Any worker thread; off unless memory is limited.

use std::collections::HashMap;
use std::sync::Mutex;

use server::statistics::routes::template;
use wire::Head;

/// Routes that are told apart; more are counted together.
const MOST: usize = 512;
const OTHERS: &str = "(other routes)";

#[derive(Debug, Default, Clone, Copy)]
struct Growth {
    kib: i64,
    requests: u64,
}

/// What each route has left behind.
#[derive(Debug, Default)]
pub struct Routes {
    all: Mutex<HashMap<String, Growth>>,
}

impl Routes {
    /// Adds a request.
    pub fn add(&self, head: &Head, before: i64) {
        let kib = resident_kib() - before;
        let mut all = server::sync::lock(&self.all);
        let mut name = template(head.method(), head.path());
        if all.len() >= MOST && !all.contains_key(&name) {
            name = OTHERS.into();
        }
        let growth = all.entry(name).or_default();
        growth.kib += kib;
        growth.requests += 1;
    }

    /// The routes that have grown most: (route, KiB, requests), at most so many.
    pub fn most(&self, count: usize) -> Vec<(String, i64, u64)> {
        let all = server::sync::lock(&self.all);
        let mut found: Vec<_> = all
            .iter()
            .filter(|(_, growth)| growth.kib > 0)
            .map(|(name, growth)| (name.clone(), growth.kib, growth.requests))
            .collect();
        found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        found.truncate(count);
        found
    }
}

/// KiB of this process that are in memory; zero where that is not told.
pub fn resident_kib() -> i64 {
    (reactor::sys::resident_bytes() / 1024).cast_signed()
}
