//! Whether the numbers of a plan make sense, each and together; what is wrong is said in one line. Pure.

use super::{
    Arrivals, HIGHEST_RATE, LONGEST_S, Load, MOST_CONNECTIONS, MOST_PARTS, MOST_PIPELINED, MOST_STREAMS,
    MOST_THREADS, Plan, Stop,
};
use crate::pace::Shape;

impl Plan {
    /// The shape of arrivals; none for a closed loop. Steps set the duration, so this comes first.
    pub fn shape(&mut self) -> Result<Option<Shape>, Stop> {
        let (arrivals, rate, steps, ramp) = match &self.load {
            Load::Closed(_) => return Ok(None),
            Load::Open(open) => (open.arrivals, open.rate, open.steps.clone(), open.ramp),
            Load::Sessions(sessions) => {
                (sessions.arrivals, sessions.rate, sessions.steps.clone(), sessions.ramp)
            }
        };
        if usize::from(rate.is_some()) + usize::from(steps.is_some()) + usize::from(ramp.is_some()) != 1 {
            return wrong(
                "load needs exactly one of rate, steps and ramp, the one that its arrivals name".into(),
            );
        }
        let shape = match (arrivals, rate, steps, ramp) {
            (Arrivals::Uniform, Some(rate), ..) => Shape::Uniform { rate: above_zero("load.rate", rate)? },
            (Arrivals::Poisson, Some(rate), ..) => Shape::Poisson { rate: above_zero("load.rate", rate)? },
            (Arrivals::Steps, _, Some(steps), _) => {
                self.duration_s = self.steps_last(&steps)?;
                Shape::Steps(steps)
            }
            (Arrivals::Ramp, _, _, Some((from, to))) => {
                within("load.ramp", from, 0.0, HIGHEST_RATE)?;
                above_zero("load.ramp's higher end", from.max(to))?;
                within("load.ramp", to, 0.0, HIGHEST_RATE)?;
                Shape::Ramp { from, to, seconds: self.duration_s }
            }
            _ => {
                return wrong(
                    format!(
                        "load.arrivals is {arrivals:?}, but what it needs (rate, steps or ramp) is missing"
                    )
                    .to_lowercase(),
                );
            }
        };
        Ok(Some(shape))
    }

    fn steps_last(&self, steps: &[(f64, f64)]) -> Result<f64, Stop> {
        for (rate, seconds) in steps {
            within("a rate of load.steps", *rate, 0.0, HIGHEST_RATE)?;
            within("the seconds of a step", *seconds, 1e-3, LONGEST_S)?;
        }
        Ok(steps.iter().map(|(_, seconds)| seconds).sum())
    }

    /// Whether the numbers make sense, each and together.
    pub fn check(&self) -> Result<(), Stop> {
        if self.format != 1 {
            return wrong(format!("format is {}: this engine reads format 1", self.format));
        }
        if !["1.0", "1.1", "2"].contains(&self.http.as_str()) {
            return wrong(format!("http is {:?}: \"1.0\", \"1.1\" or \"2\"", self.http));
        }
        self.check_secure()?;
        within("duration_s", self.duration_s, 1e-3, LONGEST_S)?;
        within("drain_s", self.drain_s, 0.0, LONGEST_S)?;
        if self.warmup_s as f64 >= self.duration_s {
            return wrong(format!(
                "warmup_s is {}, but the whole load lasts {} s: nothing would be measured",
                self.warmup_s, self.duration_s
            ));
        }
        within("timeouts.connect_s", self.timeouts.connect_s, 1e-3, LONGEST_S)?;
        within("timeouts.first_byte_s", self.timeouts.first_byte_s, 1e-3, LONGEST_S)?;
        within("timeouts.body_s", self.timeouts.body_s, 1e-3, LONGEST_S)?;
        within("late_after_ms", self.late_after_ms, 0.0, LONGEST_S)?;
        for (name, slow) in [("slow_read", self.slow_read), ("slow_write", self.slow_write)] {
            let Some(slow) = slow else { continue };
            counted(&format!("{name}.bytes"), slow.bytes, 1, 1 << 30)?;
            within(&format!("{name}.every_s"), slow.every_s, 1e-4, LONGEST_S)?;
        }
        if let Some(threads) = self.threads {
            counted("threads", threads, 1, MOST_THREADS)?;
        }
        if let Some((number, parts)) = self.part {
            counted("the second number of part", parts, 1, MOST_PARTS)?;
            counted("the first number of part", number, 1, parts)?;
        }
        if self.requests.is_empty() || self.requests.iter().all(|request| request.weight == 0) {
            return wrong("requests needs at least one with a weight above 0".into());
        }
        self.check_load()
    }

