//! What happened how often. Every limit and every refusal has its number here.
//!
//! Knows: numbers. Does not know: who shows them. Any thread adds and reads.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::h2::{H2_REASONS, Wrong};
use wire::{Fault, REASONS};

/// One number that only grows. Where it stands, other processes may read it (`statistics`).
#[derive(Debug, Clone, Copy)]
pub struct Counter(&'static AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds where only the holder of the baton ever adds: without a locked instruction.
    #[inline]
    pub fn add_alone(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Shows what is counted elsewhere.
    pub fn copy(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds so many.
    pub fn add_many(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident)+) => {
        /// All numbers of one engine.
        #[derive(Debug)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: Counter,)+
            /// `http_parse_errors_total{reason}`: refused requests, by `Fault::index`.
            parse_errors: Vec<Counter>,
            /// `h2_faults{reason}`: what was wrong with frames and streams, by `Wrong::index`.
            h2_faults: Vec<Counter>,
        }

        /// Every counter but those of refusals, and what it counts.
        pub const TABLE: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),+)),)+];

        /// How many numbers there are.
        pub const COUNT: usize = TABLE.len() + REASONS.len() + H2_REASONS.len();

        impl Counters {
            /// Over numbers that are there for good, [`COUNT`] at least. With none, over numbers of its own: a few hundred
            /// bytes for each engine, which are never given back.
            pub fn new(numbers: Option<&'static [AtomicU64]>) -> Self {
                let own = || &*Box::leak((0..COUNT).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().into_boxed_slice());
                let mut numbers = numbers.filter(|given| given.len() >= COUNT).unwrap_or_else(own).iter();
                let mut next = || Counter(numbers.next().unwrap_or(&NOWHERE));
                Self {
                    $($name: next(),)+
                    parse_errors: REASONS.iter().map(|_| next()).collect(),
                    h2_faults: H2_REASONS.iter().map(|_| next()).collect(),
                }
            }

            /// Every name with its value, refusals that never happened left out.
            pub fn read(&self) -> Vec<(String, u64)> {
                let mut all = vec![$((stringify!($name).to_string(), self.$name.get()),)+];
                let refusals = REASONS.iter().zip(&self.parse_errors).map(|one| (REFUSALS, one));
                let faults = H2_REASONS.iter().zip(&self.h2_faults).map(|one| (H2_FAULTS, one));
                for (name, (reason, counter)) in refusals.chain(faults) {
                    if counter.get() > 0 {
                        all.push((by_reason(name, reason), counter.get()));
                    }
                }
                all
            }
        }
    };
}

counters! {
    /// Connections taken from the listeners.
    connections_accepted
    /// Connections closed, whoever began it.
    connections_closed
    /// Idle connections closed to make room (limit `connections`).
    connections_evicted
    /// Rows of the table that were looked at for that.
    eviction_looks
    /// Connections of other workers that were left to those with room (limit `connections`, descriptors).
    connections_left
    /// Connections turned away because neither room nor descriptors were left.
    connections_refused
    /// Accepting was paused for want of room or descriptors.
    accept_pauses
    /// Connections that said nothing in time (`first_byte_timeout`, `keep_alive_timeout`).
    idle_timeouts
    /// Requests whose head or body came too slowly (`header_timeout`, `body_rate`, `body_idle_timeout`).
    request_timeouts
    /// Replies that the peer did not take in time (`write_timeout`, `write_rate`).
    write_timeouts
    /// WebSockets closed because the client broke a rule or a limit.
    ws_faults
    /// Times that reading from a WebSocket stopped until its application listens (`ws_queue`, `ws_queue_bytes`).
    ws_waits
    /// WebSockets whose client did not answer a ping (`ws_ping_timeout`).
    ws_ping_timeouts
    /// WebSockets whose client did not answer a close frame (`ws_close_timeout`).
    ws_close_timeouts
    /// Connections closed while the peer still sent what nobody reads (`linger_timeout`, `drain_bytes`).
    lingers_cut
    /// TLS handshakes that were completed.
    handshakes
    /// Those of them whose clients came again with a ticket, so that they cost less.
    handshakes_resumed
    /// TLS handshakes that failed: the client left, broke a rule, or the two have nothing in common.
    handshakes_failed
    /// TLS handshakes that took too long (`handshake_timeout`).
    handshake_timeouts
    /// Times that connections to HTTPS addresses waited because as many handshakes were under way as may (`handshakes`).
    handshake_waits
    /// Handshakes that gave their place to others, as their clients took too long while others waited.
    handshakes_displaced
    /// Looks at what has happened, with and without waiting.
    looks
    /// Reads of connections by the loop.
    reads
    /// Requests given to the application.
    requests_total
    /// Request bodies that went to a temporary file (`body_memory_bytes`).
    bodies_spooled
    /// Request bodies that could not be stored (disk full).
    spool_failures
    /// Peers that left before their request was complete.
    requests_incomplete
    /// Peers that left before their reply was complete.
    replies_incomplete
    /// Replies whose length was not what their Content-Length had said.
    replies_wrong_length
    /// Requests that the application ended without an answer, or with an error.
    application_errors
    /// Threads, greenlets and tasks that waited for a slow reader (`response_buffer_bytes`).
    reply_waits
    /// Times that a pipeline's next request waited until its client has taken earlier replies (`response_buffer_bytes`).
    pipeline_waits
    /// Times that a reader of much was left to be sent more when others had had their turn (`send_burst_bytes`).
    send_bursts
    /// Threads that waited for the reader of a complete reply, as too much was kept (`kept_bytes`).
    kept_waits
    /// Readers reset under an event loop or a hub, as too much was kept (`kept_bytes`).
    kept_resets
    /// Replies to requests for files, which no application has seen (`--static`).
    static_replies
    /// Probes that were answered before the application was asked (`--health-paths`).
    probes_answered
    /// Files that made room in memory for others (`static_memory_bytes`).
    static_evicted
    /// Descriptors of files that were closed to make room for others (`static_descriptors`).
    static_descriptors_closed
    /// Files served from their descriptor, as they are larger than what is kept in memory (`static_file_bytes`).
    static_large_replies
    /// Times that what is known of a file was compared with the disk again (`static_recheck`).
    static_rechecks
    /// Replies with a file that the application has named (`--sendfile`).
    sendfile_replies
    /// Files that the application has named and that were not sent: they are not there, or in no folder of `--sendfile`.
    sendfile_refused
    /// Times that a thread was asked to look into the disk, as the kernel did not have it in memory.
    cold_reads
    /// Times that this had to wait, as all such threads were busy (`disk_threads`).
    disk_waits
    /// Times that replies were sent while a step blocked the event loop that they had waited in.
    replies_relieved
    /// Steps, callbacks and greenlets that held an event loop for too long (`slow_callback_duration`).
    slow_callbacks
    /// How long in all event loops were held up by them, so that nothing else of their workers ran.
    loop_blocked_ms
    /// Places of such steps that were not named because so many were (`slow_callback_places`).
    slow_callbacks_unnamed
    /// Requests that were still running at the end of the graceful stop (`graceful_timeout`).
    requests_cut
    /// Idle connections that a worker on its way out has closed (`drain_keep_alive`).
    connections_drained
    /// Connections given to another worker because one thread held up this one, or none was free.
    connections_handed_over
    /// Connections that were taken over from another worker; they count as accepted, too.
    connections_taken_over
    /// Requests that waited for a thread, or for another one that computed, and went to another worker with their connections, where they
    /// count once more.
    requests_handed_over
    /// Requests that compute and waited for one that did, as two at a time would have taken turns.
    requests_held_back
    /// Requests that were taken over from another worker.
    requests_taken_over
    /// Requests that were overdue (`request_timeout`).
    request_deadlines
    /// Overdue requests whose thread did not come back (`request_timeout_grace`).
    request_deadlines_ignored
    /// Requests that were not begun because they had waited too long (`queue_timeout`).
    requests_waited_too_long
    /// Requests that were begun before older ones, as the oldest had waited for too long (`newest_first_after`).
    requests_newest_first
    /// Requests that were refused at once, as they would have waited too long (`queue_timeout`).
    requests_not_in_time
    /// Requests that were refused because too many waited (`queue`).
    requests_not_queued
    /// Requests refused because as many ran in the event loop as may (limit `concurrency`).
    requests_over_concurrency
    /// Requests that were not begun because their client had left.
    requests_abandoned
    /// Faults of ours that were caught.
    panics
    /// Log lines that were left out (`error_log_rate`).
    log_lines_suppressed
    /// Lines of logs that were lost, as nobody has read them or the file could not be written.
    log_lines_lost
}

