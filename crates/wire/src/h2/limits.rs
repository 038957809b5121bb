//! The limits of HTTP/2: rows like those of `wire/limits.rs`, which they join when a listener speaks it: an option that
//! nothing obeys would be a lie.
//!
//! Knows: numbers. Does not know: who keeps them. `header_bytes`, `header_lines`, `request_line_bytes`, `body_…`,
//! `trailer_…` and the timeouts of the other table hold for HTTP/2 as they are.
//!
//! What one client can make a connection hold, all limits together:
//!
//! | what | at most |
//! | --- | --- |
//! | the two tables of header compression | `h2_table_bytes` for theirs, none for ours |
//! | a header block that is arriving, and its fields | `h2_block_bytes` and `header_bytes`, one at a time |
//! | heads of requests that are being answered | `h2_heads_bytes`; `h2_streams` of them |
//! | bodies that the application has not read | `h2_window_most_bytes` |
//! | answers to its control frames | `h2_control_bytes` |
//! | replies that it does not take | what the sending half frames ahead, 64 KiB; the rest stays with its stream |

crate::limits::limits! { H2Limits, H2_TABLE:
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
    h2_window_bytes: "bytes" = 256 * 1024,
        "of one stream's body, what may be under way or wait for the application; a quarter of the connection's, so that one stream does not hold up the others",
        "RST_STREAM with FLOW_CONTROL_ERROR", "h2_faults{reason=\"stream-window\"}";
    h2_connection_window_bytes: "bytes" = 1024 * 1024,
        "the same of all streams together",
        "GOAWAY with FLOW_CONTROL_ERROR", "h2_faults{reason=\"connection-window\"}";
    h2_window_most_bytes: "bytes" = 4 * 1024 * 1024,
        "what either window may grow to while its reader keeps up: 80 MB/s over a way of 50 ms",
        "it does not grow further", "none: a window";
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_words_and_can_be_set() {
        let mut limits = H2Limits::default();
        for doc in H2_TABLE {
            limits.set(doc.name, 7).expect(doc.name);
            assert!(doc.name.starts_with("h2_"));
            assert!(!doc.reason.is_empty() && !doc.answer.is_empty() && !doc.counter.is_empty());
        }
        assert_eq!((limits.h2_streams, limits.h2_goaway_grace), (7, 7));
    }
}
