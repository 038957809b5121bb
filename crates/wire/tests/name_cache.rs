//! Names of headers that peers invent: as many are kept as a limit says.

use std::convert::Infallible;

use wire::{Limits, NameCache};

/// Asks for a name. True: it had to be made.
fn made(names: &mut NameCache<usize>, name: &str) -> bool {
    let mut made = false;
    let make = |name: &[u8]| {
        made = true;
        Ok::<_, Infallible>(name.len())
    };
    assert_eq!(names.with(name.as_bytes(), make, |length| *length), Ok(name.len()));
    made
}

#[test]
fn as_many_are_kept_as_the_limit_says_and_no_more() {
    for (cached_names, kept) in [(0, 0), (3, 0), (4, 4), (63, 60), (64, 64), (65, 64), (256, 256)] {
        let limits = Limits { cached_names, ..Limits::default() };
        let mut names = NameCache::new(limits.cached_names);
        let mut most = 0;
        for invented in 0..10_000 {
            made(&mut names, &format!("X-Invented-{invented}"));
            most = most.max(names.len());
        }
        assert_eq!(most, kept, "of {cached_names}");
        assert_eq!(made(&mut names, "X-Invented-9999"), kept == 0, "the last one is kept, if any is");
    }
}
