//! Every limit of the engine: its name, default, reason, answer and counter.
//!
//! Knows: numbers. Does not know: who keeps them. The command line's `--limit-…` options and
//! timeouts, their help and docs/settings.md follow from this file.
//!
//! What one client can make a worker hold of what is sent to it, all limits together:
//!
//! | what | at most | for how long |
//! | --- | --- | --- |
//! | replies to pipelined requests | `response_buffer_bytes`; no next request begins above it | `write_timeout`, `write_rate` |
//! | a reply that is being written | `response_buffer_bytes` and the part that went over it; a thread, a greenlet or a task then waits | the same |
//! | a large reply that is complete | the reply; of all clients `kept_bytes` | the same |
//! | part of a file | a descriptor | the same |
//! | a WebSocket's messages | `response_buffer_bytes` and one message; `send` then waits | the same, and `ws_ping_timeout` |
//! | our own refusals | some 300 bytes | the same, then `linger_timeout` |
//! | the loop's time | `send_burst_bytes` a visit | until the reply is sent |
//!
//! So: two `response_buffer_bytes` and one reply, for as long as it takes `write_rate`.
//!
//! What one connection of HTTP/2 can make a worker hold of what it sends, all limits together:
//!
//! | what | at most |
//! | --- | --- |
//! | the two tables of header compression | `h2_table_bytes` for theirs, none for ours |
//! | a header block that is arriving, and its fields | `h2_block_bytes` and `header_bytes`, one at a time |
//! | heads of requests that are being answered | `h2_heads_bytes`; `h2_streams` of them |
//! | bodies that the application has not read | `h2_streams` of `h2_window_bytes`, and `h2_window_most_bytes` in all |
//! | answers to its control frames | `h2_control_bytes` |
//! | replies that it does not take | what the sending half frames ahead, 64 KiB; the rest stays with its stream |

use std::fmt;

/// One limit, as documentation and options show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitDoc {
    pub name: &'static str,
    /// `count`, `bytes`, `milliseconds` or `bytes/second`.
    pub kind: &'static str,
    pub default: u64,
    /// Why this default.
    pub reason: &'static str,
    /// What happens at the limit.
    pub answer: &'static str,
    /// Which number counts that (`server/counters.rs`): one or more, or `none` and why.
    pub counter: &'static str,
}

/// There is no limit of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLimit(pub String);

impl fmt::Display for UnknownLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no limit '{}'", self.0)
    }
}

impl std::error::Error for UnknownLimit {}

/// Makes a struct of limits, a table of what each is for, and the way to set one by its name.
macro_rules! limits {
    ($($name:ident: $kind:literal = $default:expr, $reason:literal, $answer:literal, $counter:literal;)+) => {
        /// The limits in force.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $reason] pub $name: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        /// All limits, in the order in which people meet them.
        pub const TABLE: &[LimitDoc] = &[$(LimitDoc {
            name: stringify!($name),
            kind: $kind,
            default: $default,
            reason: $reason,
            answer: $answer,
            counter: $counter,
        },)+];

        impl Limits {
            /// Sets one by its name.
            ///
            /// # Errors
            /// [`UnknownLimit`] names what was asked for.
            pub fn set(&mut self, name: &str, value: u64) -> Result<(), UnknownLimit> {
                match name {
                    $(stringify!($name) => self.$name = value,)+
                    _ => return Err(UnknownLimit(name.to_string())),
                }
                Ok(())
            }
        }
    };
}