impl Counters {
    /// Requests of this worker: those that it has handed over count where they went.
    pub fn own_requests(&self) -> u64 {
        self.requests_total.get().saturating_sub(self.requests_handed_over.get())
    }

    /// Requests that were not begun: they would have waited too long, too many waited, and they had waited too long.
    pub fn turned_away(&self) -> [u64; 3] {
        [self.requests_not_in_time, self.requests_not_queued, self.requests_waited_too_long]
            .map(|one| one.get())
    }

    /// Counts a refused request under its reason.
    pub fn refused(&self, fault: &Fault) {
        if let Some(counter) = self.parse_errors.get(fault.index()) {
            counter.add();
        }
    }

    /// Counts what was wrong with a frame or a stream under its reason.
    pub fn h2_fault(&self, wrong: &Wrong) {
        if let Some(counter) = self.h2_faults.get(wrong.index()) {
            counter.add();
        }
    }
}

/// Where a number would be counted that has no place. There is none, as [`COUNT`] says.
static NOWHERE: AtomicU64 = AtomicU64::new(0);

/// The names of all numbers, in the order in which they stand.
pub fn names() -> Vec<String> {
    let plain = TABLE.iter().map(|(name, _)| (*name).to_string());
    let refusals = REASONS.iter().map(|reason| by_reason(REFUSALS, reason));
    let faults = H2_REASONS.iter().map(|reason| by_reason(H2_FAULTS, reason));
    plain.chain(refusals).chain(faults).collect()
}

/// Another number for other names, or another order of them: numbers are found by their places.
pub const ORDER: u32 = {
    let mut hash = 0x811c_9dc5;
    let mut at = 0;
    while at < TABLE.len() {
        hash = hashed(hash, TABLE[at].0);
        at += 1;
    }
    let reasons: [&[&str]; 2] = [REASONS, H2_REASONS];
    let mut which = 0;
    while which < reasons.len() {
        let mut at = 0;
        while at < reasons[which].len() {
            hash = hashed(hash, reasons[which][at]);
            at += 1;
        }
        which += 1;
    }
    hash
};

/// FNV-1a of a name and of its end.
const fn hashed(mut hash: u32, name: &str) -> u32 {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at <= bytes.len() {
        let byte = if at < bytes.len() { bytes[at] } else { 0 };
        hash = (hash ^ byte as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

/// The names of what is counted by reasons.
const REFUSALS: &str = "http_parse_errors_total";
const H2_FAULTS: &str = "h2_faults";

fn by_reason(name: &str, reason: &str) -> String {
    format!("{name}{{reason=\"{reason}\"}}")
}
