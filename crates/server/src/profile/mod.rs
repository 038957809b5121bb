//! What a profile of a worker needs that is not Python's: how often to look, which request a thread works on, and what was
//! found.
//!
//! Knows: the slots of the statistics. Does not know: how a stack is read (`bridge/profile/stacks.rs`). Runs on the thread
//! that looks.

pub mod pace;
pub mod report;

use std::collections::HashMap;

use crate::engine::Engine;
use crate::statistics::phase::NO_SLOT;
use crate::statistics::slots::{self, Inside};

/// Where a stack goes through.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    pub file: String,
    pub function: String,
    pub line: i32,
}

/// What a thread did.
pub struct Stack {
    /// The route of the request that it was for; none where it was for no request that is known.
    pub route: Option<String>,
    /// The innermost first.
    pub places: Vec<Place>,
}

/// Which request each thread works on, as Python names threads.
pub fn requests(engine: &Engine) -> HashMap<u64, Inside> {
    let words = engine.config.statistics.unwrap_or_default();
    if engine.config.stepwise {
        let step = engine.stepping.get();
        let found = (step != NO_SLOT).then(|| slots::find(words, step, false)).flatten();
        return found.map(|one| (one.thread, one)).into_iter().collect();
    }
    slots::by_thread(slots::read(words, false))
}

/// The route that both looks agree on: one before and one after a stack was read. Of two requests one after the other
/// nobody knows whose stack it is, unless they are alike and the looks came `quickly` one after the other: in a longer time,
/// as where who looks had no processor, a third may have run.
pub fn route(
    engine: &Engine,
    (was, is): (Option<&Inside>, Option<&Inside>),
    quickly: bool,
) -> Option<String> {
    let words = engine.config.statistics.unwrap_or_default();
    let (was, is) = was.zip(is)?;
    let name = is.route_name(words);
    (was.number == is.number || quickly && was.route_name(words) == name).then_some(name)
}
