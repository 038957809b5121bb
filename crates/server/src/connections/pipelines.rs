//! What is counted of requests whose replies wait for those to the next requests of their pipelines.
//!
//! Knows: which replies of a connection theirs are among, and whether those are sent. Does not know: who sends them, which
//! any thread may, or how requests are counted. Runs under the baton.
//!
//! Until its reply is sent a request has died if its worker is killed: its client has not got it. Whoever has sent
//! replies asks for those of that connection; what others have sent meanwhile is seen at the next look. One that
//! waits for longer, as its client takes nothing, is not looked at again: its connection tells when it goes on.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::pipelined::PipelinedReplies;
use crate::statistics::alike::Alike;
use crate::statistics::{Ended, Statistics};

/// So many of a connection's that are not alike keep their slots, by which it is told which requests are inside: of these there
/// are a few hundred, for all connections.
pub const MOST_NAMED: usize = 64;
/// So often it is looked whether anybody has sent them.
const LOOKS: u32 = 4;
/// Lists that are used again, and the largest of them.
const SPARE: usize = 16;
const SPARE_ROOM: usize = MOST_NAMED;

/// The pipelines of a loop's connections.
#[derive(Default)]
pub(super) struct Pipelines {
    /// Those that are looked at.
    quick: Vec<Pipeline>,
    /// Those that are not, by their connections.
    parked: HashMap<u64, Pipeline>,
    spare: Vec<Waiting>,
}

/// Requests of one connection that have been answered, and wait.
#[derive(Default)]
pub struct Waiting {
    pub alike: Alike,
    pub others: Vec<Ended>,
}

impl Waiting {
    /// Their replies are sent, at that stamp: none is left.
    #[inline]
    pub fn settle(&mut self, statistics: &mut Statistics, sent: u64) {
        statistics.settle_alike(&mut self.alike, sent);
        for ended in self.others.drain(..) {
            statistics.settle(&ended.counted(), sent);
        }
    }

    /// Their client is gone, and has not got them: none is left.
    #[cold]
    pub fn lose(&mut self, statistics: &mut Statistics, now: u64) {
        statistics.lose_alike(&mut self.alike, now);
        for mut ended in self.others.drain(..) {
            ended.times.client_is_gone();
            statistics.settle(&ended.counted(), now);
        }
    }

    #[cold]
    fn rest(&mut self) {
        self.alike.rest();
        self.others.iter_mut().for_each(|ended| ended.head = Arc::new(ended.head.without_fields()));
        self.others.shrink_to_fit();
    }
}

struct Pipeline {
    token: u64,
    /// Not owned: what is counted keeps no connection open.
    replies: Weak<PipelinedReplies>,
    waiting: Waiting,
    looks: u32,
}

impl Pipeline {
    /// What has become of its replies, if they do not wait any more.
    fn over(&self) -> Option<Over> {
        match self.replies.upgrade() {
            Some(replies) => replies.is_empty().then_some(Over::Sent),
            None => Some(Over::Lost),
        }
    }
}

/// What has become of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Sent,
    /// Their client has left before.
    Lost,
}

impl Over {
    /// Counts those that have waited for it.
    #[inline]
    pub fn settle(self, waiting: &mut Waiting, statistics: &mut Statistics, now: u64) {
        match self {
            Self::Sent => waiting.settle(statistics, now),
            Self::Lost => waiting.lose(statistics, now),
        }
    }
}

