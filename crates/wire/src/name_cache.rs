//! Names of headers that were seen lately, and what was made of each.
//!
//! Knows: bytes, and how many it may keep. Does not know: what is made of them. A peer can
//! invent names without end: each has one place where it may be, so that many cost no more to
//! look through than few, and a new one takes the room of the one there that was not used for
//! longest. Where that is depends on a number that no peer knows; whoever guessed it could have
//! a name made anew each time, and no more.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Longer names are not kept (bytes): those of browsers and proxies have half of that.
const LONGEST: usize = 64;

/// As many places as there can be, for they are made all at once.
const MOST_PLACES: usize = 1 << 14;

/// Names that have the same place.
const MATES: usize = 4;

/// A name as received, and what was made of it.
type Made<V> = Option<(Box<[u8]>, V)>;

/// What was made of names; at most so many.
pub struct NameCache<V> {
    /// The one that was used last stands in front. Made with the first name.
    places: Vec<[Made<V>; MATES]>,
    /// How many of them there may be.
    room: usize,
    key: u64,
}

impl<V> NameCache<V> {
    /// Keeps at most `most` names (limit `cached_names`); fewer than four keep none.
    pub fn new(most: u64) -> Self {
        Self::keyed(most, RandomState::new().build_hasher().finish())
    }

    fn keyed(most: u64, key: u64) -> Self {
        let room = usize::try_from(most / MATES as u64).unwrap_or(MOST_PLACES).min(MOST_PLACES);
        Self { places: Vec::new(), room, key: key | 1 }
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.places.iter().flatten().flatten().count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a name may be: all of its bytes matter.
    #[inline]
    fn place(&self, name: &[u8]) -> usize {
        let mut mixed = self.key ^ name.len() as u64;
        for part in name.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            mixed = (mixed ^ u64::from_le_bytes(word)).wrapping_mul(self.key);
            mixed ^= mixed >> 32;
        }
        // The upper half of a product has something of every bit.
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((mixed * self.room as u64) >> 32) as usize
    }

    /// Uses what was made of a name, made now if it is not kept.
    ///
    /// # Errors
    /// Those of `make`.
    #[inline]
    pub fn with<R, E>(
        &mut self,
        name: &[u8],
        make: impl FnOnce(&[u8]) -> Result<V, E>,
        used: impl FnOnce(&V) -> R,
    ) -> Result<R, E> {
        if self.room == 0 || name.len() > LONGEST {
            return Ok(used(&make(name)?));
        }
        if self.places.is_empty() {
            self.places.resize_with(self.room, || [const { None }; MATES]);
        }
        let place = self.place(name);
        let mates = &mut self.places[place];
        let is = |made: &Made<V>| matches!(made, Some((known, _)) if **known == *name);
        let at = mates.iter().position(is).unwrap_or(MATES - 1);
        mates[..=at].rotate_right(1);
        let (_, value) = match mates[0].take() {
            Some(found) if *found.0 == *name => mates[0].insert(found),
            _ => mates[0].insert((name.into(), make(name)?)),
        };
        Ok(used(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

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
    #[cfg_attr(
        miri,
        ignore = "a quarter of a million names take an hour there, and others show what it looks at"
    )]
    fn a_name_that_is_used_is_seldom_made_anew_whatever_others_invent() {
        let mut names = NameCache::keyed(256, 0x9e37_79b9_7f4a_7c15);
        let usual = ["Host", "Accept", "User-Agent", "Cookie"];
        let mut times = 0;
        for round in 0..10_000 {
            times += usual.iter().filter(|name| made(&mut names, name)).count();
            for invented in 0..20 {
                assert!(made(&mut names, &format!("X-{round}-{invented}")));
            }
            assert!(names.len() <= 256);
        }
        assert!(times < 10_000 * usual.len() / 100, "made {times} times beside 200,000 invented names");
        made(&mut names, "Host");
        assert_eq!((0..100).filter(|_| made(&mut names, "Host")).count(), 0, "and when they stop, never");
    }

    #[test]
    fn a_long_name_is_not_kept() {
        let mut names = NameCache::new(256);
        let (longest, longer) = ("x".repeat(LONGEST), "x".repeat(LONGEST + 1));
        assert!(made(&mut names, &longest) && !made(&mut names, &longest));
        assert!(made(&mut names, &longer) && made(&mut names, &longer));
        assert_eq!(names.len(), 1);
    }
}
