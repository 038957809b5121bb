//! The same bytes mean the same: however they are cut, and whatever was seen before.
//!
//! Knows: transcripts. Does not know: whether they are right.

use crate::mutate::Random;
use crate::transcript::play;
use crate::{Input, shared};

/// The target.
pub fn every_split_agrees(bytes: &[u8]) {
    let Some(input) = Input::new(bytes) else { return };
    let sent = input.sent;
    let mut cold = shared(input.rules);
    let whole = play(&mut cold, [sent]);

    let single = play(&mut shared(input.rules), sent.chunks(1));
    assert_eq!(single, whole, "byte by byte and whole differ: {}", sent.escape_ascii());

    let mut random = Random::new(u64::from(input.cuts));
    for _ in 0..4 {
        let (first, second) = sent.split_at(random.below(sent.len() + 1));
        let (second, third) = second.split_at(random.below(second.len() + 1));
        let cut = play(&mut shared(input.rules), [first, second, third]);
        assert_eq!(cut, whole, "cut behind {} and {}: {}", first.len(), second.len(), sent.escape_ascii());
    }

    // A head that is remembered means what it meant, also in front of other bytes, also when
    // what is remembered differs by one byte.
    let again = play(&mut cold, [sent]);
    assert_eq!(again, whole, "warm and cold differ: {}", sent.escape_ascii());
    let mut near = sent.to_vec();
    if !near.is_empty() {
        let at = random.below(near.len());
        near[at] = near[at].wrapping_add(1);
        let warm = play(&mut cold, [near.as_slice()]);
        let fresh = play(&mut shared(input.rules), [near.as_slice()]);
        assert_eq!(warm, fresh, "warm and cold differ beside it: {}", near.escape_ascii());
    }
}
