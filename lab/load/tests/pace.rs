//! Plans and the moments that follow from them, as tables.

use forehand_load::pace::{Pacer, Shape};

const SECOND: u64 = 1_000_000_000;

fn moments(shape: Shape, seconds: f64) -> Vec<u64> {
    Pacer::new(shape, 1, (seconds * 1e9) as u64).collect()
}

/// So many moments in each second.
fn by_second(moments: &[u64]) -> Vec<usize> {
    let seconds = moments.last().map_or(0, |last| last / SECOND + 1);
    (0..seconds).map(|second| moments.iter().filter(|moment| *moment / SECOND == second).count()).collect()
}

#[test]
fn uniform_gaps_are_equal_and_do_not_drift() {
    assert_eq!(moments(Shape::Uniform { rate: 4.0 }, 1.0), [0, 250_000_000, 500_000_000, 750_000_000]);
    let third = moments(Shape::Uniform { rate: 3.0 }, 1000.0);
    assert_eq!(third.len(), 3000);
    assert_eq!(third[2999], 999_666_666_667);
    let rare = moments(Shape::Uniform { rate: 0.5 }, 5.0);
    assert_eq!(rare, [0, 2 * SECOND, 4 * SECOND]);
}

#[test]
fn steps_follow_one_another_and_each_begins_anew() {
    let steps = Shape::Steps(vec![(2.0, 1.0), (0.0, 1.0), (4.0, 0.5), (1.0, 2.0)]);
    let tenths: Vec<u64> = moments(steps, 4.5).iter().map(|moment| moment / 10_000_000).collect();
    assert_eq!(tenths, [0, 50, 200, 225, 250, 350]);
    let whole = moments(Shape::Steps(vec![(100.0, 5.0), (300.0, 5.0)]), 10.0);
    assert_eq!(by_second(&whole), [100, 100, 100, 100, 100, 300, 300, 300, 300, 300]);
}

#[test]
fn a_ramp_offers_the_area_under_its_line() {
    let up = moments(Shape::Ramp { from: 0.0, to: 1000.0, seconds: 10.0 }, 10.0);
    assert_eq!(up.len(), 5000);
    assert_eq!(by_second(&up)[..3], [50, 150, 250]);
    let down = moments(Shape::Ramp { from: 1000.0, to: 0.0, seconds: 10.0 }, 10.0);
    assert_eq!(down.len(), 5000);
    assert!(down.windows(2).all(|pair| pair[0] <= pair[1]));
    let flat = moments(Shape::Ramp { from: 50.0, to: 50.0, seconds: 2.0 }, 2.0);
    assert_eq!(flat, moments(Shape::Uniform { rate: 50.0 }, 2.0));
}

#[test]
fn poisson_gaps_are_exponential_and_come_from_the_seed() {
    let shape = Shape::Poisson { rate: 1000.0 };
    let drawn = moments(shape.clone(), 100.0);
    // Mean and deviation of an exponential distribution are equal; 100,000 draws are within 2 %.
    let gaps: Vec<f64> = drawn.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((mean / 1e6 - 1.0).abs() < 0.02, "mean gap {mean} ns");
    assert!((deviation / mean - 1.0).abs() < 0.02, "deviation {deviation} ns");
    assert_eq!(drawn, Pacer::new(shape.clone(), 1, 100 * SECOND).collect::<Vec<_>>());
    assert_ne!(drawn, Pacer::new(shape, 2, 100 * SECOND).collect::<Vec<_>>());
}

#[test]
fn dealt_to_threads_the_moments_are_the_same() {
    for shape in [
        Shape::Uniform { rate: 70.0 },
        Shape::Poisson { rate: 70.0 },
        Shape::Steps(vec![(9.0, 2.0), (30.0, 1.0)]),
    ] {
        let pacer = Pacer::new(shape, 7, 3 * SECOND);
        let mut dealt: Vec<u64> = (0..3).flat_map(|thread| pacer.clone().dealt(thread, 3)).collect();
        dealt.sort_unstable();
        assert_eq!(dealt, pacer.collect::<Vec<_>>());
    }
}

#[test]
fn nothing_is_planned_at_or_after_the_end() {
    assert_eq!(moments(Shape::Uniform { rate: 10.0 }, 0.3), [0, 100_000_000, 200_000_000]);
    assert_eq!(moments(Shape::Ramp { from: 0.0, to: 0.5, seconds: 1.0 }, 1.0), [0]);
}
