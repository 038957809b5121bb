//! Requests that wait for a thread here, while another worker has one.
//!
//! Knows: which of them may go. Does not know: whether another worker would begin them (`share.rs`), or how they go
//! (`exchange/leaving.rs`). Runs under the baton, also on the watchdog's thread.

use wire::Millis;

use super::Requests;
use crate::connections::Connections;
use crate::exchange::Exchange;
use crate::handoff::To;
use crate::lanes::Lane;
use crate::poller::Poller;

/// A request that has waited for so long goes: where calls are short it would have been begun.
pub(crate) const LEAVES_AFTER_MS: Millis = 50;

impl Requests {
    /// Gives up to so many that have waited for a while to other workers, the oldest first. How many have gone.
    #[cold]
    pub fn give_away(&mut self, most: u64, connections: &mut Connections, poller: &mut Poller) -> u64 {
        let now = poller.now;
        let goes = |one: &Exchange| {
            one.arrived() + LEAVES_AFTER_MS <= now && !one.has_stream() && !one.is_for_the_server()
        };
        let (mut given, mut place) = (0, 0);
        self.batch.put_in_order();
        while given < most {
            let Some(one) = self.batch.get(place) else { break };
            let taken = if goes(one) { self.batch.take_away(place) } else { None };
            match taken.map(|one| connections.give_request(one, To::Anybody, poller)) {
                Some(None) => {
                    connections.handover().returns().gave(now);
                    given += 1;
                }
                Some(Some(kept)) => {
                    self.batch.put_back(place, kept);
                    place += 1;
                }
                None => place += 1,
            }
        }
        // Those of a route that has as many inside as it may wait for one of them.
        for lane in [Lane::Unknown, Lane::Slow, Lane::Long] {
            given += self.give_lane(lane, most - given, &goes, connections, poller);
        }
        given
    }

    fn give_lane(
        &mut self,
        lane: Lane,
        most: u64,
        goes: &dyn Fn(&Exchange) -> bool,
        connections: &mut Connections,
        poller: &mut Poller,
    ) -> u64 {
        let (mut given, mut kept) = (0, Vec::new());
        while given < most
            && let Some(next) = self.lined_up.pop_first_where(lane, |one| goes(one))
        {
            match connections.give_request(next, To::Anybody, poller) {
                Some(next) => kept.push(next),
                None => {
                    connections.handover().returns().gave(poller.now);
                    given += 1;
                }
            }
        }
        for mut one in kept {
            let share = self.share_of(&mut one);
            self.lined_up.put_back(lane, share, one);
        }
        given
    }
}
