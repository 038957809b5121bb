//! The header section (RFC 9112 §5, RFC 9110 §5): lines into fields, fields into facts.
//!
//! Knows: what each header means for framing. Does not know: the request line, so that a
//! block can be shared between requests of different paths and versions. Pure.

use std::sync::{Arc, OnceLock};

use crate::block::{Block, Facts, Field};
use crate::bytes::{decimal, is_token, is_value, trim_ows};
use crate::fault::{self, Fault};
use crate::found_out::FoundOut;
use crate::policy::{Policy, Underscore};
use crate::request_line::is_authority;
use crate::trust::Forwarding;

/// Parses a section that ends in its empty line; line endings have been judged already.
///
/// # Errors
/// The refusal for the first thing that is wrong.
pub fn parse(raw: &[u8], variant: u32, policy: &Policy) -> Result<Arc<Block>, Fault> {
    let unfolded = if policy.obs_fold { unfold(raw)? } else { None };
    let text = unfolded.as_deref().unwrap_or(raw);
    let mut fields = Vec::with_capacity(24);
    let mut facts = Facts::default();
    let mut at = 0;
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |found| at + found);
        let line = &text[at..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        if let Some(field) = field(line, at, policy)? {
            note(&mut facts, &text[range(field.name)], &text[range(field.value)], policy)?;
            fields.push(field);
        }
        at = end + 1;
    }
    judge(&mut facts)?;
    Ok(Arc::new(Block {
        raw: raw.into(),
        fields: fields.into_boxed_slice(),
        facts,
        variant,
        attachment: OnceLock::new(),
        found_out: FoundOut::default(),
        unfolded: unfolded.map(Vec::into_boxed_slice),
    }))
}

fn range((from, to): (u32, u32)) -> std::ops::Range<usize> {
    from as usize..to as usize
}

/// RFC 9112 §5.2: each fold becomes blanks. None where nothing is folded.
fn unfold(raw: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    if matches!(raw.first(), Some(b' ' | b'\t')) {
        return Err(fault::OBS_FOLD);
    }
    let mut copy: Option<Vec<u8>> = None;
    for at in memchr::memchr_iter(b'\n', raw) {
        if matches!(raw.get(at + 1), Some(b' ' | b'\t')) {
            let copy = copy.get_or_insert_with(|| raw.to_vec());
            copy[at] = b' ';
            if at > 0 && raw[at - 1] == b'\r' {
                copy[at - 1] = b' ';
            }
        }
    }
    Ok(copy)
}

/// One line: `name ":" OWS value OWS`. None for a name that is dropped.
fn field(line: &[u8], at: usize, policy: &Policy) -> Result<Option<Field>, Fault> {
    if matches!(line[0], b' ' | b'\t') {
        return Err(fault::OBS_FOLD);
    }
    // §5.1: no white space before the colon, which is no token character.
    let colon = memchr::memchr(b':', line).ok_or(fault::FIELD_NAME)?;
    let name = &line[..colon];
    if !is_token(name) {
        return Err(fault::FIELD_NAME);
    }
    let rest = &line[colon + 1..];
    let allowed = |byte: &u8| !matches!(byte, 0 | b'\r' | b'\n');
    if !(is_value(rest) || policy.control_chars && rest.iter().all(allowed)) {
        return Err(fault::FIELD_VALUE);
    }
    if policy.underscore != Underscore::Keep && name.contains(&b'_') {
        return if policy.underscore == Underscore::Refuse { Err(fault::UNDERSCORE) } else { Ok(None) };
    }
    let value = trim_ows(rest);
    // Sections are bounded far below 2³² bytes by the limit `header_bytes`.
    let from = at + colon + 1 + (value.as_ptr() as usize - rest.as_ptr() as usize);
    Ok(Some(Field {
        name: (at as u32, (at + colon) as u32),
        value: (from as u32, (from + value.len()) as u32),
    }))
}

fn is(name: &[u8], wanted: &str) -> bool {
    name.eq_ignore_ascii_case(wanted.as_bytes())
}

