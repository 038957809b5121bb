//! Heads that an application has given before, with the very same objects: its constants.
//!
//! Knows: which objects a head was made of; they never change, and are kept, so that no other has their address meanwhile.
//! Does not know: what stands in them. One for each thread.
//!
//! Most applications have replies whose status and headers are constants of their code. What such a head is made of is
//! judged and written once. A pair that the list alone refers to was made for this reply, and is never looked for.

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use wire::ResponseHead;

use crate::ffi::{constants_mark, has_items, is_text};

/// How many heads are kept.
const KEPT: usize = 16;
/// Heads with more bytes are not.
const KEPT_BYTES: usize = 1024;

/// Heads by the objects that they were made of.
#[derive(Default)]
pub struct KeptHeads(Vec<Place>);

/// Room for one.
#[derive(Default)]
struct Place {
    /// What was looked for here last: a head is kept when it comes a second time, so that those that change each time cost
    /// no more than this.
    seen: usize,
    kept: Option<Kept>,
}

struct Kept {
    status: Py<PyAny>,
    pairs: Vec<Py<PyAny>>,
    head: ResponseHead,
}

/// What a head is looked for by.
#[derive(Clone, Copy)]
pub struct Sought(usize);

impl KeptHeads {
    /// Begins `head` as the one that was kept of these objects. Otherwise what [`KeptHeads::keep`] wants to hear once it is
    /// made; nothing where it is none to be kept.
    #[inline]
    pub fn begin(
        &self,
        (status, headers): (Borrowed<'_, '_, PyAny>, &Bound<'_, PyAny>),
        head: &mut ResponseHead,
    ) -> Result<(), Option<Sought>> {
        let Some(mark) = constants_mark(headers, status.as_ptr() as usize) else { return Err(None) };
        let sought = Sought(mark ^ mark >> 16);
        if let Some(Place { kept: Some(kept), .. }) = self.0.get(sought.place())
            && kept.status.as_ptr() == status.as_ptr()
            && has_items(headers, &kept.pairs)
        {
            head.begin_as(&kept.head);
            return Ok(());
        }
        Err(Some(sought))
    }

    /// A head was made of these objects, which [`KeptHeads::begin`] has not found.
    #[inline(never)]
    pub fn keep(
        &mut self,
        sought: Sought,
        (status, headers): (Borrowed<'_, '_, PyAny>, &Bound<'_, PyAny>),
        head: &ResponseHead,
    ) {
        if self.0.is_empty() {
            self.0.resize_with(KEPT, Place::default);
        }
        let place = &mut self.0[sought.place()];
        if std::mem::replace(&mut place.seen, sought.0) != sought.0 || head.bytes().len() > KEPT_BYTES {
            return;
        }
        let Ok(list) = headers.cast_exact::<PyList>() else { return };
        if is_text(status) && list.iter().all(|pair| never_changes(&pair)) {
            let mut copy = ResponseHead::new();
            copy.begin_as(head);
            let pairs = list.iter().map(Bound::unbind).collect();
            place.kept = Some(Kept { status: status.to_owned().unbind(), pairs, head: copy });
        }
    }
}

impl Sought {
    #[inline]
    fn place(self) -> usize {
        (self.0 >> 4) % KEPT
    }
}

/// A pair of two strings, of no class of the application's.
fn never_changes(pair: &Bound<'_, PyAny>) -> bool {
    pair.cast_exact::<PyTuple>()
        .is_ok_and(|pair| pair.as_slice().iter().all(|part| is_text(part.as_borrowed())))
}
