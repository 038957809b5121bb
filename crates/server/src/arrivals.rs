//! Connections whose TLS handshake is over: those that can go on do so like any other.
//!
//! Knows: what can become of a handshake, and what is said of it. Does not know: how one is made (`tls/porch.rs`). Runs
//! under the baton.

use reactor::Address;
use wire::{HTTP_ON_TLS, looks_like};

use crate::connection::shown;
use crate::connections::Connections;
use crate::engine::Engine;
use crate::exchange::Exchange;
use crate::handoff::Source;
use crate::listener::Kind;
use crate::log::Level;
use crate::poller::Poller;
use crate::tls::{Arrival, Outcome};
use crate::transport::Transport;

/// Goes on with one; its request, if that has come already. `kind`: what is spoken on its listener's connections.
pub(crate) fn welcome(
    Arrival { guest, outcome }: Arrival,
    kind: Kind,
    engine: &Engine,
    connections: &mut Connections,
    poller: &mut Poller,
) -> Option<Box<Exchange>> {
    let counters = &engine.counters;
    let source = Source::introduced(guest.listener, &guest.said);
    let peer = guest.peer;
    match outcome {
        Outcome::Done => {
            counters.handshakes.add_alone();
            if guest.transport.is_resumed() {
                counters.handshakes_resumed.add_alone();
            }
            let kind = kind.agreed(guest.transport.protocol().as_deref());
            return connections.admit(guest.transport.into(), (peer, kind), source, poller);
        }
        // A method begins with a capital letter. Whoever sends one understands an answer.
        Outcome::Other(bytes) if bytes.first().is_some_and(u8::is_ascii_uppercase) => {
            counters.handshakes_failed.add_alone();
            let plain = Transport::from(guest.transport.into_socket());
            connections.admit_refused(plain, peer, source, &HTTP_ON_TLS, poller);
            return None;
        }
        Outcome::Other(bytes) => {
            counters.handshakes_failed.add_alone();
            engine.log.complain(Level::Warning, || {
                let (peer, seen) = (shown(&peer), looks_like(&bytes));
                format!("closed a connection from {peer}: expected a TLS handshake, got {seen}")
            });
        }
        Outcome::Refused(fault) => {
            counters.connections_refused.add();
            counters.refused(&fault);
            engine.log.complain(Level::Warning, || {
                let (expected, seen) = guest
                    .preface
                    .as_ref()
                    .map_or(("nothing", "nothing"), |preface| preface.expected_and_seen());
                let peer = shown(&peer);
                format!("refused a connection from {peer}: expected {expected}, got {seen}: {}", fault.text)
            });
        }
        Outcome::Left => {
            counters.handshakes_failed.add_alone();
            engine.log.debug(|| format!("{} has left before the TLS handshake was complete", shown(&peer)));
        }
        Outcome::TimedOut => {
            counters.handshake_timeouts.add_alone();
            complain_of_slowness(engine, &peer, "");
        }
        Outcome::Displaced => {
            counters.handshakes_displaced.add_alone();
            complain_of_slowness(engine, &peer, " while others waited for its place");
        }
        Outcome::Failed(why) => {
            counters.handshakes_failed.add_alone();
            engine.log.complain(Level::Info, || format!("no TLS handshake with {}: {why}", shown(&peer)));
        }
    }
    drop(guest);
    connections.note_closed();
    None
}

fn complain_of_slowness(engine: &Engine, peer: &Address, while_others: &str) {
    engine.log.complain(Level::Info, || {
        let peer = shown(peer);
        format!("closed a connection from {peer}: its TLS handshake took too long{while_others}")
    });
}
