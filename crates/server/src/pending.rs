//! Bytes that came too early: behind a request, before anybody reads what follows it.
//!
//! Knows: bytes, and how far they have been read. Does not know: what they are. Owned by whoever has the receiving
//! half of the connection.

/// Bytes that were received together with a request and belong to what follows it.
#[derive(Default)]
pub struct Pending {
    bytes: Box<[u8]>,
    /// One read's worth is the most there is.
    at: u32,
}

impl Pending {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at as usize == self.bytes.len()
    }

    #[inline]
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.at as usize..]
    }

    /// Notes how much is left; when nothing is, the memory goes too.
    pub fn left(&mut self, left: usize) {
        self.at = (self.bytes.len() - left) as u32;
        if left == 0 {
            *self = Self::default();
        }
    }

    /// Keeps bytes, behind what is pending. Nothing is where this is called, so that one buffer's worth is the most
    /// there is.
    pub fn keep(&mut self, bytes: &[u8]) {
        let bytes = if self.is_empty() { bytes.into() } else { [self.rest(), bytes].concat().into() };
        *self = Self { bytes, at: 0 };
    }

    /// The memory itself, to be worked on while the connection is changed.
    pub fn take(&mut self) -> (Box<[u8]>, usize) {
        let taken = std::mem::take(self);
        (taken.bytes, taken.at as usize)
    }

    /// Puts back what [`Pending::take`] gave, read up to `at`.
    pub fn put(&mut self, bytes: Box<[u8]>, at: usize) {
        if at < bytes.len() {
            *self = Self { bytes, at: at as u32 };
        }
    }
}
