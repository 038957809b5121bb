//! The one open door: who answers requests.
//!
//! Knows: nothing but the shape. `bridge` implements it for WSGI; `examples/pong.rs`
//! implements it in Rust, so that the cost of Python and the cost of the engine can be told
//! apart.

use std::sync::Arc;

use crate::engine::Engine;
use crate::exchange::Exchange;
use crate::strain::Strain;

/// Answers requests. One value serves every worker thread at once.
pub trait App: Send + Sync + 'static {
    /// Runs a worker thread's whole life inside the interpreter, if there is one.
    fn live(&self, life: &mut dyn FnMut());

    /// Answers one request, on the calling thread, from start to end. Whatever is not
    /// answered when it returns is answered with 500 by the engine.
    fn call(&self, exchange: &mut Exchange, engine: &Arc<Engine>);

    /// Runs something that waits, while other threads may use the interpreter.
    fn outside<R>(&self, wait: impl FnOnce() -> R) -> R;

    /// The same for the thread that leads, which waits for work. What it runs gives when that was over, in monotonic
    /// nanoseconds; zero: nobody has looked at the clock.
    #[inline]
    fn outside_for_work(&self, wait: impl FnOnce() -> u64) {
        self.outside(wait);
    }

    /// When the thread that leads has last come back from [`App::outside_for_work`], in monotonic nanoseconds; zero: that
    /// takes no time.
    #[inline]
    fn back_at(&self) -> u64 {
        0
    }

    /// What the waits of the thread that leads have said of threads that hold up the others; none: no thread does.
    #[inline]
    fn strain(&self) -> Option<&Strain> {
        None
    }
}
