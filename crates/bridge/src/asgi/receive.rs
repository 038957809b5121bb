//! `receive`: a request's body as it comes, then the news that the client has left.
//!
//! Knows: ASGI, "Request - receive event" and "Disconnect - receive event". Does not know:
//! framing. Runs on the event loop's thread.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use server::body::Body;
use server::engine::Engine;
use server::incoming::{Arrival, BodyError};

use super::awaitable::Attempt;
use super::reply::Http;
use super::shared::Shared;
use crate::ffi::{copy_dict, set_item};

/// The largest part of a body that one event brings.
const PART: usize = 64 * 1024;

/// What a look at the body brought.
enum Part {
    Bytes {
        bytes: Vec<u8>,
        last: bool,
    },
    Wait {
        until: wire::Millis,
    },
    /// The peer left or broke the rules before the body was complete.
    Lost(Option<wire::Fault>),
}

impl Http {
    /// The next event, if there is one.
    pub fn next_event(&mut self, shared: &Shared, py: Python<'_>) -> PyResult<Attempt> {
        if !self.body_is_over {
            return match self.next_part() {
                Part::Bytes { bytes, last } => {
                    self.body_is_over = last;
                    if last {
                        self.exchange.body_is_over();
                    }
                    Ok(Attempt::Ready(request_event(shared, py, &bytes, !last)?))
                }
                Part::Wait { until } => {
                    shared.event_loop.wake_at(py, self.exchange.token(), until);
                    Ok(Attempt::Wait)
                }
                Part::Lost(fault) => {
                    self.body_is_over = true;
                    self.lost(&shared.engine, fault);
                    Ok(Attempt::Ready(disconnect(shared, py)?))
                }
            };
        }
        if self.peer_left || self.exchange.is_broken() || self.exchange.peer_has_left() {
            self.peer_left = true;
            return Ok(Attempt::Ready(disconnect(shared, py)?));
        }
        Ok(Attempt::Wait)
    }

    fn next_part(&mut self) -> Part {
        match &mut self.exchange.body {
            Body::Empty => Part::Bytes { bytes: Vec::new(), last: true },
            Body::Memory(received) => {
                let bytes = std::mem::take(&mut received.bytes);
                self.exchange.body = Body::Empty;
                Part::Bytes { bytes, last: true }
            }
            // An engine under an event loop gives what it does not have whole to the application as
            // it comes, and writes no files: nothing here waits for a disk.
            Body::File(_) => Part::Lost(Some(wire::NO_STORAGE)),
            Body::Stream(incoming) => {
                let mut bytes = Vec::new();
                match incoming.try_read(&mut bytes, PART) {
                    Ok(Arrival::Some { last }) => Part::Bytes { bytes, last },
                    Ok(Arrival::None { until }) => Part::Wait { until },
                    Err(BodyError::Fault(fault)) => Part::Lost(Some(fault)),
                    Err(BodyError::Incomplete | BodyError::Over | BodyError::Io(_)) => Part::Lost(None),
                }
            }
        }
    }

    /// The body will never be complete: a refusal is told to the peer, if it can be.
    fn lost(&mut self, engine: &Engine, fault: Option<wire::Fault>) {
        self.peer_left = true;
        match fault {
            Some(fault) => {
                engine.counters.refused(&fault);
                self.exchange.refuse(&fault, &mut self.builder, engine);
            }
            None => {
                engine.counters.requests_incomplete.add();
                self.exchange.lose(engine);
            }
        }
    }
}

fn request_event(shared: &Shared, py: Python<'_>, bytes: &[u8], more: bool) -> PyResult<Py<PyAny>> {
    let event = copy_dict(shared.constants.request_event.bind(py))?;
    if !bytes.is_empty() {
        set_item(&event, intern!(py, "body"), &PyBytes::new(py, bytes))?;
    }
    if more {
        event.set_item(intern!(py, "more_body"), true)?;
    }
    Ok(event.into_any().unbind())
}

/// `http.disconnect`.
pub fn disconnect(shared: &Shared, py: Python<'_>) -> PyResult<Py<PyAny>> {
    Ok(copy_dict(shared.constants.disconnect_event.bind(py))?.into_any().unbind())
}
