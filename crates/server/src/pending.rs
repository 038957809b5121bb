//! Bytes that came too early: behind a request, before anybody reads what follows it.
//!
//! Knows: bytes, and how far they have been read. Does not know: what they are. Owned by whoever has the receiving
//! half of the connection.

/// Bytes that were received together with a request and belong to what follows it. Behind a pointer, and none where there
/// are none: idle connections are many.
#[derive(Default)]
pub struct Pending(Option<Box<Kept>>);

/// The bytes. They stay where they are until all are read.
struct Kept {
    bytes: Vec<u8>,
    /// So many are read.
    at: usize,
}

impl Pending {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    #[inline]
    pub fn rest(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |kept| &kept.bytes[kept.at..])
    }

    /// Notes how much is left; when nothing is, the memory goes too.
    pub fn left(&mut self, left: usize) {
        match &mut self.0 {
            Some(kept) if left > 0 => kept.at = kept.bytes.len() - left,
            _ => self.0 = None,
        }
    }

    /// Keeps bytes, behind what is pending. Nothing is where this is called, so that one buffer's worth is the most
    /// there is.
    pub fn keep(&mut self, bytes: &[u8]) {
        let bytes = if self.is_empty() { bytes.to_vec() } else { [self.rest(), bytes].concat() };
        self.0 = Some(Box::new(Kept { bytes, at: 0 }));
    }

    /// All of it, to be worked on while the connection is changed: what is left of it is put back.
    #[inline]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Puts back what [`Pending::take`] gave, of which so much is left.
    pub fn put(&mut self, mut taken: Self, left: usize) {
        taken.left(left);
        if !taken.is_empty() {
            *self = taken;
        }
    }

    /// The memory itself, and how much of it is read.
    pub fn into_bytes(self) -> (Vec<u8>, usize) {
        self.0.map_or_else(Default::default, |kept| (kept.bytes, kept.at))
    }
}
