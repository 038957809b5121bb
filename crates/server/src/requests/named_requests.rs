//! Requests whose application has named a file that the kernel does not have in memory.
//!
//! Knows: who looks for it, and that the exchange comes back. Does not know: what a reply with a file is
//! (`named_files.rs`). Runs on an event loop's thread.

use std::sync::Arc;

use reactor::file::Ask;

use super::Requests;
use crate::exchange::Exchange;
use crate::named_files;

impl Requests {
    /// Has a thread answer, which may wait for the disk; the exchange comes back with a wake-up.
    #[cold]
    pub fn answer_from_disk(&mut self, mut exchange: Box<Exchange>) {
        // Replies to earlier requests of its connection do not wait for a disk.
        exchange.send_pipelined();
        let (engine, answered) = (Arc::clone(&self.engine), Arc::clone(&self.named));
        engine.counters.cold_reads.add();
        let disk = Arc::clone(&engine.disk);
        disk.run(move || {
            named_files::answer(&mut exchange, Ask::Disk, &engine);
            if answered.put(exchange) {
                engine.waker.wake();
            }
        });
    }

    /// Takes back those that were answered so.
    pub fn fetch_named(&mut self) {
        if self.named.is_full() {
            self.finished.extend(self.named.take());
        }
    }
}
