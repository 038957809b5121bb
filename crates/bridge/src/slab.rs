//! Values at places that stay theirs until they leave, and are given to others then.
//!
//! Knows: nothing of what stands there.

/// A growing table with free places.
pub struct Slab<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    /// Puts a value in a free place.
    pub fn insert(&mut self, value: T) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.all[place] = Some(value);
                place
            }
            None => {
                self.all.push(Some(value));
                self.all.len() - 1
            }
        }
    }

    /// Takes what stands at a place; none where nothing does.
    pub fn remove(&mut self, place: usize) -> Option<T> {
        let value = self.all.get_mut(place)?.take()?;
        self.free.push(place);
        Some(value)
    }

    pub fn get(&self, place: usize) -> Option<&T> {
        self.all.get(place)?.as_ref()
    }

    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.all.get_mut(place)?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().flatten()
    }

    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }
}
