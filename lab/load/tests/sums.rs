//! The result adds up: seconds to the whole, seeds to the same plan, waiting to the response, sessions to little memory.

use crate::serving::{GOOD, check_sums, listener, load, plan, pong, pong_quickly, serve, unpacked};
use forehand_load::worker::{BUFFER, READS_A_TURN};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;

#[test]
fn seconds_add_up_to_the_whole_without_loss_and_the_warm_up_is_not_in_it() {
    let address = serve(pong);
    let result = load(address, "--rate 300 --arrivals poisson --duration 3s --warmup 1s --threads 2");
    let series = result["series"].as_array().expect("seconds");
    assert!(series[0]["warmup"] == true && series[1]["warmup"] == false);
    let measured = || series.iter().filter(|line| line["warmup"] == false);
    for name in ["response", "service", "connect", "first_byte", "transfer"] {
        let mut sum = unpacked(&json!(""));
        for line in measured() {
            sum.add(unpacked(&line["times"][name])).expect("the same bounds");
        }
        assert_eq!(sum, unpacked(&result["times"][name]["hdr"]), "{name}");
    }
    for (name, total) in [("offered", "offered"), ("started", "started"), ("replies", "replies")] {
        let sum: u64 = measured().filter_map(|line| line[name].as_u64()).sum();
        assert_eq!(result["totals"][total], sum, "{name}");
    }
    assert_eq!(result["window_s"], 2.0);
    let offered = result["totals"]["offered"].as_u64().expect("a count");
    assert!((480..=720).contains(&offered), "600 ± 5 deviations, and not {offered}");
}

#[test]
fn the_same_seed_plans_the_same_load() {
    let address = serve(pong);
    let offered = |flags: &str| -> Vec<u64> {
        let result = load(address, &format!("--rate 500 --arrivals poisson --duration 1s {flags}"));
        result["series"]
            .as_array()
            .expect("seconds")
            .iter()
            .filter_map(|line| line["offered"].as_u64())
            .collect()
    };
    assert_eq!(offered("--seed 3 --threads 1"), offered("--seed 3 --threads 2"));
    assert_ne!(offered("--seed 3")[0], offered("--seed 4")[0]);
}

#[test]
fn parts_do_together_what_one_engine_does_alone() {
    let address = serve(pong);
    for flags in [
        "--rate 400 --arrivals poisson --duration 500ms --seed 3",
        "--rate 1000 --count 100 --duration 1s",
        // As many as come, and then the end: the last of them has time for its requests, however busy the machine is.
        "--sessions 50 --requests 3 --count 25 --duration 20s",
        "--connections 7 --count 100 --duration 5s",
    ] {
        let whole = load(address, &format!("{flags} --threads 1"));
        // Parts may have different numbers of threads.
        let parts: Vec<Value> = (1..=3)
            .map(|number| load(address, &format!("{flags} --part {number}/3 --threads {}", 1 + number % 2)))
            .collect();
        for name in ["/totals/offered", "/totals/started", "/totals/replies", "/totals/sessions/arrived"] {
            let counts: Vec<u64> =
                parts.iter().filter_map(|part| part.pointer(name).and_then(Value::as_u64)).collect();
            assert_eq!(
                whole.pointer(name).and_then(Value::as_u64),
                Some(counts.iter().sum()),
                "{flags} {name} {counts:?}"
            );
            assert!(
                counts.iter().max() <= counts.iter().min().map(|least| least + 12).as_ref(),
                "{name} {counts:?}"
            );
        }
        parts.iter().for_each(check_sums);
    }
}

#[test]
fn machines_can_begin_at_one_moment() {
    let address = serve(pong);
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let result = load(address, &format!("--rate 100 --duration 100ms --start-at {:.3}", now + 1.5));
    let late = result["started_at"].as_f64().expect("a time") - (now + 1.5);
    assert!((-0.001..0.002).contains(&late), "{late}");
}

#[test]
fn what_waits_for_a_connection_counts_from_its_planned_moment() {
    // Each reply takes 20 ms and there is one connection: of 100 a second, half wait longer and longer.
    let address = serve(|mut peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(20));
            peer.send(GOOD);
        }
    });
    let result = load(address, "--rate 100 --max-connections 1 --count 50 --duration 500ms --threads 1");
    assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(50), &json!({})));
    assert_eq!(result["totals"]["connections"]["opened"], 1);
    let max = |name: &str| result["times"][name]["max_us"].as_f64().expect("a time");
    // The last was planned at 490 ms and began, at the earliest, at 980 ms.
    assert!(max("response") >= 510e3, "{} µs", max("response"));
    assert!(max("service") < max("response"), "{} µs", max("service"));
    assert!(result["generator"]["most_queued"].as_u64() >= Some(10));
    check_sums(&result);
}

