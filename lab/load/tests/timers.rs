//! Timers give what is due, in order, and the earliest moment; a slot survives its way through epoll.

use forehand_load::timers::{NEVER, Slot, Timers};

fn slot(index: u32) -> Slot {
    Slot { index, generation: 7 }
}

#[test]
fn what_is_due_comes_in_order_and_the_rest_stays() {
    let mut timers = Timers::default();
    assert_eq!((timers.next(), timers.due(NEVER - 1)), (NEVER, None));
    for (at, index) in [(30, 3), (10, 1), (20, 2), (10, 4)] {
        timers.enter(at, slot(index));
    }
    assert_eq!((timers.next(), timers.due(9)), (10, None));
    let due: Vec<_> = std::iter::from_fn(|| timers.due(20)).collect();
    assert_eq!(due, [(10, slot(1)), (10, slot(4)), (20, slot(2))]);
    assert_eq!((timers.next(), timers.due(30)), (30, Some((30, slot(3)))));
    assert_eq!(timers.next(), NEVER);
}

#[test]
fn a_token_holds_index_and_generation() {
    for (index, generation) in [(0, 0), (1, 2), (u32::MAX - 1, u32::MAX), (5, u32::MAX)] {
        let slot = Slot { index, generation };
        assert_eq!(Slot::of_token(slot.token()), slot);
    }
}
