//! Any bytes, in pieces of any size: no panic, and nothing comes out that must not.
//!
//! Knows: what the layers above rely on (a name is a token, a value has no line of its own).
//! Does not know: another parser.

use wire::{DateLine, Framing, Peer, Shared, Trust, effective};

use crate::transcript::{Message, Transcript, play};
use crate::{Input, shared};

/// The target.
pub fn machine(bytes: &[u8]) {
    let Some(input) = Input::new(bytes) else { return };
    let mut shared = shared(input.rules);
    let size = usize::from(input.cuts % 32) * 7 + 1;
    let found = play(&mut shared, input.sent.chunks(size));
    for message in &found.messages {
        judge(message, &shared);
    }
    ends(&found);
    forwarding(&mut shared, input.sent);
}

fn judge(message: &Message, shared: &Shared) {
    let (limits, policy) = (&shared.limits, &shared.policy);
    let token = |text: &[u8]| {
        let mark = |byte: &u8| b"!#$%&'*+-.^_`|~".contains(byte) || byte.is_ascii_alphanumeric();
        !text.is_empty() && text.iter().all(mark)
    };
    assert!(token(&message.method), "{message:?}");
    assert!(message.target.iter().all(|byte| byte.is_ascii_graphic()), "{message:?}");
    assert!(!message.path.is_empty() && !message.path.contains(&b'?'), "{message:?}");
    assert!(message.path[0] == b'/' || message.path == b"*" && message.method == b"OPTIONS", "{message:?}");
    assert!(message.fields.len() as u64 <= limits.header_lines, "{message:?}");
    for (name, value) in &message.fields {
        assert!(token(name), "{message:?}");
        assert!(policy.underscore == wire::Underscore::Keep || !name.contains(&b'_'), "{message:?}");
        assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)), "{message:?}");
        assert!(policy.control_chars || !value.iter().any(|&byte| byte < 32 && byte != 9 || byte == 127));
        let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        assert!(!blank(value.first()) && !blank(value.last()), "a blank was left: {message:?}");
    }
    let length = message.body.len() as u64;
    assert!(length <= limits.body_bytes, "{message:?}");
    match message.framing {
        Framing::None => assert_eq!(length, 0),
        Framing::Length(all) => {
            assert!(length <= all && (length == all) == message.complete, "{message:?}");
        }
        Framing::Chunked => assert!(message.is_11, "HTTP/1.0 has no chunked"),
    }
    assert!(!message.is_11 || message.host.is_some(), "{message:?}");
    let count = |wanted: &str| {
        message.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes())).count()
    };
    assert!(count("host") <= 1 && count("content-type") <= 1, "{message:?}");
    assert!(count("transfer-encoding") == 0 || count("content-length") == 0, "{message:?}");
}

/// How it ended can be told to the peer.
fn ends(found: &Transcript) {
    if let Some(fault) = found.fault.or(found.at_end) {
        assert!((400..=599).contains(&fault.status) && wire::REASONS[fault.index()] == fault.reason);
        let mut reply = Vec::new();
        fault.reply(&DateLine::at(0), b"", false, &mut reply);
        assert!(reply.starts_with(b"HTTP/1.1 ") && reply.ends_with(b"\n"));
    }
}

/// Whatever the forwarding headers say, what comes of it is a host, and a path.
fn forwarding(shared: &mut Shared, sent: &[u8]) {
    let trust = Trust::parse("10.0.0.0/8, ::1, unix").expect("a list");
    let mut machine = wire::Http1::new(1, 0);
    let mut input = sent;
    let wire::Event::Request(head) = machine.advance(&mut input, shared, 0) else { return };
    let Ok(Some(found)) = effective(&head, &Peer::Unix, &trust) else { return };
    let clean = |text: &[u8]| text.iter().all(u8::is_ascii_graphic);
    assert!(found.host.is_none_or(|host| !host.is_empty() && clean(&host)));
    assert!(found.prefix.is_none_or(|path| path.is_empty() || path[0] == b'/' && clean(&path)));
    let nobody = effective(&head, &Peer::Unix, &Trust::none());
    assert!(matches!(nobody, Ok(None)), "nobody is trusted, yet somebody is believed");
}
