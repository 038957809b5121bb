//! What late threads bring back to a loop that goes to sleep.
//!
//! What must hold: nothing is lost, and a loop that sleeps though something is there is woken: one
//! that were not would sleep for ever, which loom calls a deadlock.

use loom::sync::Arc;
use loom::thread;
use server::inbox::Inbox;

use crate::event::Event;

/// So many threads bring so many things each, and wake the loop where they are told to.
fn brought(producers: usize, each: usize) {
    loom::model(move || {
        let (inbox, event) = (Arc::new(Inbox::default()), Arc::new(Event::default()));
        let bring = |producer: usize| {
            let (inbox, event) = (Arc::clone(&inbox), Arc::clone(&event));
            thread::spawn(move || {
                for thing in 0..each {
                    if inbox.put((producer, thing)) {
                        event.wake();
                    }
                }
            })
        };
        let producers: Vec<_> = (0..producers).map(bring).collect();
        let wanted = producers.len() * each;
        let mut taken = Vec::new();
        loop {
            // As the loop does: it looks, and sleeps when there is nothing.
            if inbox.is_full() {
                taken.extend(inbox.take());
            }
            if taken.len() >= wanted {
                break;
            }
            event.wait();
        }
        for producer in producers {
            producer.join().unwrap();
        }
        assert!(inbox.take().is_empty(), "something came twice");
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), wanted, "each thing comes once");
    });
}

#[test]
fn what_one_thread_brings_twice_wakes_a_loop_that_sleeps() {
    brought(1, 2);
}

#[test]
fn what_two_threads_bring_wakes_a_loop_that_sleeps() {
    brought(2, 1);
}

#[test]
fn what_two_threads_bring_twice_wakes_a_loop_that_sleeps() {
    brought(2, 2);
}

#[test]
fn what_comes_while_the_loop_ends_is_taken_or_dropped() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::default());
        let thing = Arc::new(());
        let (theirs, brings) = (Arc::clone(&inbox), Arc::clone(&thing));
        let producer = thread::spawn(move || theirs.put(brings));
        let taken = inbox.take();
        inbox.close();
        let _ = producer.join().unwrap();
        assert_eq!(Arc::strong_count(&thing), 1 + taken.len(), "a thing stays behind");
    });
}
