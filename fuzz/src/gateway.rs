//! A request means the same over uwsgi, SCGI, FastCGI and HTTP/1; and however what frames it is cut.
//!
//! Knows: how web servers make variables of a request. Does not know: what is right, for which it asks the machine of
//! HTTP/1.

use wire::gateway::{FastCgi, Gateway, GatewayMachine, Given};
use wire::{Event, Framing, Shared};

use crate::mutate::Random;
use crate::transcript::play as play_http;
use crate::{Input, shared};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Uwsgi,
    Scgi,
    FastCgi,
}

const DOORS: [Door; 3] = [Door::Uwsgi, Door::Scgi, Door::FastCgi];

enum Machine {
    Gateway(GatewayMachine),
    FastCgi(Box<FastCgi>),
}

impl Machine {
    fn new(door: Door) -> Self {
        match door {
            Door::Uwsgi => Self::Gateway(GatewayMachine::new(Gateway::Uwsgi, 0, 0)),
            Door::Scgi => Self::Gateway(GatewayMachine::new(Gateway::Scgi, 0, 0)),
            Door::FastCgi => Self::FastCgi(Box::new(FastCgi::new(0, 0))),
        }
    }

    fn advance<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared) -> Event<'a> {
        match self {
            Self::Gateway(one) => one.advance(input, shared, 0),
            Self::FastCgi(one) => one.advance(input, shared, 0),
        }
    }

    fn given(&self) -> Option<&Given> {
        match self {
            Self::Gateway(one) => one.given(),
            Self::FastCgi(one) => one.given(),
        }
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The target.
pub fn gateway(bytes: &[u8]) {
    let Some(input) = Input::new(bytes) else { return };
    // Which lines and names the policy lets through differs by design: strict rules, two sizes of limits.
    let rules = input.rules & 2;
    let mut random = Random::new(u64::from(input.cuts) << 8 | u64::from(input.rules));
    let request = Request::new(input.sent, &mut random);
    let through_http = request.over_http(rules);
    for door in DOORS {
        let mut sent = request.over(door);
        let found = agreed(door, rules, &sent, &mut random);
        // A NUL ends a name or a value of SCGI: there it makes other variables.
        // FastCGI ends a body by itself, so that a length that differs from it is wrong; elsewhere the length ends it.
        let comparable = match door {
            Door::Uwsgi => true,
            Door::Scgi => !request.has_nul(),
            Door::FastCgi => {
                request.length.is_empty() || request.length == request.body.len().to_string().as_bytes()
            }
        };
        if comparable {
            compare(&found, &through_http, &sent);
        }
        // What is broken is refused or means something, the same however it is cut.
        if !sent.is_empty() {
            for _ in 0..=random.below(3) {
                let at = random.below(sent.len());
                sent[at] = random.number() as u8;
            }
            agreed(door, rules, &sent, &mut random);
        }
    }
    for door in DOORS {
        agreed(door, rules, input.sent, &mut random);
    }
    converse(&request, input.sent, rules, &mut random);
}

/// A connection of FastCGI that is kept: what is asked on it, in whatever order, and what the protocol answers by itself,
/// is the same however its bytes are cut; and a request that others have gone before means what it means alone.
fn converse(request: &Request, noise: &[u8], rules: u8, random: &mut Random) {
    let alone = play(Door::FastCgi, &mut shared(rules), [&request.over(Door::FastCgi)[..]]);
    let mut sent = Vec::new();
    let mut undisturbed = true;
    for _ in 0..=random.below(4) {
        match random.below(6) {
            0 => sent.extend(management(9, &[15, 0], b"FCGI_MPXS_CONNS")),
            1 => sent.extend(management(random.below(256) as u8, &[], noise.get(..200).unwrap_or(noise))),
            // Another role, or a request that is given up at once.
            2 => sent.extend([record(1, &[0, 2, 1, 0, 0, 0, 0, 0]), record(2, &[])].concat()),
            3 => sent.extend([record(1, &[0, 1, 1, 0, 0, 0, 0, 0]), record(2, &[])].concat()),
            _ => {}
        }
        let mut one = request.over(Door::FastCgi);
        one[10] = 1;
        sent.extend(one);
    }
    if random.below(3) == 0 {
        let at = random.below(sent.len());
        sent[at] = random.number() as u8;
        undisturbed = false;
    }
    let single = conversation(&mut shared(rules), sent.chunks(1));
    // How much is answered before it is taken is bounded: of as much as this, how it comes decides.
    if single.output.len() as u64 > shared(rules).limits.header_bytes {
        return;
    }
    let whole = conversation(&mut shared(rules), [&sent[..]]);
    assert_eq!(single, whole, "byte by byte: {}", sent.escape_ascii());
    let (first, second) = sent.split_at(random.below(sent.len() + 1));
    assert_eq!(conversation(&mut shared(rules), [first, second]), whole, "{}", sent.escape_ascii());
    // Management records of a kind that there is and that no web server sends are refused, and end it.
    if undisturbed && !whole.refused {
        for found in &whole.requests {
            assert_eq!(found, &alone, "{}", sent.escape_ascii());
        }
    }
}

fn management(kind: u8, lengths: &[u8], content: &[u8]) -> Vec<u8> {
    let content = [lengths, content].concat();
    [&[1, kind, 0, 0][..], &(content.len() as u16).to_be_bytes(), &[0, 0], &content].concat()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Conversation {
    requests: Vec<Found>,
    output: Vec<u8>,
    refused: bool,
}

/// Each request is answered when it is complete.
fn conversation<'a>(shared: &mut Shared, parts: impl IntoIterator<Item = &'a [u8]>) -> Conversation {
    let (mut machine, mut all) = (FastCgi::new(0, 0), Conversation::default());
    let own = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    for part in parts {
        let mut input = part;
        loop {
            let event = machine.advance(&mut input, shared, 0);
            all.output.extend(machine.take_output());
            match event {
                Event::NeedMore => break,
                Event::Request(head) => all.requests.push(Found {
                    line: Some(head.request_line().to_vec()),
                    fields: head.block.fields().map(own).collect(),
                    given: machine.given().expect("what was given").variables().map(own).collect(),
                    complete: matches!(head.framing, Framing::None | Framing::Length(0)),
                    ..Found::default()
                }),
                Event::Body(data) => last(&mut all).body.extend(data),
                Event::End => last(&mut all).complete = true,
                Event::Fault(fault) => {
                    all.refused = true;
                    if let Some(found) = all.requests.last_mut().filter(|found| !found.complete) {
                        found.refused = Some(fault.reason);
                    }
                    return all;
                }
            }
            if all.requests.last().is_some_and(|found| found.complete) {
                machine.answered(0);
                assert!(machine.given().is_none() || machine.is_over(), "it is left to the next one");
            }
        }
        assert!(input.is_empty(), "input was left over");
    }
    all
}

fn last(all: &mut Conversation) -> &mut Found {
    all.requests.last_mut().expect("a request before its body")
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    line: Option<Vec<u8>>,
    fields: Pairs,
    given: Pairs,
    body: Vec<u8>,
    complete: bool,
    refused: Option<&'static str>,
}

/// What all ways of cutting the bytes have come to.
fn agreed(door: Door, rules: u8, sent: &[u8], random: &mut Random) -> Found {
    let whole = play(door, &mut shared(rules), [sent]);
    let single = play(door, &mut shared(rules), sent.chunks(1));
    assert_eq!(single, whole, "{door:?} byte by byte: {}", sent.escape_ascii());
    let (first, second) = sent.split_at(random.below(sent.len() + 1));
    let mut warm = shared(rules);
    for _ in 0..2 {
        let cut = play(door, &mut warm, [first, second]);
        assert_eq!(cut, whole, "{door:?} cut behind {}: {}", first.len(), sent.escape_ascii());
    }
    assert_eq!(play(door, &mut warm, [sent]), whole, "{door:?} once more: {}", sent.escape_ascii());
    whole
}

fn play<'a>(door: Door, shared: &mut Shared, parts: impl IntoIterator<Item = &'a [u8]>) -> Found {
    let mut machine = Machine::new(door);
    let mut found = Found::default();
    let own = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    for part in parts {
        let mut input = part;
        for calls in 0.. {
            assert!(calls <= 3 * part.len() + 4, "no progress");
            match machine.advance(&mut input, shared) {
                Event::NeedMore => break,
                Event::Request(head) => {
                    assert!(found.line.is_none() && !head.persistent && !head.expects_continue);
                    let given = machine.given().expect("what was given");
                    let bad = |name: &[u8]| {
                        name.starts_with(b"HTTP_") || name.starts_with(b"UWSGI_") || name.contains(&b'.')
                    };
                    assert!(!given.variables().any(|(name, _)| bad(name)), "a name got through");
                    found.line = Some(head.request_line().to_vec());
                    found.fields = head.block.fields().map(own).collect();
                    found.given = given.variables().map(own).collect();
                    found.complete = matches!(head.framing, Framing::None | Framing::Length(0));
                    // Together they are the whole path, whatever is asked.
                    for prefix in [&b""[..], b"/", b"/app"] {
                        let paths = given.paths(prefix, head.path());
                        assert!(!paths.script_name.ends_with(b"/"), "{paths:?}");
                    }
                }
                Event::Body(data) => found.body.extend(data),
                Event::End => found.complete = true,
                Event::Fault(fault) => return Found { refused: Some(fault.reason), ..found },
            }
        }
        assert!(input.is_empty(), "input was left over");
    }
    found
}

