//! What can be wrong with frames and streams: the code that the peer is told, and the name that is counted.
//!
//! Knows: every reason that there is. Does not know: whether it ends a stream or the connection; who found it does.
//! What is wrong with a request that is well formed is a [`crate::Fault`] with a status, as in HTTP/1.

/// Error codes (RFC 9113 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    NoError = 0,
    ProtocolError = 1,
    InternalError = 2,
    FlowControlError = 3,
    SettingsTimeout = 4,
    StreamClosed = 5,
    FrameSizeError = 6,
    RefusedStream = 7,
    Cancel = 8,
    CompressionError = 9,
    ConnectError = 10,
    EnhanceYourCalm = 11,
    InadequateSecurity = 12,
    Http11Required = 13,
}

/// One thing that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong {
    pub code: Code,
    /// A stable name, for counters.
    pub reason: &'static str,
    /// One sentence, which is also the debug data of a GOAWAY.
    pub text: &'static str,
}

macro_rules! wrongs {
    ($($name:ident = $code:ident $reason:literal $text:literal;)+) => {
        $(#[doc = $text] pub const $name: Wrong = Wrong { code: Code::$code, reason: $reason, text: $text };)+
        /// The names of all of them: the values of the label `reason`.
        pub const H2_REASONS: &[&str] = &[$($reason,)+];
    };
}

wrongs! {
    PREFACE = ProtocolError "preface" "the connection does not begin as HTTP/2 does";
    FIRST_FRAME = ProtocolError "first-frame" "the first frame is not SETTINGS";
    FRAME_SIZE = FrameSizeError "frame-size" "a frame is longer than was allowed, or has not the length of its kind";
    FRAME_STREAM = ProtocolError "frame-stream" "a frame has a stream that its kind cannot have";
    PADDING = ProtocolError "padding" "a frame's padding is as long as the frame, or longer";
    PUSH = ProtocolError "push" "a client cannot push";
    EXPECTED_CONTINUATION = ProtocolError "expected-continuation" "a header block was interrupted";
    CONTINUATION = ProtocolError "continuation" "a CONTINUATION continues nothing";
    SETTING = ProtocolError "setting" "a setting has a value that it cannot have";
    WINDOW_SETTING = FlowControlError "window-setting" "a window is larger than 2^31-1";
    WINDOW_ZERO = ProtocolError "window-zero" "a window is to grow by nothing";
    WINDOW_OVERFLOW = FlowControlError "window-overflow" "a window would be larger than 2^31-1";
    STREAM_WINDOW = FlowControlError "stream-window" "more was sent than the stream's window allows";
    CONNECTION_WINDOW = FlowControlError "connection-window" "more was sent than the connection's window allows";
    IDLE_STREAM = ProtocolError "idle-stream" "a frame is for a stream that has not begun";
    STREAM_NUMBER = ProtocolError "stream-number" "a stream's number is even, or lower than that of one before";
    STREAM_CLOSED = StreamClosed "stream-closed" "a frame is for a stream that its sender has ended";
    SELF_DEPENDENCY = ProtocolError "self-dependency" "a stream depends on itself";
    COMPRESSION = CompressionError "compression" "a header block cannot be decoded";
    BLOCK_TOO_LARGE = EnhanceYourCalm "block-too-large" "a header block is too long";
    CONTINUATIONS = EnhanceYourCalm "continuations" "a header block has too many frames";
    GLITCHES = EnhanceYourCalm "glitches" "too many frames that serve no request";
    CONTROL_QUEUE = EnhanceYourCalm "control-queue" "too many answers wait to be read";
    TOO_MANY_STREAMS = RefusedStream "too-many-streams" "too many streams are open";
    HEADS_TOO_LARGE = RefusedStream "heads-too-large" "the heads of open streams are too large together";
    FIELD = ProtocolError "field" "a field name is no lower-case token, or a value has characters that it cannot have";
    CONNECTION_FIELD = ProtocolError "connection-field" "a field is about the connection, which HTTP/2 has other words for";
    PSEUDO_FIELD = ProtocolError "pseudo-field" "a pseudo-header is unknown, missing, there twice, or behind a header";
    PSEUDO_VALUE = ProtocolError "pseudo-value" "a pseudo-header has a value that it cannot have";
    AUTHORITY = ProtocolError "authority" "host and :authority differ";
    BODY_LENGTH = ProtocolError "body-length" "content-length is not the length of the content";
    TRAILERS = ProtocolError "trailers" "the fields behind the content are malformed, or do not end it";
    HEAD_TOO_SLOW = EnhanceYourCalm "frame-too-slow" "a frame or a header block took too long";
    SETTINGS_TIMEOUT = SettingsTimeout "settings-timeout" "the settings were not acknowledged";
    IDLE = NoError "idle" "nothing was asked for too long";
    GOING = NoError "going" "the server is stopping";
}

impl Wrong {
    /// Its place in [`H2_REASONS`].
    pub fn index(&self) -> usize {
        H2_REASONS.iter().position(|reason| *reason == self.reason).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_one_name() {
        let mut names = H2_REASONS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), H2_REASONS.len());
    }
    #[test]
    fn limits_name_reasons_that_exist() {
        let named: Vec<&str> = crate::limits::TABLE
            .iter()
            .filter_map(|row| row.counter.strip_prefix("h2_faults{reason=\"")?.strip_suffix("\"}"))
            .collect();
        assert!(named.len() > 10, "{named:?}");
        assert!(named.iter().all(|name| H2_REASONS.contains(name)), "{named:?}");
    }
}
