//! A refusal of what has not become a request: its reply, its name, and what is counted and logged of it.
//!
//! Knows: what is told of it, and where. Does not know: what becomes of its connection. The loop's thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reactor::Address;
use wire::{DateLine, Fault, Head, Version};

use crate::engine::Engine;
use crate::exchange::content_length;
use crate::request_id::RequestId;
use crate::statistics::Statistics;

/// What is refused, and why.
pub struct Refusal<'a> {
    fault: &'a Fault,
    /// As far as it was understood.
    head: Option<Arc<Head>>,
    client: Address,
    id: Option<RequestId<'static>>,
}

impl<'a> Refusal<'a> {
    /// It is counted under its reason, and has a name where requests have names: a trusted proxy's word, or one of our own.
    pub fn new(fault: &'a Fault, head: Option<Arc<Head>>, client: Address, engine: &Engine) -> Self {
        engine.counters.refused(fault);
        let id = engine.config.request_id.as_ref().map(|ids| {
            let trusted = head.as_ref().filter(|head| head.block.variant & 1 == 1);
            match trusted.and_then(|head| ids.given(&head.block)) {
                Some(given) => RequestId::Given(given.into()).into_owned(),
                // Requests are counted from below, so that these are not among them.
                None => ids.own(!engine.refusals.fetch_add(1, Ordering::Relaxed)),
            }
        });
        Self { fault, head, client, id }
    }

    /// The whole reply, which has been counted and has its line in the access log. `spoken`: within TLS or not, and what.
    pub fn reply(&self, spoken: (bool, Version), statistics: &mut Statistics, engine: &Engine) -> Vec<u8> {
        let (config, head) = (&engine.config, self.head.as_deref());
        let head_only = spoken.1 == Version::Http2 && head.is_some_and(Head::is_head);
        let mut reply = Vec::new();
        let date = DateLine::at(reactor::sys::wall_seconds());
        self.fault.reply(&date, &config.server_header, head_only, &mut reply);
        if let (Some(ids), Some(id)) = (&config.request_id, &self.id) {
            ids.name_refusal(id, head_only, &mut reply);
        }
        statistics.refused(head, spoken, self.fault.status);
        if let Some(access) = &config.access {
            let said = (self.fault.status, content_length(&reply));
            access.write_refusal(self.client, (head, self.id.as_ref()), &config.trust, said);
        }
        reply
    }
}

/// What a line of the error log ends with: why, and its name.
impl fmt::Display for Refusal<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.fault.text)?;
        self.id.as_ref().map_or(Ok(()), |id| write!(to, " (id {id})"))
    }
}
