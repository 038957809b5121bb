//! What is known beforehand comes out: a server that stands still for a second, delays of two lengths, a generator that is held up.
//!
//! These are measurements, and a machine that is busy with something else delays servers and engine as it likes. A run that was
//! disturbed, which the engine's own timers and a sleeper of the test show, is made again, a few times at most.

use crate::serving::{GOOD, check_sums, engine, listener, load, pong, pong_quickly, result, serve, unpacked};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TRIES: usize = 20;

/// This test's own program, as a server in another process, which can be stopped.
struct Apart {
    child: Child,
    address: SocketAddr,
}

impl Apart {
    fn start() -> Apart {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["--ignored", "--exact", "truth::serves_until_it_is_killed", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let told = lines
            .map_while(Result::ok)
            .find_map(|line| line.rsplit_once("address ").map(|(_, address)| address.to_string()));
        let address = told.and_then(|address| address.parse().ok()).expect("the server tells its address");
        Apart { child, address }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No test of its own: `Apart` runs it. It ends, at the latest, when its parent does.
#[test]
#[ignore = "a server for the other tests"]
fn serves_until_it_is_killed() {
    let listener = listener();
    let address = listener.local_addr().expect("it is bound");
    let mut out = std::io::stdout();
    writeln!(out, "address {address}").and_then(|()| out.flush()).expect("the parent reads");
    thread::spawn(move || pong_quickly(&listener));
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

fn signal(process: &Child, signal: Signal) {
    kill_process(Pid::from_child(process), signal).expect("the process is ours");
}

fn percentile(distribution: &Value, name: &str) -> f64 {
    distribution["percentiles_us"][name].as_f64().expect("a number") / 1e6
}

/// More than this late, and a processor was away: in µs, of a timer of this test or of the engine.
const DISTURBED: f64 = 3e3;

/// Runs `work` beside a thread that only sleeps; the most by which that overslept, in µs.
fn watched<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut worst = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::sleep(Duration::from_millis(2));
                worst = worst.max(began.elapsed());
            }
            worst.as_secs_f64() * 1e6 - 2e3
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        (done, sleeper.join().expect("it only sleeps"))
    })
}

/// Measures until a run `agrees`. One that does not, though nothing disturbed it, is wrong at once.
fn measured(mut measure: impl FnMut() -> Value, agrees: impl Fn(&Value) -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..TRIES {
        let (result, overslept) = watched(&mut measure);
        check_sums(&result);
        let Err(why) = agrees(&result) else { return };
        let beat = result["generator"]["heartbeat"]["max_us"].as_f64().unwrap_or(0.0);
        assert!(overslept.max(beat) > DISTURBED, "{why}");
        last = why;
    }
    panic!("{last}; and processors were away in each of {TRIES} tries: is the machine busy?");
}

fn near(name: &str, measured: f64, wanted: f64, tolerance: f64) -> Result<(), String> {
    if (measured - wanted).abs() <= tolerance {
        Ok(())
    } else {
        Err(format!("{name} is {measured}, not {wanted} ± {tolerance}"))
    }
}

#[test]
fn a_server_that_stands_still_for_a_second_is_seen_by_every_request_of_it() {
    // 500 a second for 10 s, and nothing for one of them: the 500 that were planned in it wait from 1 s to 0 s. That is a tenth
    // of all, so the percentiles above the 90th are those waits, evenly: half a second at 95, nine tenths at 99.
    let stood = std::cell::Cell::new(1.0);
    measured(
        || {
            let server = Apart::start();
            let url = format!("http://{}/", server.address);
            let run = engine()
                .args([&url, "--rate", "500", "--duration", "10s", "--threads", "1"])
                .spawn()
                .expect("it starts");
            thread::sleep(Duration::from_millis(4200));
            signal(&server.child, Signal::STOP);
            let stopped = Instant::now();
            thread::sleep(Duration::from_secs(1).saturating_sub(stopped.elapsed()));
            signal(&server.child, Signal::CONT);
            // This test is not always woken in time, and then the second was a longer one.
            stood.set(stopped.elapsed().as_secs_f64());
            result(run.wait_with_output().expect("the engine ends"))
        },
        |result| {
            let response = &result["times"]["response"];
            if result["totals"]["replies"] != 5000 || result["errors"] != serde_json::json!({}) {
                return Err(format!("not 5000 good replies: {:#} {:#}", result["totals"], result["errors"]));
            }
            let longer = stood.get() - 1.0;
            near("p95", percentile(response, "95"), 0.5 + longer, 0.025)?;
            near("p99", percentile(response, "99"), 0.9 + longer, 0.045)?;
            near("max", response["max_us"].as_f64().unwrap_or(0.0) / 1e6, 1.0 + longer, 0.05)
        },
    );
}

