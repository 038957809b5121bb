//! What an eventfd, or a parked thread's permit, is to the real thing.

use loom::sync::{Condvar, Mutex};

#[derive(Default)]
pub struct Event {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    pub fn wake(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_one();
    }

    pub fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !*set {
            set = self.changed.wait(set).unwrap();
        }
        *set = false;
    }

    /// Looks without waiting.
    pub fn look(&self) {
        *self.set.lock().unwrap() = false;
    }
}
