//! When requests are due: a pure function from a plan to planned moments. Knows no clock and no socket.
//!
//! Moments are nanoseconds from the beginning of the load. The same seed plans the same moments, on every thread and machine.

/// How often, over time. Rates are starts per second.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// The gaps are equal.
    Uniform { rate: f64 },
    /// The gaps are drawn from an exponential distribution, as from many clients that know nothing of one another.
    Poisson { rate: f64 },
    /// One rate after another: (rate, seconds).
    Steps(Vec<(f64, f64)>),
    /// From one rate to another, evenly over so many seconds.
    Ramp { from: f64, to: f64, seconds: f64 },
}

/// Random numbers that are the same everywhere: splitmix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Planned moments, in order, until `duration` nanoseconds.
#[derive(Clone, Debug)]
pub struct Pacer {
    shape: Shape,
    draw: Draw,
    /// How many moments the present step (or the whole of the other shapes) has given.
    index: u64,
    /// Seconds: of Poisson the last moment, of steps the beginning of the present one.
    at: f64,
    step: usize,
    duration: u64,
}

impl Pacer {
    pub fn new(shape: Shape, seed: u64, duration: u64) -> Pacer {
        Pacer { shape, draw: Draw::new(seed), index: 0, at: 0.0, step: 0, duration }
    }

    /// The part of the moments that falls to one of several threads, here or on several machines: they are dealt round.
    pub fn dealt(self, thread: usize, threads: usize) -> impl Iterator<Item = u64> + Send {
        self.skip(thread).step_by(threads)
    }

    fn next_second(&mut self) -> Option<f64> {
        let index = self.index as f64;
        self.index += 1;
        match &self.shape {
            Shape::Uniform { rate } => Some(index / rate),
            Shape::Poisson { rate } => {
                // 1 - u is never 0, so the logarithm is finite.
                self.at -= (1.0 - self.draw.unit()).ln() / rate;
                Some(self.at)
            }
            Shape::Steps(steps) => {
                let mut index = index;
                loop {
                    let (rate, seconds) = *steps.get(self.step)?;
                    // Half a nanosecond: a moment that rounding puts on the step's end belongs to the next.
                    if rate > 0.0 && index / rate < seconds - 5e-10 {
                        return Some(self.at + index / rate);
                    }
                    self.at += seconds;
                    self.step += 1;
                    self.index = 1;
                    index = 0.0;
                }
            }
            Shape::Ramp { from, to, seconds } => moment_on_ramp(index, *from, *to, *seconds),
        }
    }
}

/// When the number of starts so far, from·t + (to-from)·t²/(2·seconds), reaches `index`. None if it never does.
fn moment_on_ramp(index: f64, from: f64, to: f64, seconds: f64) -> Option<f64> {
    let slope = (to - from) / seconds;
    let under_root = from * from + 2.0 * slope * index;
    if under_root < 0.0 {
        return None;
    }
    // This form of the root has no cancellation, and no division by a slope of zero.
    let divisor = from + under_root.sqrt();
    if divisor == 0.0 { (index == 0.0).then_some(0.0) } else { Some(2.0 * index / divisor) }
}

impl Iterator for Pacer {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let moment = (self.next_second()? * 1e9).round() as u64;
        (moment < self.duration).then_some(moment)
    }
}
