//! What the leader does about what has happened before it waits for the interpreter.
//!
//! Knows: what needs no interpreter, and what is better off where nobody waits for one. Does not know: how long that takes
//! (`strain.rs`). Runs under the baton.

use super::Loop;
use crate::baton::{Lead, Next};
use crate::engine::Stage;

impl Loop {
    /// Does what the last look found, as far as it is for files or a probe: that needs no interpreter, so that nobody waits
    /// for whoever has it. False: that was all, and the loop can wait again. True: there is something for a thread.
    pub(super) fn answer_natively_alone(&mut self) -> bool {
        if self.engine.stage() != Stage::Serving {
            return true;
        }
        self.woken = false;
        match self.next() {
            Next::Ready(exchange) => {
                self.requests.put_back(exchange);
                return true;
            }
            Next::Ended => return true,
            Next::Quiet => {}
        }
        // The watchdog, which shows numbers, may be asleep: nobody has begun anything.
        self.engine.publish(self.poller.now);
        // What has come back from the interpreter wants a thread that leads.
        self.woken
    }

    /// A thread holds up the others: connections on which something has arrived go to another worker, which reads it at once.
    /// Those that cannot are read here, after a wait for the interpreter. True: all that has happened is theirs by now.
    #[cold]
    pub(super) fn pass_on(&mut self) -> bool {
        if !self.acceptor.passes_on(&mut self.connections, self.poller.now) {
            return false;
        }
        // An edge of one that has left is told later, and finds nobody.
        let arrived: Vec<Option<u64>> = self.poller.reactor.readable_left().collect();
        let mut passed = 0;
        for token in arrived.iter().flatten() {
            passed += usize::from(self.connections.pass_on(*token, &mut self.poller));
        }
        if passed > 0 {
            // The watchdog, which shows numbers, may be asleep: nobody has begun anything.
            self.engine.publish(self.poller.now);
        }
        passed > 0 && passed == arrived.len()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use reactor::Accepted;
    use reactor::sys::{Handoff, ListenerFd, monotonic_ms};

    use super::*;
    use crate::engine::Config;
    use crate::log::Log;
    use crate::reply_builder::ReplyBuilder;
    use crate::rows::{ROWS, WIDTH};
    use crate::scoreboard::{Field, Scoreboard};
    use crate::strain::Strain;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// The loop of one of two workers, and what it shares with the other one, which is idle.
    struct Worker {
        turn: Loop,
        listener: TcpListener,
        other: Scoreboard,
        handoff: Arc<Handoff>,
    }

    impl Worker {
        fn new() -> Self {
            let page = tempfile::tempfile().expect("a file");
            page.set_len((ROWS * WIDTH * 8) as u64).expect("room");
            let (notifier, _) = UnixStream::pair().expect("a pair");
            let join =
                |row| Scoreboard::join(page.as_raw_fd(), row, notifier.as_raw_fd()).expect("a scoreboard");
            let (own, other) = (join(0), join(1));
            // As its supervisor says.
            own.set(Field::Rows, 2);
            [&own, &other].into_iter().for_each(Scoreboard::enter);
            let (give, take) = UnixStream::pair().expect("a pair");
            let handoff = Arc::new(Handoff::join(give.as_raw_fd(), take.as_raw_fd()).expect("two ends"));
            let config = Config {
                scoreboard: Some(own),
                handoff: Some(Arc::clone(&handoff)),
                threads: 8,
                ..Config::default()
            };
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
            listener.set_nonblocking(true).expect("a flag");
            let fd = ListenerFd::new(listener.as_raw_fd()).expect("a listener");
            let turn = Loop::new(config, Log::none(), vec![fd.into()]).expect("a loop");
            Self { turn, listener, other, handoff }
        }

        /// A connection that has had a request, and is idle.
        fn client(&mut self) -> TcpStream {
            let address = self.listener.local_addr().expect("an address");
            let mut client = TcpStream::connect(address).expect("a connection");
            client.write_all(REQUEST).expect("room");
            self.answer();
            while !matches!(self.turn.next(), Next::Quiet) {}
            client
        }

        /// Answers the next request.
        fn answer(&mut self) {
            loop {
                match self.turn.next() {
                    Next::Ready(mut exchange) => {
                        let mut builder = ReplyBuilder::new();
                        builder.head.status(b"200 OK").expect("a status");
                        exchange.whole(&mut builder, b"ok", self.turn.engine()).expect("a peer");
                        return self.turn.take_back(exchange);
                    }
                    Next::Quiet => drop(self.turn.wait()),
                    Next::Ended => panic!("the loop has ended"),
                }
            }
        }

        /// True while it takes new connections.
        fn takes(&mut self) -> bool {
            self.turn.poller.look_at_clock();
            self.turn.update_listening();
            let scoreboard = self.turn.engine.config.scoreboard.as_ref();
            scoreboard.is_some_and(|scoreboard| scoreboard.of(0, Field::Watching) == 1)
        }

        /// A thread inside the application has burnt for so long by now.
        fn burns(&self, lasted: u64) {
            self.turn.engine.inside.begins();
            // So late that what follows from it is not over when the machine is slow.
            let (strain, since) = (Strain::new(), monotonic_ms() + 20_000);
            for now in since..=since + lasted {
                strain.note(520, now);
            }
            self.turn.engine.strained(&strain);
        }

        /// How many connections this worker has given away.
        fn given(&self) -> u64 {
            self.turn.engine.counters.connections_handed_over.get()
        }

        /// Waits, without the interpreter, until the other worker has taken a connection.
        fn waits_until_one_is_taken(&mut self) {
            let (handoff, waker) = (Arc::clone(&self.handoff), Arc::clone(&self.turn.engine.waker));
            let taker = std::thread::spawn(move || {
                let end = Instant::now() + Duration::from_secs(20);
                while !matches!(handoff.take().expect("a pair").0, Accepted::Connection(..)) {
                    assert!(Instant::now() < end, "nobody has given anything");
                    std::thread::sleep(Duration::from_millis(1));
                }
                waker.wake();
            });
            self.turn.wait();
            taker.join().expect("a connection");
        }
    }

    #[test]
    fn who_comes_new_is_left_to_a_worker_that_is_as_busy_or_twice_from_the_first_sign_on_that_a_thread_burns()
    {
        for (level_of_the_other, leaves) in [(2, true), (4, true), (6, false)] {
            let mut worker = Worker::new();
            worker.other.set(Field::Level, level_of_the_other);
            worker.turn.engine.inside.begins();
            assert!(worker.takes(), "a thread is busy here, and as many or more there");
            let (strain, now) = (Strain::new(), monotonic_ms());
            // So late that the machine may be slow.
            strain.note(520, now + 20_000);
            worker.turn.engine.strained(&strain);
            assert_eq!(worker.takes(), !leaves, "{level_of_the_other}");
            for wait in [0, 0, 0, 10] {
                strain.note(0, now + 20_000 + wait);
            }
            worker.turn.engine.strained(&strain);
            assert!(worker.takes(), "nobody burns any more");
        }
    }

    #[test]
    fn what_arrives_while_a_thread_burns_for_long_goes_to_another_worker_alone_and_nobody_waits_for_the_interpreter()
     {
        let mut worker = Worker::new();
        let mut clients: Vec<_> = (0..3).map(|_| worker.client()).collect();
        worker.burns(120);
        clients[1].write_all(REQUEST).expect("room");
        worker.waits_until_one_is_taken();
        assert!(matches!(worker.turn.next(), Next::Quiet), "nothing is left to be answered here");
        assert_eq!((worker.given(), worker.turn.connections.len()), (1, 2));
    }

    #[test]
    fn it_is_read_here_where_that_does_not_last_or_no_worker_is_better() {
        for (lasted, other_is_strained) in [(119, 0), (120, 1)] {
            let mut worker = Worker::new();
            let mut client = worker.client();
            worker.other.set(Field::Strained, other_is_strained);
            worker.burns(lasted);
            client.write_all(REQUEST).expect("room");
            worker.answer();
            assert_eq!((worker.given(), worker.turn.connections.len()), (0, 1), "{lasted}");
        }
    }

    #[test]
    fn the_rest_of_a_request_is_read_where_its_beginning_was() {
        let mut worker = Worker::new();
        let mut client = worker.client();
        client.write_all(&REQUEST[..9]).expect("room");
        worker.turn.wait();
        assert!(matches!(worker.turn.next(), Next::Quiet), "it is not complete");
        worker.burns(120);
        client.write_all(&REQUEST[9..]).expect("room");
        worker.answer();
        assert_eq!((worker.given(), worker.turn.connections.len()), (0, 1));
    }
}