    fn check_secure(&self) -> Result<(), Stop> {
        if self.tls.is_some() && !self.url.starts_with("https://") {
            return wrong("tls is given, but the URL does not begin with https://".into());
        }
        if self.is_http2() && (self.slow_read.is_some() || self.slow_write.is_some()) {
            return wrong("slow_read and slow_write are for HTTP/1: http is \"2\"".into());
        }
        Ok(())
    }

    /// Streams are HTTP/2's, pipelines HTTP/1's, and neither goes with a connection for each request.
    fn check_depth(&self, pipeline: usize, streams: usize) -> Result<(), Stop> {
        counted("load.pipeline", pipeline, 1, MOST_PIPELINED)?;
        counted("load.streams", streams, 1, MOST_STREAMS)?;
        let (name, depth) = if self.is_http2() { ("streams", streams) } else { ("pipeline", pipeline) };
        if streams > 1 && !self.is_http2() {
            return wrong("load.streams is above 1: that needs http \"2\"".into());
        }
        if pipeline > 1 && self.is_http2() {
            return wrong("load.pipeline is above 1, but HTTP/2 has streams: give load.streams".into());
        }
        if depth > 1 && !self.keeps_alive() {
            return wrong(format!("load.{name} is above 1, but connections are not kept alive"));
        }
        Ok(())
    }

    fn check_load(&self) -> Result<(), Stop> {
        // Each part has a connection at least, and each is told of the same plan.
        let least = self.part.map_or(1, |(_, parts)| parts);
        match &self.load {
            Load::Closed(closed) => {
                counted("load.connections", closed.connections, least, MOST_CONNECTIONS)?;
                self.check_depth(closed.pipeline, closed.streams)?;
                if closed.pipeline > 1 && self.slow_write.is_some() {
                    return wrong("load.pipeline is above 1 and slow_write is given: choose one".into());
                }
            }
            Load::Open(open) => {
                self.check_depth(1, open.streams)?;
                if let Some(most) = open.max_connections {
                    counted("load.max_connections", most, least, MOST_CONNECTIONS)?;
                }
            }
            Load::Sessions(sessions) => {
                counted("load.requests", sessions.requests as usize, 1, u32::MAX as usize)?;
                within("load.think_s", sessions.think_s, 0.0, LONGEST_S)?;
            }
        }
        Ok(())
    }
}

pub fn wrong<T>(words: String) -> Result<T, Stop> {
    Err(Stop::Plan(words))
}

fn above_zero(name: &str, value: f64) -> Result<f64, Stop> {
    if value > 0.0 && value <= HIGHEST_RATE {
        Ok(value)
    } else {
        wrong(format!("{name} is {value}: more than 0, and at most {HIGHEST_RATE}"))
    }
}

fn within(name: &str, value: f64, least: f64, most: f64) -> Result<(), Stop> {
    if value >= least && value <= most {
        Ok(())
    } else {
        wrong(format!("{name} is {value}: from {least} to {most}"))
    }
}

fn counted(name: &str, value: usize, least: usize, most: usize) -> Result<(), Stop> {
    if value >= least && value <= most {
        Ok(())
    } else {
        wrong(format!("{name} is {value}: from {least} to {most}"))
    }
}