/// A request before it is framed. Its body has the length that is told, or less.
struct Request {
    method: Vec<u8>,
    target: Vec<u8>,
    fields: Pairs,
    length: Vec<u8>,
    body: Vec<u8>,
}

impl Request {
    fn new(mut sent: &[u8], random: &mut Random) -> Self {
        let mut piece = |random: &mut Random, most: usize| {
            let (piece, rest) = sent.split_at(random.below(most).min(sent.len()));
            sent = rest;
            piece.to_vec()
        };
        let method = match random.below(6) {
            0 => piece(random, 6),
            at => [&b"GET"[..], b"POST", b"HEAD", b"OPTIONS", b"TRACE"][at - 1].to_vec(),
        };
        let target = match random.below(3) {
            0 => piece(random, 12),
            _ => [b"/", &piece(random, 8)[..]].concat(),
        };
        let mut fields = vec![(b"HOST".to_vec(), b"h".to_vec())];
        for _ in 0..random.below(5) {
            let names = [&b"X_A"[..], b"ACCEPT", b"COOKIE", b"HOST", b"X_FORWARDED_FOR", b"B"];
            fields.push((names[random.below(names.len())].to_vec(), piece(random, 10)));
        }
        let body = piece(random, 12);
        let length = match random.below(4) {
            0 => Vec::new(),
            1 => piece(random, 4),
            _ => body.len().to_string().into_bytes(),
        };
        Self { method, target, fields, length, body }
    }

