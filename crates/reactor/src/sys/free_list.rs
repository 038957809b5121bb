//! A free list: the memory of boxes, from one value to the next of its type.
//!
//! Knows: which boxes are empty. Does not know: what was in them. Where many are made and ended together, as in a batch, the
//! C library's caches for a thread hold too few of them (seven of a size), and the rest goes the long way through its heap.

use std::mem::MaybeUninit;

/// Boxes without a value, no more than so many.
pub struct FreeList<T> {
    empty: Vec<Box<MaybeUninit<T>>>,
    most: usize,
}

impl<T> FreeList<T> {
    /// Keeps no more than `most`; the rest is given back to the heap.
    pub const fn new(most: usize) -> Self {
        Self { empty: Vec::new(), most }
    }

    /// Memory for a value, to be made there ([`Box::write`]).
    #[inline]
    pub fn take(&mut self) -> Box<MaybeUninit<T>> {
        self.empty.pop().unwrap_or_else(Box::new_uninit)
    }

    /// Keeps what [`unbox`] has left.
    #[inline]
    pub fn keep(&mut self, empty: Box<MaybeUninit<T>>) {
        if self.empty.len() < self.most {
            self.empty.push(empty);
        }
    }
}

/// Takes a value out of its box, which another one may have.
#[inline]
pub fn unbox<T>(full: Box<T>) -> (T, Box<MaybeUninit<T>>) {
    let place = Box::into_raw(full);
    // SAFETY: the box has held a value, which is read once: from here on it is one that may hold none, and nothing that is
    // dropped knows of the value any more.
    unsafe { (place.read(), Box::from_raw(place.cast::<MaybeUninit<T>>())) }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_value_leaves_its_box_once_and_the_next_one_has_its_memory() {
        let shared = Rc::new(());
        let mut free = FreeList::new(2);
        let full = Box::write(free.take(), (Rc::clone(&shared), 7));
        let place = &raw const *full;
        let (value, empty) = unbox(full);
        free.keep(empty);
        assert_eq!((Rc::strong_count(&shared), value.1), (2, 7));
        drop(value);
        assert_eq!(Rc::strong_count(&shared), 1, "dropped by whoever took it, and by nobody else");
        let next = Box::write(free.take(), (Rc::clone(&shared), 8));
        assert_eq!((&raw const *next, next.1), (place, 8));
        drop(next);
        assert_eq!(Rc::strong_count(&shared), 1);
    }

    #[test]
    fn no_more_free_are_kept_than_may_be() {
        for (made, kept) in [(1, 1), (2, 2), (3, 2)] {
            let mut free = FreeList::new(2);
            let full: Vec<_> = (0..made).map(|number| Box::write(free.take(), number)).collect();
            let mut sum = 0;
            for (value, empty) in full.into_iter().map(unbox) {
                free.keep(empty);
                sum += value;
            }
            assert_eq!((sum, free.empty.len()), ((0..made).sum::<usize>(), kept));
        }
    }
}
