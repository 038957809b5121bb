//! Sending a reply: its body whole or in parts, and waiting where its reader is slower than the bound allows.
//!
//! Knows: what must be borrowed, and that nothing is while it waits. Does not know: what the application has
//! returned (`iterate.rs`), or framing. Runs on whichever thread writes.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use reactor::sys::{monotonic_ms, monotonic_ns};
use server::engine::Stage;
use server::exchange::Gone;
use wire::Millis;

use super::reply::{Failure, Reply, over};
use super::wait_mode::WaitMode;
use crate::ffi::{KEEP_BYTES, KeptBytes, outside};

/// How often a thread that waits for a slow reader looks whether its request still lives, in
/// milliseconds.
const LOOK_MS: Millis = 1000;

/// The whole body as one bytes object.
#[inline]
pub fn send_whole(
    py: Python<'_>,
    reply: &Reply,
    only: &Bound<'_, PyAny>,
    bytes: &[u8],
) -> Result<(), Failure> {
    let Some(mut draft) = reply.draft.borrow(py) else { return Err(written_elsewhere()) };
    if !draft.started {
        return Err(never_started());
    }
    let builder = &mut draft.builder;
    let engine = &reply.engine;
    let sent = reply.exchange.with(py, |exchange| {
        if !exchange.is_unanswered() {
            return Ok(Sent::Begun);
        }
        match only.cast_exact::<PyBytes>() {
            Ok(kept) if bytes.len() >= KEEP_BYTES => {
                exchange.whole_kept(builder, KeptBytes::boxed(kept), engine)
            }
            _ => exchange.whole(builder, bytes, engine),
        }?;
        Ok::<_, Gone>(if exchange.may_be_left(engine) { Sent::All } else { Sent::Kept })
    });
    drop(draft);
    match sent.ok_or_else(written_elsewhere)?? {
        Sent::All => Ok(()),
        Sent::Kept => wait_until_kept(py, reply),
        Sent::Begun => {
            send_part(py, reply, only, bytes)?;
            finish(py, reply)
        }
    }
}

/// What has become of a body that is whole.
enum Sent {
    /// It is sent, or may wait for its peer.
    All,
    /// More is kept for slow readers than may be.
    Kept,
    /// Nothing: `write` has begun the reply, of which it is another part.
    Begun,
}

/// Sends one part of a body that `write` was given, and waits where the peer is slower than the bound allows.
pub fn send_part(
    py: Python<'_>,
    reply: &Reply,
    part: &Bound<'_, PyAny>,
    bytes: &[u8],
) -> Result<(), Failure> {
    if add_part(py, reply, part, bytes)? { Ok(()) } else { wait_for_reader(py, reply) }
}

/// Sends one part of a body, or queues what the peer does not take of it. False: the peer is slower than the bound allows,
/// and whoever writes has to wait ([`wait_for_reader`]), who need not hold the part meanwhile.
pub fn add_part(
    py: Python<'_>,
    reply: &Reply,
    part: &Bound<'_, PyAny>,
    bytes: &[u8],
) -> Result<bool, Failure> {
    if bytes.is_empty() {
        // The head waits for the first part that has content (PEP 3333), and can be replaced.
        return Ok(true);
    }
    let Some(mut draft) = reply.draft.borrow(py) else { return Err(written_elsewhere()) };
    if !draft.started {
        return Err(never_started());
    }
    let builder = &mut draft.builder;
    let engine = &reply.engine;
    let has_room = reply.exchange.with(py, |exchange| {
        if exchange.is_unanswered() {
            exchange.start(builder, None, engine);
        }
        match part.cast_exact::<PyBytes>() {
            Ok(kept) if bytes.len() >= KEEP_BYTES => {
                exchange.write_kept(builder, KeptBytes::boxed(kept), engine)?;
            }
            _ => exchange.write(builder, bytes, engine)?,
        }
        Ok::<_, Gone>(exchange.has_room(engine))
    });
    Ok(has_room.ok_or_else(over)??)
}