#[test]
fn a_reply_that_ends_at_the_cap_of_a_turn_is_whole() {
    let cap = READS_A_TURN as usize * BUFFER;
    let address = serve(|mut peer| {
        while let Some(request) = peer.request() {
            let target = String::from_utf8_lossy(&request);
            let size = target.split(' ').nth(1).and_then(|target| target[1..].parse::<usize>().ok());
            let size = size.expect("the target is a number");
            // The head has always the same length, so that the whole reply is `size` bytes.
            let head = |length: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {length:>9}\r\n\r\n");
            let body = size - head(0).len();
            peer.send(&[head(body).as_bytes(), &vec![b'x'; body]].concat());
        }
    });
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 123456789\r\n\r\n".len();
    for size in [cap - 1, cap, cap + 1, 2 * cap, 2 * cap + 1] {
        let result = plan(&json!({
            "url": format!("http://{address}/{size}"),
            "load": {"kind": "closed", "connections": 2, "count": 30},
            "duration_s": 20,
            "threads": 1,
            "requests": [{"expect": {"status": [200], "length": size - head}}],
        }));
        assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(30), &json!({})), "{size}");
        assert_eq!(result["totals"]["bytes_received"], 30 * size, "{size}");
        check_sums(&result);
    }
}

#[test]
fn a_stream_without_end_keeps_nobody_from_work() {
    let address = serve(|mut peer| {
        while let Some(request) = peer.request() {
            if request.starts_with(b"GET /endless") {
                peer.send(b"HTTP/1.1 200 OK\r\n\r\n");
                while peer.stream.write_all(&[b'x'; 65536]).is_ok() {}
                return;
            }
            peer.send(GOOD);
        }
    });
    let result = plan(&json!({
        "url": format!("http://{address}/"),
        "load": {"kind": "open", "rate": 100},
        "duration_s": 1,
        "threads": 1,
        "timeouts": {"body_s": 0.5},
        "requests": [{"name": "quick", "weight": 49}, {"name": "endless", "weight": 1, "target": "/endless"}],
    }));
    let endless =
        result["by_request"]["endless"]["errors"]["body_timeout"].as_u64().expect("some were drawn");
    assert_eq!(result["errors"], json!({"body_timeout": endless}));
    assert_eq!(result["by_request"]["quick"]["replies"], 100 - endless);
    check_sums(&result);
}

#[test]
fn a_session_costs_little_memory() {
    let listener = listener();
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || pong_quickly(&listener));
    let result =
        load(address, "--sessions 3000 --count 3000 --requests 2 --think 3s --duration 30s --threads 1");
    let peak = |result: &Value| result["generator"]["memory_peak_bytes"].as_u64().expect("a size");
    let most = result["totals"]["connections"]["most_open"].as_u64().expect("a count");
    assert!(most >= 1000, "{most} sessions at once");
    assert!(peak(&result) <= most * 12 * 1024, "{} bytes for {most} sessions", peak(&result));
    // And what one session more costs, beside what the program costs without any.
    let one = load(address, "--connections 1 --duration 100ms --threads 1");
    assert!(peak(&result) - peak(&one) <= most * 2048, "{} and {} bytes", peak(&result), peak(&one));
}

#[test]
fn a_trace_has_every_request_with_its_moments_in_order() {
    let address = serve(|mut peer| {
        while peer.request().is_some() {
            if peer.number == 4 {
                return;
            }
            peer.send(GOOD);
        }
    });
    let path = std::env::temp_dir().join(format!("trace-{}.csv", std::process::id()));
    // Few connections, so that each is asked a fourth time, however late a busy machine begins.
    let flags = "--rate 200 --count 40 --max-connections 2 --duration 9s --threads 1";
    let flags = format!("{flags} --trace {}", path.display());
    let result = load(address, &flags);
    let text = std::fs::read_to_string(&path).expect("a trace");
    let _ = std::fs::remove_file(&path);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(forehand_load::trace::COLUMNS));
    let (mut failed, mut ended) = (0, 0);
    let mut planned = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let at = |column: usize| fields[column].parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
        planned.push(at(1));
        assert!(at(2) <= at(3) && at(3) <= at(4) && at(1) <= at(4) && at(4) <= at(6), "{line}");
        if fields[7] == "200" {
            assert!(at(4) <= at(5) && at(5) <= at(6), "{line}");
        } else {
            // Beyond the tenth of a second in which both may have crossed (`settle.rs`) it is the server's end, however busy it was.
            let crossed = at(6) - at(4) <= 100_000;
            assert_eq!(
                (fields[5], fields[7]),
                ("", if crossed { "keep_alive_race" } else { "end_before_reply" }),
                "{line}"
            );
            failed += u64::from(crossed);
            ended += u64::from(!crossed);
        }
    }
    planned.sort_unstable();
    assert_eq!(planned, (0..40).map(|number| number * 5000).collect::<Vec<_>>());
    assert!(failed + ended > 0);
    let told = |kind: &str| result["errors"][kind].as_u64().unwrap_or(0);
    assert_eq!((told("keep_alive_race"), told("end_before_reply")), (failed, ended));
}