    fn has_nul(&self) -> bool {
        let mut parts = [&self.method, &self.target, &self.length]
            .into_iter()
            .chain(self.fields.iter().map(|pair| &pair.1));
        parts.any(|part| part.contains(&0))
    }

    fn over(&self, door: Door) -> Vec<u8> {
        let length = if self.length.is_empty() && door == Door::Scgi { b"0" } else { &self.length[..] };
        let mut texts: Vec<&[u8]> = vec![b"CONTENT_LENGTH", length];
        if door == Door::Scgi {
            texts.extend([&b"SCGI"[..], b"1"]);
        }
        texts.extend([&b"REQUEST_METHOD"[..], &self.method, b"REQUEST_URI", &self.target]);
        let named: Vec<_> =
            self.fields.iter().map(|(name, value)| ([b"HTTP_", &name[..]].concat(), value)).collect();
        texts.extend(named.iter().flat_map(|(name, value)| [&name[..], &value[..]]));
        let body = if self.length.is_empty() { &[] } else { &self.body[..] };
        match door {
            Door::Uwsgi => {
                let length = |text: &&[u8]| (text.len() as u16).to_le_bytes();
                let packed: Vec<u8> =
                    texts.iter().flat_map(|text| [&length(text)[..], text].concat()).collect();
                [&[0][..], &(packed.len() as u16).to_le_bytes(), &[0], &packed, body].concat()
            }
            Door::FastCgi => {
                let length = |text: &[u8]| (text.len() as u32 | 1 << 31).to_be_bytes();
                let pair =
                    |pair: &[&[u8]]| [&length(pair[0])[..], &length(pair[1]), pair[0], pair[1]].concat();
                let packed: Vec<u8> = texts.chunks(2).flat_map(pair).collect();
                let mut sent = record(1, &[0, 1, 0, 0, 0, 0, 0, 0]);
                sent.extend([record(4, &packed), record(4, b""), record(5, body)].concat());
                if !body.is_empty() {
                    sent.extend(record(5, b""));
                }
                sent
            }
            Door::Scgi => {
                let packed: Vec<u8> = texts.iter().flat_map(|text| [text, &b"\0"[..]].concat()).collect();
                [format!("{}:", packed.len()).as_bytes(), &packed, b",", body].concat()
            }
        }
    }