/// More waits for the peer than is allowed: whoever writes waits, too, with nothing borrowed: whoever holds `write` may be
/// another thread, and the request may end meanwhile.
#[cold]
pub fn wait_for_reader(py: Python<'_>, reply: &Reply) -> Result<(), Failure> {
    reply.engine.counters.reply_waits.add();
    wait_for_room(py, reply)
}

/// Ends a body that was sent in parts.
pub fn finish(py: Python<'_>, reply: &Reply) -> Result<(), Failure> {
    let Some(mut draft) = reply.draft.borrow(py) else { return Err(written_elsewhere()) };
    if !draft.started {
        return Err(never_started());
    }
    let builder = &mut draft.builder;
    let sent = reply.exchange.with(py, |exchange| {
        if exchange.is_unanswered() {
            return exchange.whole(builder, b"", &reply.engine);
        }
        exchange.finish(builder, &reply.engine)
    });
    Ok(sent.ok_or_else(written_elsewhere)??)
}

/// A reply is complete, and more is kept for slow readers than may be: a thread waits for its
/// own; a hub cannot wait for each of its greenlets, and the loop ends readers.
#[cold]
fn wait_until_kept(py: Python<'_>, reply: &Reply) -> Result<(), Failure> {
    let WaitMode::Blocking = reply.mode else { return Ok(()) };
    reply.engine.counters.kept_waits.add();
    wait_for_room(py, reply)
}

/// Waits until no more waits for the peer than is allowed. Nothing is borrowed while it
/// waits, so that the request can end meanwhile.
#[cold]
fn wait_for_room(py: Python<'_>, reply: &Reply) -> Result<(), Failure> {
    let since = monotonic_ns();
    let result = wait_until_there_is_room(py, reply);
    // None: the request has ended meanwhile.
    reply.exchange.with(py, |exchange| exchange.was_held_up(since));
    result
}

fn wait_until_there_is_room(py: Python<'_>, reply: &Reply) -> Result<(), Failure> {
    let engine = &*reply.engine;
    let mut begun = false;
    loop {
        let waits = reply.exchange.with(py, |exchange| {
            if !std::mem::replace(&mut begun, true)
                && let WaitMode::Cooperative(scheduler) = &reply.mode
            {
                scheduler.watch(py, exchange);
            }
            let room = exchange.room();
            exchange.push(engine)?;
            if exchange.has_room(engine) || exchange.may_be_left(engine) {
                return Ok(None);
            }
            if engine.stage() == Stage::Aborting {
                return Err(exchange.give_up(engine));
            }
            // No edge will tell of a socket that takes more.
            let until = if exchange.awaits_edge() { exchange.send_until() } else { 0 };
            Ok(Some((room, exchange.token(), until)))
        });
        // None: the request has ended meanwhile.
        let Some((room, token, until)) = waits.ok_or_else(over)?? else { return Ok(()) };
        match &reply.mode {
            WaitMode::Blocking => {
                let patience = until.saturating_sub(monotonic_ms()).clamp(1, LOOK_MS);
                outside(|may_wait| room.wait(patience, may_wait));
            }
            WaitMode::Cooperative(scheduler) => {
                drop(room);
                scheduler.suspend(py, token, until)?;
            }
        }
    }
}

/// A copy of what is no bytes object and holds bytes all the same, as bytearray and memoryview
/// do; none where it does not. PEP 3333 wants bytes, and servers before us took these.
pub fn copied<'py>(part: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    match PyBuffer::<u8>::get(part) {
        Ok(buffer) => Ok(Some(PyBytes::new(part.py(), &buffer.to_vec(part.py())?))),
        Err(_) => Ok(None),
    }
}

fn never_started() -> Failure {
    Failure::Wrong("the application gave a body without calling start_response first (PEP 3333)".into())
}

fn written_elsewhere() -> Failure {
    Failure::Wrong("the response is being written by another thread at the same time".into())
}