limits! {
    request_line_bytes: "bytes" = 16 * 1024,
        "twice what RFC 9112 section 3 asks everybody to take (8,000), as links with long queries exist",
        "414, then close", "http_parse_errors_total{reason=\"request-line-too-long\"}";
    header_bytes: "bytes" = 64 * 1024,
        "a browser sends 1 to 4 KiB; single sign-on cookies have been seen at 32 KiB, and a web server's uwsgi packet has up to 64 KiB by its format",
        "431, then close", "http_parse_errors_total{reason=\"headers-too-large\"}";
    header_lines: "count" = 100,
        "what hyper and gunicorn allow; a browser sends 15 to 25",
        "431, then close", "http_parse_errors_total{reason=\"too-many-headers\"}";
    proxy_header_bytes: "bytes" = 4 * 1024,
        "a PROXY v2 header of HAProxy with all that it knows of a client's certificate has less than 1 KiB; one of version 1 has 107 bytes at most by its specification",
        "the connection closes", "http_parse_errors_total{reason=\"proxy-too-long\"}";
    body_bytes: "bytes" = 1024 * 1024 * 1024,
        "uploads of films work out of the box, and a disk is not filled by one request",
        "413 as soon as it is known, then close", "http_parse_errors_total{reason=\"body-too-large\"}";
    body_memory_bytes: "bytes" = 256 * 1024,
        "forms and API calls stay in memory; larger bodies go to an unlinked temporary file",
        "the body goes to a file", "bodies_spooled";
    bodies_memory_bytes: "bytes" = 256 * 1024 * 1024,
        "all bodies in a worker's memory together: a thousand of the largest that stay there. Beyond half of it, bodies go to files that are not tiny",
        "503 with Retry-After, then close", "http_parse_errors_total{reason=\"bodies-memory\"}";
    bodies_disk_bytes: "bytes" = 8 * 1024 * 1024 * 1024,
        "all bodies in a worker's temporary files together: eight of the largest, which common machines have room for",
        "507, then close", "http_parse_errors_total{reason=\"bodies-disk\"}";
    chunk_extension_bytes: "bytes" = 4 * 1024,
        "nobody uses chunk extensions, and RFC 9112 section 7.1.1 asks for a bound of their total in a message",
        "400, then close", "http_parse_errors_total{reason=\"chunk-extensions-too-large\"}";
    trailer_bytes: "bytes" = 16 * 1024,
        "trailers are checksums and signatures",
        "431, then close", "http_parse_errors_total{reason=\"trailers-too-large\"}";
    trailer_lines: "count" = 64,
        "trailers are checksums and signatures",
        "431, then close", "http_parse_errors_total{reason=\"too-many-trailers\"}";
    response_buffer_bytes: "bytes" = 64 * 1024,
        "a page for a slow reader fits, so that its thread is free; replies to pipelined requests may wait so far, too",
        "the writing thread waits for the reader, and no next request of its connection begins", "reply_waits, pipeline_waits";
    kept_bytes: "bytes" = 128 * 1024 * 1024,
        "large bodies that are sent from the application's own objects and live until their readers have them, all together in one worker: twenty-five of 5 MB; files hold nothing",
        "a thread waits for its reader before it takes another request; under an event loop or a hub, and on streams of HTTP/2, the readers that take least are reset", "kept_waits, kept_resets";
    static_memory_bytes: "bytes" = 32 * 1024 * 1024,
        "small files of --static that are served from memory: a site's stylesheets, scripts and icons with their compressed forms fit several times. What is still being sent counts, too",
        "those that were not asked for lately make room; what does not fit is served from its file", "static_evicted";
    static_file_bytes: "bytes" = 64 * 1024,
        "a file of --static up to this is served from memory; copying it costs about as much as sendfile(2) would",
        "it is served from its file, by sendfile(2)", "static_large_replies";
    static_descriptors: "count" = 256,
        "larger files of --static that stay open, so that a request for one costs no path work; a quarter of the descriptors that a process has by default",
        "those that were not asked for lately are closed", "static_descriptors_closed";
    static_recheck: "milliseconds" = 1_000,
        "how long what is known of a file of --static is believed before it is compared with the disk again: a replaced file is served a second later",
        "it is looked at again with the next request for it", "static_rechecks";
    disk_threads: "count" = 4,
        "threads that read files to be sent where the kernel does not have them in memory: a disk answers several reads at once, and one that hangs does not stop the others",
        "further reads wait", "disk_waits";
    send_burst_bytes: "bytes" = 256 * 1024,
        "what one connection is sent of a large reply or file before others are looked at; copying it takes a tenth of a millisecond. The kernel takes no more of a larger file for a peer that does not read",
        "the rest is sent when others have had their turn", "send_bursts";
    drain_bytes: "bytes" = 64 * 1024,
        "one window of what a peer had under way when it was refused",
        "nothing more is read; the connection closes", "lingers_cut";
    ws_message_bytes: "bytes" = 16 * 1024 * 1024,
        "what uvicorn and websockets allow; counted after inflating, so that a small message cannot become a huge one",
        "close code 1009", "ws_faults";
    ws_fragments: "count" = 16 * 1024,
        "a message in fragments of a kilobyte stays below it; ten million empty ones do not",
        "close code 1009", "ws_faults";
    ws_queue: "count" = 32,
        "messages that wait for the application; enough that the network's delay is hidden",
        "nothing more is read from the client until one is taken", "ws_waits";
    ws_queue_bytes: "bytes" = 1024 * 1024,
        "what those messages may hold, so that a thousand clients of a slow application cost a gigabyte and not 512; one message is taken whatever its size",
        "nothing more is read from the client until one is taken", "ws_waits";
    connections: "count" = 16 * 1024,
        "sixteen thousand idle ones need some 10 MiB",
        "the idlest is closed, or accepting pauses", "connections_evicted, connections_left, accept_pauses";
    cached_heads: "count" = 64,
        "a worker meets a few dozen kinds of client at a time",
        "the oldest makes room", "none: a cache";
    cached_head_bytes: "bytes" = 8 * 1024,
        "heads with large cookies are rarely repeated by others",
        "a larger head is not kept", "none: a cache";
    cached_head_idle: "milliseconds" = 10_000,
        "heads may hold cookies, which should not lie about",
        "it is dropped", "none: a cache";
    cached_names: "count" = 256,
        "browsers and proxies use some fifty names of headers; what an application is given for each is kept, of 65,536 at the most",
        "one that was not used for long is forgotten, and made anew when it comes again", "none: a cache";
    first_byte_timeout: "milliseconds" = 8_000,
        "browsers open spare connections and use them within seconds; the kernel may add one (--defer-accept)",
        "the connection closes without a word", "idle_timeouts";
    header_timeout: "milliseconds" = 10_000,
        "a head is one packet; this is for the whole of it, from its first byte, and no byte extends it",
        "408, then close", "request_timeouts";
    keep_alive_timeout: "milliseconds" = 75_000,
        "longer than the 60 s of common load balancers, so that they close first and no request is lost",
        "the connection closes without a word", "idle_timeouts";
    body_rate: "bytes/second" = 240,
        "a modem of 1990 is faster",
        "408, then close", "http_parse_errors_total{reason=\"body-too-slow\"}";
    body_grace: "milliseconds" = 5_000,
        "a phone may change its cell; the rate is asked for after this",
        "408, then close", "http_parse_errors_total{reason=\"body-too-slow\"}";
    body_idle_timeout: "milliseconds" = 60_000,
        "what nginx waits between two reads: a peer that is gone without a word has paid for hours, by its rate, with what it sent before",
        "408, then close", "http_parse_errors_total{reason=\"body-stalled\"}";
    write_timeout: "milliseconds" = 30_000,
        "a reader that takes nothing at all for so long is gone",
        "the connection is reset", "write_timeouts";
    write_rate: "bytes/second" = 240,
        "a modem of 1990 is faster; a reader has --write-timeout at the beginning, each byte that it takes earns it the time of that byte at this rate, up to --write-timeout again; 0: any byte is enough",
        "the connection is reset", "write_timeouts";
    ws_ping_interval: "milliseconds" = 20_000,
        "shorter than the idle time of common proxies (60 s), so that they keep the connection",
        "a ping is sent to a client that has said nothing for so long; 0 for none", "none: an interval";
    ws_ping_timeout: "milliseconds" = 20_000,
        "a phone that changes its network takes seconds",
        "the connection closes; the application hears 1006", "ws_ping_timeouts";
    ws_close_timeout: "milliseconds" = 5_000,
        "a client answers a close frame at once, if it is still there",
        "the connection closes without the answer", "ws_close_timeouts";
    handshakes: "count" = 512,
        "TLS handshakes that are under way at a time in a worker: its thread for them does 512 in a tenth of a second or two, and each holds some 10 KiB, with a long certificate of the client up to 64",
        "further connections to HTTPS addresses wait in the kernel's queue, or go to another worker", "handshake_waits";
    handshake_timeout: "milliseconds" = 10_000,
        "for the whole of a TLS handshake, with a PROXY header in front of it: two round trips, and no byte extends it",
        "the connection closes without a word", "handshake_timeouts";
    handshake_hold: "milliseconds" = 1_000,
        "so long a client may take for its part of a handshake while --limit-handshakes are under way and others wait: who says nothing keeps nobody out",
        "the connection that waits for its client longest closes, and its place is another's", "handshakes_displaced";
    linger_timeout: "milliseconds" = 2_000,
        "time for a peer to read our refusal while it still sends; a web server that speaks uwsgi, SCGI or FastCGI may have to send all before it reads, and has it anew with what it sends, at --limit-body-rate",
        "the connection closes", "lingers_cut";
    graceful_timeout: "milliseconds" = 30_000,
        "what gunicorn waits, and what orchestrators wait before they kill",
        "requests that still run are cut", "requests_cut";
    drain_keep_alive: "milliseconds" = 10_000,
        "clients think for seconds between requests; one that does not come back in that time meets a closed connection",
        "idle connections of a worker that is being replaced are closed", "connections_drained";
    request_timeout: "milliseconds" = 0,
        "from a request's arrival to the end of its reply, its wait in the queue included; 0: none, as downloads may last; --request-timeouts has others by path",
        "504 at once, the stack is logged, forehand.RequestTimeout is raised in the thread", "request_deadlines";
    request_timeout_grace: "milliseconds" = 5_000,
        "time for a thread to come back after forehand.RequestTimeout was raised in it",
        "the worker is replaced", "request_deadlines_ignored";
    queue_timeout: "milliseconds" = 10_000,
        "nobody waits longer for a page, and what nobody waits for need not be begun; 0: no bound",
        "503 with Retry-After, and the request is not begun; at once, where it would wait for longer than half of this (a quarter with priority low, all of it with high)", "requests_waited_too_long, requests_not_in_time";
    newest_first_after: "milliseconds" = 1_000,
        "who clicks leaves or asks again after some seconds: in the order of arrival everybody would wait for as long, and what is done would be done for those that have left; 0: always in that order",
        "of those that wait in a lane the newest and the oldest begin in turn, until the oldest has not waited for so long", "requests_newest_first";
    queue: "count" = 1024,
        "requests that have been read and wait for a thread, in each lane (quick, slow, not yet known); they need 1 KiB each",
        "503 with Retry-After", "requests_not_queued";
    concurrency: "count" = 0,
        "requests, WebSockets and their background tasks that run at the same time in a worker's event loop; 0: no bound, as what waits in a loop costs some kilobytes and nobody else's turn, and only you know what a database takes. For ASGI: --threads bounds WSGI, --worker-connections greenlets",
        "503 with Retry-After at once, and the application is not called", "requests_over_concurrency";
    slow_callback_duration: "milliseconds" = 100,
        "what asyncio's debug mode tells; as long as one step of a task, callback or greenlet runs, every other request of its worker waits; 0: nothing is told",
        "its place in the code, its request and how long it took are logged, once a place", "slow_callbacks";
    slow_callback_places: "count" = 64,
        "places that are named in the log; an application has few that are worth it, and each is kept in memory",
        "further places are counted and not named", "slow_callbacks_unnamed";
    h2_streams: "count" = 128,
        "requests of one connection that are under way; what browsers take for granted is 100. One counts until its call has ended, also when its client has cut it",
        "the stream is refused with REFUSED_STREAM, which clients try again", "h2_faults{reason=\"too-many-streams\"}";
    h2_heads_bytes: "bytes" = 512 * 1024,
        "heads of one connection's requests that are being answered, all together: 128 of 4 KiB. A byte of a block can stand for 4 KiB of the table, again for each stream",
        "the stream is refused with REFUSED_STREAM", "h2_faults{reason=\"heads-too-large\"}";
    h2_block_bytes: "bytes" = 64 * 1024,
        "a header block as it is sent; compressed it is shorter than header_bytes",
        "GOAWAY with ENHANCE_YOUR_CALM", "h2_faults{reason=\"block-too-large\"}";
    h2_continuations: "count" = 8,
        "a block of 64 KiB needs four frames",
        "GOAWAY with ENHANCE_YOUR_CALM", "h2_faults{reason=\"continuations\"}";
    h2_table_bytes: "bytes" = 4 * 1024,
        "what RFC 9113 section 6.5.2 begins with, and browsers use",
        "no client can use more: GOAWAY with COMPRESSION_ERROR", "h2_faults{reason=\"compression\"}";
    h2_frame_bytes: "bytes" = 16 * 1024,
        "the least that RFC 9113 section 4.2 allows; larger ones save nothing",
        "GOAWAY with FRAME_SIZE_ERROR", "h2_faults{reason=\"frame-size\"}";
    h2_window_bytes: "bytes" = 16 * 1024,
        "of one stream's body, what may be under way or wait for the application; a body that is longer has sixteen times as much from its head on, as long as that is a quarter of what h2_window_most_bytes allows",
        "RST_STREAM with FLOW_CONTROL_ERROR", "h2_faults{reason=\"stream-window\"}";
    h2_connection_window_bytes: "bytes" = 128 * 16 * 1024 + 64 * 1024,
        "the same of all streams together, beside what theirs have grown by: as much as h2_streams may hold and a rest, so that a body that nobody reads holds up no other",
        "GOAWAY with FLOW_CONTROL_ERROR", "h2_faults{reason=\"connection-window\"}";
    h2_window_most_bytes: "bytes" = 4 * 1024 * 1024,
        "what windows of streams may grow by, all of a connection together, while their readers keep up: 80 MB/s over a way of 50 ms",
        "they do not grow further", "none: a window";
    h2_control_bytes: "bytes" = 16 * 1024,
        "acknowledgements, resets and windows that wait to be sent: a thousand of them",
        "GOAWAY with ENHANCE_YOUR_CALM", "h2_faults{reason=\"control-queue\"}";
    h2_glitches: "count" = 200,
        "frames that cost more than they are worth (a reset, a stream that we reset for the client's fault, a ping, a setting, an empty frame): a browser that leaves a page resets a hundred at once",
        "GOAWAY with ENHANCE_YOUR_CALM", "h2_faults{reason=\"glitches\"}";
    h2_glitch_rate: "count" = 33,
        "so many of them are forgiven each second, and one for each request that is answered",
        "GOAWAY with ENHANCE_YOUR_CALM", "h2_faults{reason=\"glitches\"}";
    h2_small_frames: "count" = 64,
        "frames of a body below 64 bytes that the application has not read; small messages that are read as they come cost nothing",
        "each further one is a glitch", "h2_faults{reason=\"glitches\"}";
    h2_settings_timeout: "milliseconds" = 10_000,
        "a client acknowledges settings within a round trip",
        "GOAWAY with SETTINGS_TIMEOUT", "h2_faults{reason=\"settings-timeout\"}";
    h2_goaway_grace: "milliseconds" = 1_000,
        "between the announcement that a connection ends and the number of its last stream; requests that are under way meanwhile are answered. A PING that comes back ends it sooner",
        "later streams are not answered; clients try them elsewhere", "none: an interval";
    error_log_rate: "count" = 10,
        "lines a second about what peers can cause at will; enough to see it, too few to fill a disk",
        "lines are counted, and their number is logged", "log_lines_suppressed";
}

impl Limits {
    /// True when a body of so many bytes needs a file, and all files would be too much, of which
    /// so much is used.
    pub fn lacks_disk(&self, length: u64, used: u64) -> bool {
        length > self.body_memory_bytes && used.saturating_add(length) > self.bodies_disk_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_can_be_set_by_its_name_and_has_its_words() {
        let mut limits = Limits::default();
        for doc in TABLE {
            limits.set(doc.name, 7).expect(doc.name);
            assert!(!doc.reason.is_empty() && !doc.answer.is_empty() && !doc.counter.is_empty());
        }
        assert_eq!((limits.header_lines, limits.body_rate), (7, 7));
        assert_eq!(limits.set("nope", 1), Err(UnknownLimit("nope".into())));
    }
}
