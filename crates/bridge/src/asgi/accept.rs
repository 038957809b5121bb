//! What an application sends to a WebSocket, in the order that the specification allows.
//!
//! Knows: ASGI, "Accept", "Send", "Close", and the denial response. Does not know: frames.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use wire::ResponseHead;
use wire::field_text::members;
use wire::ws::{Kind, code};

use super::events::{headers, number, text, wrong};
use super::reply::{Http, Refused, Stage as Reply, header_refused};
use super::shared::Shared;
use super::websocket::{Stage, WebSocket};
use crate::ffi::get_item;

type Taken = Result<(), Refused>;

impl WebSocket {
    /// Takes an event of the application's.
    pub fn take(&mut self, event: &Bound<'_, PyDict>, kind: &str, shared: &Shared) -> Taken {
        let py = event.py();
        match (self.stage, kind) {
            (Stage::Connecting { .. }, "websocket.accept") => self.accept(event, shared),
            (Stage::Connecting { .. }, "websocket.close") => self.refuse(shared, py),
            (Stage::Connecting { .. } | Stage::Denying, kind)
                if kind.starts_with("websocket.http.response.") =>
            {
                self.deny(event, kind.trim_start_matches("websocket."), shared)
            }
            (Stage::Open, "websocket.send") => self.message(event, shared),
            (Stage::Open, "websocket.close") => {
                let (code, reason) = closing(event)?;
                self.by_us = true;
                self.close(code, &reason, shared, py);
                Ok(())
            }
            // Its client has left: what would have been right to send is nobody's fault.
            (
                Stage::Closing | Stage::Over,
                "websocket.accept"
                | "websocket.send"
                | "websocket.close"
                | "websocket.http.response.start"
                | "websocket.http.response.body",
            ) if !self.by_us => Err(Refused::Gone),
            (stage, kind) => Err(out_of_order(stage, self.by_us, kind).into()),
        }
    }

    fn accept(&mut self, event: &Bound<'_, PyDict>, shared: &Shared) -> Taken {
        let subprotocol = text(event, "subprotocol")?;
        if let Some(wanted) = &subprotocol
            && !self.offers(wanted)
        {
            let message = format!("subprotocol '{}' was not offered by the client", wanted.escape_debug());
            return Err(PyValueError::new_err(message).into());
        }
        let config = &shared.engine.config;
        let (mut more, mut is_named) = (ResponseHead::new(), config.request_id.is_none());
        headers(event, |name, value| {
            is_named |=
                config.request_id.as_ref().is_some_and(|ids| name.eq_ignore_ascii_case(ids.name.as_bytes()));
            // What the handshake itself says is ours.
            if name.len() >= 14 && name[..14].eq_ignore_ascii_case(b"sec-websocket-") {
                return Err(header_refused(name, value, wire::HeadError::Name));
            }
            more.field(name, value).map_err(|error| header_refused(name, value, error))
        })?;
        if let (Some(exchange), Some(ids), false) = (&self.exchange, &config.request_id, is_named)
            && let Some(id) = exchange.id(config)
        {
            more.own(ids.header.as_bytes(), id.as_bytes());
        }
        let mut head = self.handshake.answer(subprotocol.as_deref());
        head.extend_from_slice(more.bytes());
        let name = &shared.engine.config.server_header;
        if !name.is_empty() {
            head.extend_from_slice(&[b"Server: ", name.as_slice(), b"\r\n"].concat());
        }
        head.extend_from_slice(b"\r\n");
        if self.open(&head, shared, event.py()) { Ok(()) } else { Err(Refused::Gone) }
    }

