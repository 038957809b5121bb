//! Heads that an application has given before: its constants, and what it makes anew for each reply and is the same.
//!
//! Knows: what a head was made of; none of it ever changes, and names are kept, so that no other has their address
//! meanwhile. Does not know: what stands in them. One for each thread.
//!
//! Most applications have replies whose heads differ in nothing but their Date. What such a head is made of is judged and
//! written once. Where heads differ each time, to keep them is given up for a while.

use pyo3::Borrowed;
use pyo3::prelude::*;
use wire::ResponseHead;

use crate::ffi::{Pair, is_list_of, is_plain, pairs_mark, says_the_same};

/// How many heads are kept.
const KEPT: usize = 16;
/// Heads with more bytes are not, nor those that were made of a longer string: what is left out of a head counts as well.
const KEPT_BYTES: usize = 1024;
/// So many heads one after the other that were not the one that was kept are one too many: they are different each time.
const MISSES: u8 = 4;
/// For so many heads nothing is kept then.
const RESTS: u16 = 1000;

/// Heads by what they were made of.
#[derive(Default)]
pub struct KeptHeads {
    places: Vec<Place>,
    /// Where the last one was found.
    last: usize,
}

/// Room for one.
#[derive(Default)]
struct Place {
    kept: Option<Kept>,
    /// Heads that were looked for here since one was found.
    misses: u8,
    rests: u16,
}

struct Kept {
    status: Py<PyAny>,
    pairs: Box<[Pair]>,
    head: ResponseHead,
}

/// Where a head that was not found is to be kept.
#[derive(Clone, Copy)]
pub struct Sought(usize);

impl KeptHeads {
    /// Begins `head` as the one that was kept of the same. Otherwise what [`KeptHeads::keep`] wants to hear once it is
    /// made; nothing where it is none to be kept.
    #[inline]
    pub fn begin(
        &mut self,
        given: (Borrowed<'_, '_, PyAny>, &Bound<'_, PyAny>),
        head: &mut ResponseHead,
    ) -> Result<(), Option<Sought>> {
        if let Some(Place { kept: Some(kept), misses, .. }) = self.places.get_mut(self.last)
            && kept.is_of(given)
        {
            *misses = 0;
            head.begin_as(&kept.head);
            return Ok(());
        }
        self.look_for(given, head)
    }

    fn look_for(
        &mut self,
        given: (Borrowed<'_, '_, PyAny>, &Bound<'_, PyAny>),
        head: &mut ResponseHead,
    ) -> Result<(), Option<Sought>> {
        let Some(mark) = pairs_mark(given.1) else { return Err(None) };
        let at = (mark ^ mark >> 7 ^ mark >> 16) % KEPT;
        match self.places.get_mut(at) {
            Some(place) if place.rests > 0 => {
                place.rests -= 1;
                return Err(None);
            }
            Some(Place { kept: Some(kept), misses, .. }) if kept.is_of(given) => {
                *misses = 0;
                head.begin_as(&kept.head);
                self.last = at;
                return Ok(());
            }
            _ => {}
        }
        Err(Some(Sought(at)))
    }

    /// A head was made of this, which [`KeptHeads::begin`] has not found.
    #[inline(never)]
    pub fn keep(
        &mut self,
        Sought(at): Sought,
        (status, headers): (Borrowed<'_, '_, PyAny>, &Bound<'_, PyAny>),
        head: &ResponseHead,
    ) {
        if self.places.is_empty() {
            self.places.resize_with(KEPT, Place::default);
        }
        let place = &mut self.places[at];
        place.misses += 1;
        if place.misses >= MISSES {
            *place = Place { rests: RESTS, ..Place::default() };
            return;
        }
        // What comes once does not push out what comes often.
        let stays = place.kept.is_some() && place.misses == 1;
        if stays || head.bytes().len() > KEPT_BYTES || !is_plain(status, KEPT_BYTES) {
            return;
        }
        if let Some(pairs) = Pair::all_of(headers, KEPT_BYTES) {
            let mut copy = ResponseHead::new();
            copy.begin_as(head);
            place.kept = Some(Kept { status: status.to_owned().unbind(), pairs, head: copy });
        }
    }
}

impl Kept {
    #[inline]
    fn is_of(&self, (status, headers): (Borrowed<'_, '_, PyAny>, &Bound<'_, PyAny>)) -> bool {
        says_the_same(status, &self.status) && is_list_of(headers, &self.pairs)
    }
}
