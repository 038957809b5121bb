//! When a generator is believed: a table.

use forehand_load::kinds::{Fault, Faults};
use forehand_load::verdict::{Evidence, Verdict, judge};

fn evidence() -> Evidence {
    Evidence {
        planned_starts: 10_000,
        beats: 1000,
        busiest_share: 0.5,
        late_after_ms: 10.0,
        ..Evidence::default()
    }
}

fn faults(fault: Fault, count: u64) -> Evidence {
    let mut faults = Faults::default();
    for _ in 0..count {
        faults.count(fault);
    }
    Evidence { faults, ..evidence() }
}

#[test]
fn one_start_that_could_not_be_made_is_one_too_many() {
    for (fault, words) in [
        (Fault::DescriptorUnavailable, "ulimit -n"),
        (Fault::AddressUnavailable, "ip_local_port_range"),
        (Fault::NotStarted, "never started"),
    ] {
        let (verdict, reasons) = judge(&faults(fault, 1));
        assert_eq!((verdict, reasons.len()), (Verdict::AtFault, 1));
        assert!(reasons[0].contains(words), "{reasons:?}");
    }
}

#[test]
fn late_starts_and_beats_are_forgiven_up_to_a_hundredth() {
    assert_eq!(judge(&faults(Fault::LateStart, 100)), (Verdict::Fit, vec![]));
    assert_eq!(judge(&faults(Fault::LateStart, 101)).0, Verdict::AtFault);
    assert_eq!(judge(&Evidence { beats_late: 10, ..evidence() }), (Verdict::Fit, vec![]));
    assert_eq!(judge(&Evidence { beats_late: 11, ..evidence() }).0, Verdict::AtFault);
}

#[test]
fn a_full_processor_is_a_ceiling_for_a_closed_loop_only() {
    let full = Evidence { busiest_share: 0.97, ..evidence() };
    assert_eq!(judge(&full).0, Verdict::Fit);
    let (verdict, reasons) = judge(&Evidence { is_closed: true, ..full });
    assert_eq!(verdict, Verdict::AtCeiling);
    assert!(reasons[0].contains("97 %") && reasons[0].contains("lower bound"), "{reasons:?}");
}

#[test]
fn a_run_in_which_nothing_was_planned_is_fit() {
    assert_eq!(judge(&Evidence::default()), (Verdict::Fit, vec![]));
}