/// Notes what one field means.
fn note(facts: &mut Facts, name: &[u8], value: &[u8], policy: &Policy) -> Result<(), Fault> {
    // Few lengths matter; most fields end here.
    match name.len() {
        4 if is(name, "host") => {
            facts.hosts = facts.hosts.saturating_add(1);
            // A port alone names no host either (RFC 9110 §4.2.1).
            facts.host_empty = value.is_empty() || value.starts_with(b":");
            match facts.hosts {
                1 if is_authority(value) => {}
                1 => return Err(fault::BAD_HOST),
                _ => return Err(fault::TWO_HOSTS),
            }
        }
        6 if is(name, "expect") => {
            // RFC 9110 §10.1.1: the one expectation that is defined.
            if value.eq_ignore_ascii_case(b"100-continue") {
                facts.expect_continue = true;
            } else {
                facts.expect_unknown = true;
            }
        }
        10 if is(name, "connection") => connection(facts, value),
        10 if is(name, "tracestate") => facts.trace_state = true,
        11 if is(name, "traceparent") => facts.trace_parent = true,
        12 if is(name, "content-type") => {
            facts.content_types = facts.content_types.saturating_add(1);
            if facts.content_types > 1 {
                return Err(fault::TWO_CONTENT_TYPES);
            }
        }
        13 if is(name, "x-queue-start") => facts.request_start = true,
        14 if is(name, "content-length") => return length(facts, value, policy),
        15 if is(name, "x-request-start") => facts.request_start = true,
        17 if is(name, "transfer-encoding") => return codings(facts, value, policy),
        _ => {}
    }
    if matches!(name.len(), 9 | 11..=20) && Forwarding::of(name).is_some() {
        facts.forwarding = true;
    }
    Ok(())
}

/// The members of a list, empty ones too.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim_ows)
}

fn connection(facts: &mut Facts, value: &[u8]) {
    facts.keep_alive = Some(facts.keep_alive.is_none() && value.eq_ignore_ascii_case(b"keep-alive"));
    facts.close |= members(value).any(|member| member.eq_ignore_ascii_case(b"close"));
}

/// RFC 9112 §6.3: one number; a list of equal ones only where the policy says so.
fn length(facts: &mut Facts, value: &[u8], policy: &Policy) -> Result<(), Fault> {
    let mut seen = 0;
    for member in members(value) {
        seen += 1;
        let number = decimal(member).ok_or(fault::LENGTH)?;
        match facts.length {
            None => facts.length = Some(number),
            Some(before) if before == number && policy.duplicate_content_length => {}
            Some(_) => return Err(fault::TWO_LENGTHS),
        }
    }
    if seen == 0 { Err(fault::LENGTH) } else { Ok(()) }
}

/// RFC 9112 §6.1: the codings that were applied, in order; here only `chunked`, once.
fn codings(facts: &mut Facts, value: &[u8], policy: &Policy) -> Result<(), Fault> {
    facts.te_lines = facts.te_lines.saturating_add(1);
    for member in members(value) {
        if member.is_empty() && policy.empty_te_members {
            continue;
        }
        // A coding with parameters or quotes is not the token that frames a message.
        if !is_token(member) {
            return Err(fault::TRANSFER_ENCODING);
        }
        let found = &mut facts.codings;
        found.last_is_chunked = member.eq_ignore_ascii_case(b"chunked");
        let counter = if found.last_is_chunked { &mut found.chunked } else { &mut found.others };
        *counter = counter.saturating_add(1);
    }
    Ok(())
}

/// What only the whole section shows.
fn judge(facts: &mut Facts) -> Result<(), Fault> {
    if facts.te_lines == 0 {
        return Ok(());
    }
    let codings = &facts.codings;
    if facts.length.is_some() && codings.chunked > 0 {
        // RFC 9112 §6.1: the classic way to smuggle a request.
        return Err(fault::LENGTH_AND_CHUNKED);
    }
    match (codings.chunked, codings.others) {
        (1, 0) => facts.chunked = true,
        // §6.3: chunked that is not last leaves no way to tell where the body ends.
        (1, _) if !codings.last_is_chunked => return Err(fault::TRANSFER_ENCODING),
        (0 | 1, 1..) => return Err(fault::UNKNOWN_CODING),
        // §6.1: chunked must not be applied twice; an empty list names no coding.
        _ => return Err(fault::TRANSFER_ENCODING),
    }
    Ok(())
}
