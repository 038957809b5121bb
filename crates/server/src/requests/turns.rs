//! Clients that take turns at the front (`--fair-by`), as they do in lanes: one that asks for more than all others together
//! waits behind itself, and is refused first, also where what it asks for is quick.
//!
//! Knows: whose request each is that waits at the front. Does not know: who waits in lanes (`lanes/fair.rs`). Runs under
//! the baton, also on the watchdog's thread. Where clients do not take turns nothing here is reached.

use std::net::IpAddr;

use wire::Millis;

use super::Requests;
use super::express::judged;
use crate::access::remote_address;
use crate::engine::Engine;
use crate::exchange::Exchange;
use crate::lanes::{End, FairBy, Lane, Lanes, SHARES};

impl Requests {
    /// Clients take turns: for threads, which tasks of an event loop do not wait for.
    #[inline]
    pub(super) fn by_turns(&self) -> bool {
        self.engine.config.by_hand.fair_by.is_some() && !self.engine.config.evented
    }

    /// The share that a request's client has of a lane, or of the front.
    pub(super) fn share_of(&self, exchange: &mut Exchange) -> u8 {
        share_of(exchange, &self.engine, &self.lanes)
    }

    /// The next request of the client whose turn it is begins.
    #[cold]
    pub(super) fn turn_clients(&mut self, now: Millis) {
        self.batch.put_in_order();
        // How far away each one's turn is, and the first and the last of the nearest.
        let mut nearest: Option<(u8, usize, usize)> = None;
        for place in 0..self.batch.len() {
            let Some(one) = self.batch.at(place) else { break };
            judged(one, &self.engine.config.mounted, &mut self.lanes);
            if self.lanes.place_behind(&one.lane, &self.lined_up) != Lane::Express || one.is_for_the_server()
            {
                continue;
            }
            let away =
                share_of(one, &self.engine, &self.lanes).wrapping_sub(self.front_share).wrapping_sub(1);
            nearest = match nearest {
                Some((least, first, _)) if least == away => Some((away, first, place)),
                Some(found) if found.0 < away => Some(found),
                _ => Some((away, place, place)),
            };
        }
        let Some((away, first, last)) = nearest else { return };
        self.front_share = self.front_share.wrapping_add(away).wrapping_add(1);
        let since = self.batch.get(first).map_or(now, Exchange::arrived);
        self.front_end = self.order(now).next(since, self.front_end);
        let place = match self.front_end {
            End::Oldest => first,
            End::Newest => last,
        };
        if place != first {
            self.engine.counters.requests_newest_first.add();
        }
        if place > 0
            && let Some(next) = self.batch.take_away(place)
        {
            self.batch.put_back(0, next);
        }
    }

    /// True: a newcomer is begun in time at the front though many wait there, as it has its turn before most of them; and
    /// there is room for it, or the last of whoever has most there has made it.
    #[cold]
    pub(super) fn has_its_turn(&mut self, exchange: &mut Exchange) -> bool {
        if !self.by_turns() {
            return false;
        }
        let own = usize::from(self.share_of(exchange));
        let mut waiting = [0_usize; SHARES];
        let mut last = [0_usize; SHARES];
        for place in 0..self.batch.len() {
            let Some(one) = self.batch.at(place) else { break };
            let share = usize::from(share_of(one, &self.engine, &self.lanes));
            (waiting[share], last[share]) = (waiting[share] + 1, place);
        }
        let others = waiting.iter().enumerate().filter(|(share, _)| *share != own);
        let before = waiting[own] + others.map(|(_, &other)| other.min(waiting[own] + 1)).sum::<usize>();
        if !self.is_in_time_at_front(before, exchange) {
            return false;
        }
        if (self.batch.len() as u64) < self.engine.config.limits.queue {
            return true;
        }
        let largest = (0..SHARES).max_by_key(|&share| waiting[share]).unwrap_or(own);
        if waiting[largest] <= waiting[own] {
            return false;
        }
        let last = self.batch.take_away(last[largest]);
        last.map(|last| self.refuse_newcomer(last)).is_some()
    }
}

/// The share of a request's client, which is found out once.
fn share_of(exchange: &mut Exchange, engine: &Engine, lanes: &Lanes) -> u8 {
    if let Some(share) = exchange.lane.share {
        return share;
    }
    let share = match &engine.config.by_hand.fair_by {
        None => 0,
        Some(FairBy::Header(name)) => lanes.share(exchange.head.block.get(name).unwrap_or_default()),
        Some(FairBy::Client) => {
            let client = remote_address(&exchange.head, exchange.peer(), &engine.config.trust);
            // A proxy may tell an address of IPv4 as one of IPv6 (RFC 4291, 2.5.5.2): all of them are in one network.
            match client.parse::<IpAddr>().map(|address| address.to_canonical()) {
                // Whoever has one address of IPv6 has the others of its network as well.
                Ok(IpAddr::V6(address)) => lanes.share(&address.octets()[..8]),
                Ok(IpAddr::V4(address)) => lanes.share(&address.octets()),
                Err(_) => lanes.share(client.as_bytes()),
            }
        }
    };
    exchange.lane.share = Some(share);
    share
}