/// Replies after 20 ms and after 50 ms, in turn on each connection, to the microsecond: it sleeps, and then looks at the clock.
fn two_delays(mut peer: crate::serving::Peer) {
    while peer.request().is_some() {
        let delay = Duration::from_millis(if peer.number % 2 == 1 { 20 } else { 50 });
        let read = Instant::now();
        thread::sleep(delay - Duration::from_millis(1));
        while read.elapsed() < delay {
            std::hint::spin_loop();
        }
        peer.send(GOOD);
    }
}

#[test]
fn delays_of_two_lengths_come_out_as_they_are() {
    let address = serve(two_delays);
    measured(
        || load(address, "--connections 1 --count 80 --duration 20s --threads 1"),
        |result| {
            // 40 of each, so these percentiles are the same quarter of each half: late wake-ups move the upper ones first.
            let response = unpacked(&result["times"]["response"]["hdr"]);
            let at = |quantile| response.value_at_quantile(quantile) as f64 / 1e6;
            near("the shorter delay", at(0.125), 0.020, 0.0002)?;
            near("the longer delay", at(0.625), 0.050, 0.0005)
        },
    );
}

#[test]
fn a_generator_that_is_held_to_little_processor_says_so() {
    let address = serve(pong);
    for flags in [["--rate", "500"], ["--connections", "8"]] {
        let url = format!("http://{address}/");
        let run = engine()
            .arg(url)
            .args(flags)
            .args(["--duration", "3s", "--threads", "1"])
            .spawn()
            .expect("it starts");
        // 5 ms of 100: what a scheduler does with a quota of 5 %.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            signal(&run, Signal::STOP);
            thread::sleep(Duration::from_millis(95));
            signal(&run, Signal::CONT);
            thread::sleep(Duration::from_millis(5));
        }
        let result = result(run.wait_with_output().expect("the engine ends"));
        assert_eq!(result["generator"]["verdict"], "at_fault", "{:#}", result["generator"]);
        assert_eq!(result["errors"], serde_json::json!({}), "the server did nothing wrong");
        check_sums(&result);
    }
}

#[test]
fn starts_that_a_held_up_generator_comes_to_late_are_made_and_told() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let address = serve(move |mut peer| {
        while peer.request().is_some() {
            count.fetch_add(1, Ordering::Relaxed);
            peer.send(GOOD);
        }
    });
    let url = format!("http://{address}/");
    let flags = ["--rate", "250", "--duration", "2s", "--drain", "500ms", "--threads", "1", "--live-json"];
    let run = engine().arg(url).args(flags).stderr(Stdio::null()).spawn().expect("it starts");
    // Once it has begun: a fifth of a second after that.
    while asked.load(Ordering::Relaxed) < 50 {
        thread::sleep(Duration::from_millis(1));
    }
    signal(&run, Signal::STOP);
    // Until long after the last planned moment, and the drain too.
    thread::sleep(Duration::from_millis(2700));
    signal(&run, Signal::CONT);
    let result = result(run.wait_with_output().expect("the engine ends"));
    assert_eq!(
        (&result["totals"]["replies"], &result["errors"]),
        (&serde_json::json!(500), &serde_json::json!({}))
    );
    assert!(result["generator"]["faults"]["late_start"].as_u64() >= Some(100), "{:#}", result["generator"]);
    assert_eq!(result["generator"]["verdict"], "at_fault");
    check_sums(&result);
}