    fn offers(&self, wanted: &str) -> bool {
        let Some(exchange) = &self.exchange else { return true };
        exchange
            .head
            .block
            .fields()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"sec-websocket-protocol"))
            .any(|(_, value)| members(value).any(|member| member == wanted.as_bytes()))
    }

    /// "Returning HTTP status code 403 if the connection is denied."
    fn refuse(&mut self, shared: &Shared, py: Python<'_>) -> Taken {
        let Some(exchange) = self.exchange.take() else { return Err(Refused::Gone) };
        let mut http = Http::new(exchange, shared.builder(py));
        let event = PyDict::new(py);
        event.set_item("status", 403)?;
        self.by_us = true;
        http.take(&event, "http.response.start", &shared.engine)?;
        http.take(&event, "http.response.body", &shared.engine)?;
        self.denied(Box::new(http));
        Ok(())
    }

    fn deny(&mut self, event: &Bound<'_, PyDict>, kind: &str, shared: &Shared) -> Taken {
        let py = event.py();
        let mut http = match (self.denial.take(), self.exchange.take()) {
            (Some(http), _) => http,
            (None, Some(exchange)) => Box::new(Http::new(exchange, shared.builder(py))),
            (None, None) => return Err(Refused::Gone),
        };
        self.stage = Stage::Denying;
        let taken = http.take(event, kind, &shared.engine);
        if http.stage == Reply::Over || http.exchange.is_over() {
            self.by_us = true;
            self.denied(http);
        } else {
            self.denial = Some(http);
        }
        taken
    }

    /// The reply that denies it is complete.
    fn denied(&mut self, http: Box<Http>) {
        self.stage = Stage::Over;
        self.ended.get_or_insert_with(|| wire::ws::Closing { code: code::ABNORMAL, reason: "".into() });
        self.denial = Some(http);
    }

    fn message(&mut self, event: &Bound<'_, PyDict>, shared: &Shared) -> Taken {
        let py = event.py();
        let given = |key| -> PyResult<Option<Bound<'_, PyAny>>> {
            Ok(get_item(event, key)?.filter(|found| !found.is_none()))
        };
        match (given(intern!(py, "bytes"))?, given(intern!(py, "text"))?) {
            (Some(bytes), None) => match bytes.cast::<PyBytes>() {
                Ok(bytes) => self.send(Kind::Binary, bytes.as_bytes(), shared, py),
                Err(_) => {
                    let buffer = pyo3::buffer::PyBuffer::<u8>::get(&bytes)
                        .map_err(|_| wrong("bytes", "bytes", &bytes))?;
                    self.send(Kind::Binary, &buffer.to_vec(py)?, shared, py);
                }
            },
            (None, Some(text)) => {
                let text = text.cast::<PyString>().map_err(|_| wrong("text", "a str", &text))?;
                self.send(Kind::Text, text.to_str()?.as_bytes(), shared, py);
            }
            _ => {
                let message = "'websocket.send' needs either 'bytes' or 'text', and not both";
                return Err(PyValueError::new_err(message).into());
            }
        }
        if self.is_gone() { Err(Refused::Gone) } else { Ok(()) }
    }
}

/// Code and reason of a close event.
fn closing(event: &Bound<'_, PyDict>) -> PyResult<(u16, String)> {
    let code = number(event, intern!(event.py(), "code"))?.unwrap_or(i64::from(code::NORMAL));
    let code = u16::try_from(code).ok().filter(|&code| code::may_be_sent(code)).ok_or_else(|| {
        PyValueError::new_err(format!(
            "close code {code} must not be sent (RFC 6455 section 7.4): 1000 or 3000 to 4999 can"
        ))
    })?;
    Ok((code, text(event, "reason")?.unwrap_or_default()))
}

fn out_of_order(stage: Stage, by_us: bool, kind: &str) -> PyErr {
    let wanted = match stage {
        Stage::Connecting { .. } => {
            "'websocket.accept', 'websocket.close' or 'websocket.http.response.start' comes first"
        }
        Stage::Denying => "the rest of the denial's response comes next",
        Stage::Open => "'websocket.send' or 'websocket.close' comes next",
        Stage::Closing | Stage::Over if by_us => "it has closed the connection already",
        Stage::Closing | Stage::Over => "the connection is closed",
    };
    PyRuntimeError::new_err(format!("the application sent '{kind}', and {wanted} (ASGI)"))
}
