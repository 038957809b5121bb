//! Slow readers, when more is kept for all of them than may be.
//!
//! Knows: what each is sent, and who takes least. Does not know: what waits for whom (`output.rs`), or what is kept
//! (`budget.rs`). Runs under the baton.

use super::Connections;
use crate::connection::Phase;
use crate::poller::Poller;

impl Connections {
    /// Ends readers until no more is kept than may be, first those whose patience ends first,
    /// and at first none that takes something when it is asked once more. `newest`, a connection or a stream of one, has
    /// just come and stays: one reply is served whatever its size.
    #[inline]
    pub fn keep_budget(&mut self, newest: (u64, Option<u32>), poller: &mut Poller) {
        if self.engine.budget.is_over() {
            self.end_readers(newest, poller);
        }
    }

    #[cold]
    fn end_readers(&mut self, newest: (u64, Option<u32>), poller: &mut Poller) {
        let mut readers: Vec<_> = self
            .slots
            .parked()
            .filter_map(|(token, connection, _)| match connection.streams() {
                Some(streams) => streams.shared.keeps().then(|| (streams.shared.left_until(), token)),
                None => {
                    let keeps = connection.sending.keeps() && (token, None) != newest;
                    keeps.then(|| (connection.patience.until(), token))
                }
            })
            .collect();
        readers.sort_unstable();
        for forgives in [true, false] {
            for (_, token) in &readers {
                if !self.engine.budget.is_over() {
                    return;
                }
                self.ask_once_more(*token, newest.1.filter(|_| *token == newest.0), forgives, poller);
            }
        }
    }

    /// Sends a reader what it takes, and resets it if that is nothing or none is forgiven.
    fn ask_once_more(&mut self, token: u64, but: Option<u32>, forgives: bool, poller: &mut Poller) {
        let Some(mut connection) = self.slots.check_out(token) else { return };
        if let Some(streams) = connection.streams() {
            if !forgives {
                self.engine.counters.kept_resets.add_many(streams.shared.drop_kept(but));
            }
            let none = self.progress(connection, poller);
            debug_assert!(none.is_none(), "requests of streams are told apart");
            return;
        }
        let before = connection.sending.waiting();
        let lives = connection.flush(&self.engine.config.limits, poller.now).is_ok();
        let takes = connection.sending.waiting() < before;
        if lives && (forgives && takes || !connection.sending.keeps()) {
            debug_assert!(
                matches!(connection.phase, Phase::Flushing(_)),
                "only who is sent to keeps something"
            );
            self.park(connection, poller);
            // It may have taken all, and no edge will tell.
            return self.slots.resume(token);
        }
        self.engine.counters.kept_resets.add();
        connection.transport.reset_at_close();
        self.close(connection);
    }
}