    /// What HTTP/1 makes of it; the reason, where it refuses.
    fn over_http(&self, rules: u8) -> Result<(Vec<u8>, Pairs, Vec<u8>, bool), &'static str> {
        let mut sent = [&self.method[..], b" ", &self.target, b" HTTP/1.1\r\n"].concat();
        for (name, value) in &self.fields {
            let name: Vec<u8> = name
                .iter()
                .map(|byte| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() })
                .collect();
            sent.extend([&name[..], b": ", value, b"\r\n"].concat());
        }
        if !self.length.is_empty() {
            sent.extend([&b"content-length: "[..], &self.length, b"\r\n"].concat());
        }
        sent.extend(b"\r\n");
        if !self.length.is_empty() {
            sent.extend(&self.body);
        }
        let found = play_http(&mut shared(rules), [&sent[..]]);
        match found.messages.into_iter().next() {
            Some(message) => {
                let line = [&message.method[..], b" ", &message.target, b" HTTP/1.1"].concat();
                Ok((line, message.fields, message.body, message.complete))
            }
            None => Err(found.fault.or(found.at_end).map_or("nothing", |fault| fault.reason)),
        }
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[1, kind, 0, 1][..], &(content.len() as u16).to_be_bytes(), &[1, 0], content, &[0]].concat()
}

/// Bytes that a line of HTTP/1 cannot have inside: there they begin another, and a comparison means nothing.
fn compare(found: &Found, through: &Result<(Vec<u8>, Pairs, Vec<u8>, bool), &'static str>, sent: &[u8]) {
    let about = || format!("{found:?}\n{through:?}\n{}", sent.escape_ascii());
    match through {
        // One byte that HTTP/1 takes for the end of a line is refused here, which is as it has to be.
        Ok((line, fields, body, complete)) if found.refused.is_none() => {
            let sorted = |fields: &Pairs| {
                let mut fields: Pairs =
                    fields.iter().filter(|(name, _)| name != b"content-length").cloned().collect();
                fields.sort();
                fields
            };
            assert_eq!(found.line.as_ref(), Some(line), "{}", about());
            assert_eq!(sorted(&found.fields), sorted(fields), "{}", about());
            assert_eq!((&found.body, found.complete), (body, *complete), "{}", about());
        }
        Ok(_) => {
            // What HTTP/1 takes is taken here, unless a line ended inside of it, or it is longer in these frames.
            let odd = sent.iter().any(|byte| b"\r\n\0".contains(byte))
                || found.refused == Some("headers-too-large");
            assert!(odd, "{}", about());
        }
        Err("headers-too-large" | "no-host" | "request-line-too-long" | "not-http" | "tls-on-http") => {}
        Err(_) => assert!(found.refused.is_some(), "{}", about()),
    }
}
