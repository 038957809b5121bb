//! How many requests of a worker have ended and wait to be counted, as their replies wait for others of their pipelines.
//!
//! Knows: one word, which says at every moment whether those that are being counted have been. Does not know: which requests
//! they are (`alike.rs`). The loop's thread writes, any process reads.

use std::sync::atomic::{Ordering, compiler_fence};

use super::layout::{META, Meta, Word, load, store};

/// In a worker's word: how many wait in all; how many of them are being counted, and how many requests will have been counted
/// when they are, of which the lower digits do.
pub const WAITING: u64 = 0xff_ffff;
const COUNTED_AT: u32 = 24;
pub const COUNTED: u64 = 0xffff;
const WILL_BE_AT: u32 = 40;
pub const WILL_BE: u64 = 0xff_ffff;

/// How many wait.
#[inline]
pub fn count(words: &[Word]) -> u64 {
    load(&words[META + Meta::Waiting as usize]) & WAITING
}

/// So many wait from now on.
#[inline]
pub fn set(words: &[Word], count: u64) {
    store(&words[META + Meta::Waiting as usize], count);
    // A killed thread has done what stands before the place at which it was, and nothing behind it.
    compiler_fence(Ordering::SeqCst);
}

/// How many of a dead worker's have died with it, which has counted so many requests.
pub fn died(words: &[Word], counted: u64) -> u64 {
    let word = load(&words[META + Meta::Waiting as usize]);
    let (waiting, being_counted) = (word & WAITING, word >> COUNTED_AT & COUNTED);
    let beyond = counted.wrapping_sub(word >> WILL_BE_AT) & WILL_BE;
    // Not before what they will have been counted as.
    if beyond <= WILL_BE / 2 { waiting.saturating_sub(being_counted) } else { waiting }
}

/// So many are about to be counted.
#[inline]
pub fn begin_count(words: &[Word], requests: u64) {
    let will_be = load(&words[META + Meta::Ended as usize]) + requests;
    store(
        &words[META + Meta::Waiting as usize],
        count(words) | requests << COUNTED_AT | will_be << WILL_BE_AT,
    );
    compiler_fence(Ordering::SeqCst);
}

/// They have been.
#[inline]
pub fn end_count(words: &[Word], requests: u64) {
    compiler_fence(Ordering::SeqCst);
    set(words, count(words).saturating_sub(requests));
}