impl Pipelines {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.quick.is_empty() && self.parked.is_empty()
    }

    /// Where that of a connection is among those that are looked at.
    fn place(&self, token: u64) -> Option<usize> {
        self.quick.iter().position(|pipeline| pipeline.token == token)
    }

    #[inline]
    fn is_at(&self, place: usize, token: u64) -> bool {
        self.quick.get(place).is_some_and(|pipeline| pipeline.token == token)
    }

    /// Requests of a connection whose replies wait in `replies`: the next one is appended.
    #[inline]
    pub fn of(&mut self, token: u64, replies: &Arc<PipelinedReplies>) -> &mut Waiting {
        // Connections whose requests wait together have their turns one after the other: to look for each would be to guess wrong.
        let place = match replies.place() {
            place if self.is_at(place, token) => place,
            _ => self.find(token, replies),
        };
        let pipeline = &mut self.quick[place];
        pipeline.looks = 0;
        &mut pipeline.waiting
    }

    #[inline(never)]
    fn find(&mut self, token: u64, replies: &Arc<PipelinedReplies>) -> usize {
        let place = self.place(token).unwrap_or_else(|| self.begin(token, replies));
        replies.is_found_at(place);
        place
    }

    fn begin(&mut self, token: u64, replies: &Arc<PipelinedReplies>) -> usize {
        let parked = if self.parked.is_empty() { None } else { self.parked.remove(&token) };
        let new = parked.unwrap_or_else(|| Pipeline {
            token,
            replies: Arc::downgrade(replies),
            waiting: self.spare.pop().unwrap_or_default(),
            looks: 0,
        });
        self.quick.push(new);
        self.quick.len() - 1
    }

    /// Nothing of a connection's replies waits any more, which waited in `replies`: its requests. [`Pipelines::reuse`] takes
    /// their list.
    #[inline]
    pub fn take(&mut self, token: u64, replies: Option<&PipelinedReplies>) -> Option<Waiting> {
        let hint = replies.map(PipelinedReplies::place).filter(|place| self.is_at(*place, token));
        match hint.or_else(|| self.place(token)) {
            Some(place) => Some(self.quick.swap_remove(place).waiting),
            None if self.parked.is_empty() => None,
            None => self.parked.remove(&token).map(|parked| parked.waiting),
        }
    }

    /// A reply of a connection has been sent, or lost: appends its requests, if those before it have been, too.
    #[cold]
    pub fn look_at(&mut self, token: u64, over: &mut Vec<(Over, Waiting)>) {
        let place = self.place(token);
        let pipeline = place.map(|place| &self.quick[place]).or_else(|| self.parked.get(&token));
        if let Some(became) = pipeline.and_then(Pipeline::over) {
            over.extend(self.take(token, None).map(|waiting| (became, waiting)));
        }
    }

    /// The next look comes: appends those whose replies somebody else has sent.
    pub fn look(&mut self, over: &mut Vec<(Over, Waiting)>) {
        let mut place = 0;
        while let Some(pipeline) = self.quick.get_mut(place) {
            pipeline.looks += 1;
            if let Some(became) = pipeline.over() {
                over.push((became, self.quick.swap_remove(place).waiting));
            } else if pipeline.looks >= LOOKS {
                let mut parked = self.quick.swap_remove(place);
                parked.waiting.rest();
                self.parked.insert(parked.token, parked);
            } else {
                place += 1;
            }
        }
    }

    /// A connection is closed: whoever has not got a reply gets none.
    #[cold]
    pub fn close(&mut self, token: u64, replies: Option<&PipelinedReplies>, over: &mut Vec<(Over, Waiting)>) {
        let sent = replies.is_some_and(PipelinedReplies::is_empty);
        let became = if sent { Over::Sent } else { Over::Lost };
        over.extend(self.take(token, replies).map(|waiting| (became, waiting)));
    }

    /// A list that is empty again.
    #[inline]
    pub fn reuse(&mut self, waiting: Waiting) {
        let room = waiting.others.capacity().max(waiting.alike.room());
        if self.spare.len() < SPARE && room <= SPARE_ROOM {
            self.spare.push(waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use reactor::Socket;

    use super::*;
    use crate::statistics::phase::Times;
    use crate::statistics::played::head;

    /// One whose replies wait for a client, and who reads them.
    struct Connected {
        pipelines: Pipelines,
        replies: Arc<PipelinedReplies>,
        over: Vec<(Over, Waiting)>,
        _client: UnixStream,
    }

    impl Connected {
        fn new() -> Self {
            let (ours, client) = UnixStream::pair().expect("a pair");
            let socket = Socket::from_owned(OwnedFd::from(ours)).expect("a socket");
            let replies = PipelinedReplies::new(&Arc::new(socket.into()));
            Self { pipelines: Pipelines::default(), replies, over: Vec::new(), _client: client }
        }

        fn answers(&mut self, number: u64) {
            assert!(self.replies.add(&[b"reply"], usize::MAX));
            let (head, times) = (head("GET /page"), Times::default());
            let ended = Ended { head, times, number, written: 5, status: 200 };
            self.pipelines.of(7, &self.replies).others.push(ended);
        }

        fn sends(&self) {
            self.replies.send().expect("a client");
        }

        /// Whoever has sent on that connection says so.
        fn says(&mut self, token: u64) {
            self.pipelines.look_at(token, &mut self.over);
        }

        /// Numbers of those that are over, and whether their client has them.
        fn over(&mut self) -> Vec<(u64, bool)> {
            let mut numbers = Vec::new();
            for (became, mut waiting) in self.over.drain(..) {
                numbers.extend(waiting.others.drain(..).map(|ended| (ended.number, became == Over::Sent)));
                self.pipelines.reuse(waiting);
            }
            numbers
        }
    }

    #[test]
    fn they_are_over_when_whoever_has_sent_them_says_so() {
        let mut one = Connected::new();
        (1..=3).for_each(|number| one.answers(number));
        one.says(7);
        assert_eq!(one.over(), [], "they wait");
        one.sends();
        one.says(8);
        assert_eq!(one.over(), [], "another's");
        one.says(7);
        assert_eq!(one.over(), [(1, true), (2, true), (3, true)]);
        assert!(one.pipelines.is_empty() && one.pipelines.spare.len() == 1);
    }

    #[test]
    fn what_another_thread_has_sent_is_seen_at_the_next_look() {
        let mut one = Connected::new();
        one.answers(1);
        one.pipelines.look(&mut one.over);
        assert_eq!(one.over(), []);
        one.sends();
        one.pipelines.look(&mut one.over);
        assert_eq!(one.over(), [(1, true)]);
        assert!(one.pipelines.is_empty());
    }

    #[test]
    fn who_waits_for_long_is_looked_at_no_more_until_its_connection_tells() {
        for (looks, parked) in [(LOOKS - 1, 0), (LOOKS, 1), (LOOKS + 1, 1)] {
            for ends in [true, false] {
                let mut one = Connected::new();
                (1..=2).for_each(|number| one.answers(number));
                (0..looks).for_each(|_| one.pipelines.look(&mut one.over));
                assert_eq!((one.pipelines.parked.len(), one.over()), (parked, vec![]));
                for pipeline in one.pipelines.parked.values() {
                    assert!(pipeline.waiting.others.iter().all(|ended| ended.head.block.raw().is_empty()));
                    assert!(pipeline.waiting.others.iter().all(|ended| ended.head.path() == b"/page"));
                }
                if ends {
                    one.sends();
                    one.says(7);
                    assert_eq!(one.over(), [(1, true), (2, true)]);
                } else {
                    one.answers(3);
                    assert_eq!(one.pipelines.parked.len(), 0, "its connection has gone on");
                    one.sends();
                    one.pipelines.look(&mut one.over);
                    assert_eq!(one.over(), [(1, true), (2, true), (3, true)]);
                }
                assert!(one.pipelines.is_empty());
            }
        }
    }

    #[test]
    fn whoever_closes_has_got_what_was_sent() {
        for looks in [0, LOOKS] {
            for sends in [true, false] {
                let mut one = Connected::new();
                one.answers(1);
                (0..looks).for_each(|_| one.pipelines.look(&mut one.over));
                if sends {
                    one.sends();
                }
                one.pipelines.close(8, Some(&one.replies), &mut one.over);
                assert_eq!(one.over(), []);
                one.pipelines.close(7, Some(&one.replies), &mut one.over);
                assert_eq!(one.over(), [(1, sends)]);
                assert!(one.pipelines.is_empty());
            }
        }
    }

    #[test]
    fn whose_replies_nobody_has_any_more_has_left() {
        let mut one = Connected::new();
        one.answers(1);
        drop(std::mem::replace(&mut one.replies, Connected::new().replies));
        one.pipelines.look(&mut one.over);
        assert_eq!(one.over(), [(1, false)]);
    }

    #[test]
    fn lists_are_used_again_unless_they_are_large() {
        for (requests, spare) in [(SPARE_ROOM, 1), (SPARE_ROOM * 4, 0)] {
            let mut one = Connected::new();
            (0..requests).for_each(|number| one.answers(number as u64));
            one.sends();
            one.pipelines.look(&mut one.over);
            assert_eq!(one.over().len(), requests);
            assert_eq!(one.pipelines.spare.len(), spare);
        }
    }
}
