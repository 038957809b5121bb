//! The generator's own limits: descriptors, ports, signals, and what is told of a wrong order.

use crate::serving::{check_sums, engine, load, pong, result, serve};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

#[test]
fn without_descriptors_the_server_is_not_accused() {
    let address = serve(pong);
    let program = env!("CARGO_BIN_EXE_forehand-load");
    for load in ["--connections 60", "--rate 300 --close --slow-write 1:4ms"] {
        let script =
            format!("ulimit -n 30; exec {program} http://{address}/ {load} --duration 500ms --threads 1");
        let result = result(Command::new("sh").args(["-c", &script]).output().expect("a shell"));
        assert_eq!(result["errors"], json!({}), "{load}");
        assert!(
            result["generator"]["faults"]["descriptor_unavailable"].as_u64() > Some(0),
            "{:#}",
            result["generator"]
        );
        assert_eq!(result["generator"]["verdict"], "at_fault");
        assert!(
            result["generator"]["reasons"][0].as_str().is_some_and(|reason| reason.contains("ulimit -n"))
        );
        check_sums(&result);
    }
}

#[test]
fn without_a_local_address_the_server_is_not_accused() {
    let address = serve(pong);
    // TEST-NET-1 (RFC 5737): no machine has it.
    let result = load(address, "--rate 100 --duration 200ms --threads 1 --source 192.0.2.1");
    assert_eq!(result["errors"], json!({}));
    assert_eq!(result["generator"]["faults"]["address_unavailable"], 20);
    assert_eq!(result["generator"]["verdict"], "at_fault");
    check_sums(&result);
}

/// Says to the test in its own network which source it should use.
const SOURCE: &str = "LOAD_SOURCE";

/// No test of its own: it runs in a network of its own, with 12 ports. Standard output is the result.
#[test]
#[ignore = "run in its own network by the next test"]
fn load_in_a_network_with_few_ports() {
    let address = serve(pong);
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40011").expect("this network is ours");
    let mut out = std::io::stdout();
    // The kernel chooses ports, then the engine does.
    for source in ["", "--source 127.0.0.1"] {
        let result = load(address, &format!("--connections 40 --duration 500ms --threads 1 {source}"));
        std::io::Write::write_all(&mut out, format!("\nRESULT {result}\n").as_bytes())
            .expect("the parent reads");
    }
}

/// What `load_in_a_network_with_few_ports` gives in a network that is made for it; None where none may be made.
fn in_its_own_network(source: &str) -> Option<Value> {
    let program = std::env::current_exe().expect("this program has a path");
    let script = format!(
        "ip link set lo up && exec {} --ignored --exact limits::load_in_a_network_with_few_ports --nocapture",
        program.display()
    );
    // As root at once, and otherwise as the root of a user namespace.
    let run = |flags| Command::new("unshare").args([flags, "sh", "-c", &script]).env(SOURCE, source).output();
    let tries = [run("-n"), run("-rn")];
    let Some(output) = tries.iter().flatten().find(|output| output.status.success()) else {
        let why = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
        let told: Vec<String> = tries.iter().flatten().map(why).collect();
        // No unshare, no ip, or no leave to use them; anything else is a failure.
        assert!(told.iter().all(|line| line.contains("unshare") || line.contains("not found")), "{told:?}");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT ")).expect("a result");
    Some(serde_json::from_str(line).expect("it is JSON"))
}

#[test]
fn without_ports_the_server_is_not_accused() {
    // The kernel chooses the ports, and the engine does.
    for source in ["", "--source 127.0.0.1"] {
        // A container that forbids networks of one's own: the test above, with an address, covers the same lines.
        let Some(result) = in_its_own_network(source) else { return };
        assert_eq!(result["errors"], json!({}));
        assert_eq!(result["totals"]["connections"]["opened"], 12);
        let faults = &result["generator"]["faults"];
        assert!(faults["address_unavailable"].as_u64() >= Some(28), "{:#}", result["generator"]);
        assert_eq!(result["generator"]["verdict"], "at_fault");
        check_sums(&result);
    }
}

#[test]
fn an_interruption_keeps_what_was_measured() {
    let address = serve(pong);
    for signal in [Signal::INT, Signal::TERM] {
        let url = format!("http://{address}/");
        let mut run = engine()
            .args([&url, "--rate", "200", "--duration", "60s", "--live-json"])
            .spawn()
            .expect("it starts");
        let mut told = BufReader::new(run.stderr.take().expect("it is piped"));
        let mut line = String::new();
        told.read_line(&mut line).expect("a line a second");
        let second: Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(second["second"], 0);
        kill_process(Pid::from_child(&run), signal).expect("the process is ours");
        // Read to its end, so that the engine never waits for us.
        told.read_to_string(&mut line).expect("text");
        let output = run.wait_with_output().expect("the engine ends");
        assert_eq!(output.status.code(), Some(130));
        let result = result(output);
        assert_eq!(result["ended"], "interrupted");
        assert!(result["totals"]["replies"].as_u64() >= Some(100), "{:#}", result["totals"]);
        assert!(result["window_s"].as_f64() < Some(59.0));
        check_sums(&result);
    }
}

/// The one line and the exit status that wrong arguments lead to.
fn told(arguments: &[&str]) -> (Option<i32>, String) {
    let output = engine().args(arguments).stdout(Stdio::null()).output().expect("the engine starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_wrong_order_is_answered_in_one_line() {
    let url = "http://127.0.0.1:1/";
    for (arguments, words) in [
        (vec![], "no URL"),
        (vec!["127.0.0.1:8000"], "does not begin with http://"),
        (vec!["https://127.0.0.1:1/"], "exactly one of tls.ca"),
        (vec!["http:///x"], "no plain host"),
        (vec!["http://127.0.0.1:0/"], "port"),
        (vec!["http://127.0.0.1:99999/"], "port"),
        (vec!["http://no-such-host.invalid/"], "cannot find the host"),
        (vec!["http://127.0.0.1/a b"], "percent-encoded"),
        (vec![url, "--connektions", "5"], "no flag --connektions"),
        (vec![url, "--connections"], "missing argument"),
        (vec![url, "--connections", "many"], "is not the number"),
        (vec![url, "--connections", "0"], "load.connections is 0"),
        (vec![url, "--duration", "soon"], "5s, 500ms or 2m"),
        (vec![url, "--duration", "0"], "duration_s is 0"),
        (vec![url, "--rate", "0"], "load.rate is 0"),
        (vec![url, "--rate", "5", "--connections", "5"], "--max-connections"),
        (vec![url, "--rate", "5", "--sessions", "5"], "choose one"),
        (vec![url, "--rate", "5", "--arrivals", "ramp"], "what it needs"),
        (vec![url, "--rate", "5:x"], "neither a number"),
        (vec![url, "--think", "5s"], "--think does not belong"),
        (vec![url, "--http", "3"], "\"1.0\", \"1.1\" or \"2\""),
        (vec![url, "--streams", "2"], "needs http \"2\""),
        (vec![url, "--ca", "/no/such/file"], "does not begin with https://"),
        (vec!["--certificate", "/no/such/folder", "--close"], "no other flag"),
        (vec![url, "--header", "no colon"], "has no colon"),
        (vec![url, "--header", "a: b\nc: d"], "cannot be a header field"),
        (vec![url, "--method", "GET /"], "cannot be a method"),
        (vec![url, "--body-file", "/no/such/file"], "cannot read the body"),
        (vec![url, "--expect-body-file", "/no/such/file"], "cannot read the expected body"),
        (vec![url, "--chunked"], "a body"),
        (vec![url, "--source", "nowhere"], "is no address"),
        (vec![url, "--source", "::1"], "different families"),
        (vec![url, "--unix", "/tmp/x", "--source", "127.0.0.1"], "choose one"),
        (vec![url, "--pipeline", "5", "--close"], "kept alive"),
        (vec![url, "--warmup", "9"], "nothing would be measured"),
        (vec![url, "--start-at", "5"], "give a moment to come"),
        (vec![url, "--part", "3"], "K/N, such as 1/3"),
        (vec![url, "--part", "4/3"], "the first number of part is 4: from 1 to 3"),
        (vec![url, "--part", "1/3", "--connections", "2"], "load.connections is 2: from 3 to"),
        (vec![url, "--slow-read", "5"], "bytes and a time"),
        (vec![url, "--plan", "/no/such/file"], "beside it only"),
        (vec!["--plan", "/no/such/file"], "cannot read the plan"),
        (vec!["--plan", "Cargo.toml"], "not as FORMAT.md says"),
    ] {
        let (status, line) = told(&arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {line}");
        assert!(line.starts_with("forehand-load: ") && line.contains(words), "{arguments:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{arguments:?}: {line}");
    }
}

#[test]
fn what_the_machine_refuses_is_answered_in_one_line() {
    let address = serve(pong);
    let url = format!("http://{address}/");
    for (arguments, words) in [
        (
            vec![
                // So little that nothing else is to be said of it, whatever else the machine does.
                &url[..],
                "--rate",
                "20",
                "--duration",
                "50ms",
                "--late-after",
                "9s",
                "--output",
                "/no/such/folder/result.json",
            ],
            "cannot write the result",
        ),
        (vec![&url[..], "--duration", "50ms", "--trace", "/no/such/folder/trace.csv"], "write the trace to"),
        (vec![&url[..], "--duration", "50ms", "--cpu", "1023"], "cannot bind to the processors"),
    ] {
        let (status, line) = told(&arguments);
        assert_eq!(status, Some(1), "{arguments:?}: {line}");
        assert!(line.contains(words) && line.lines().count() == 1, "{arguments:?}: {line}");
    }
}

#[test]
fn a_field_that_does_not_exist_is_named() {
    let path = std::env::temp_dir().join(format!("misspelt-{}.json", std::process::id()));
    for (plan, words) in [
        (
            json!({"url": "http://127.0.0.1:1/", "load": {"kind": "closed", "connections": 1}, "durations_s": 5}),
            "durations_s",
        ),
        (json!({"url": "http://127.0.0.1:1/", "load": {"kind": "closed", "conections": 1}}), "conections"),
        (json!({"url": "http://127.0.0.1:1/", "load": {"kind": "shut"}}), "shut"),
        (json!({"load": {"kind": "closed", "connections": 1}}), "url"),
        (
            json!({"format": 2, "url": "http://127.0.0.1:1/", "load": {"kind": "closed", "connections": 1}}),
            "reads format 1",
        ),
    ] {
        std::fs::write(&path, plan.to_string()).expect("a plan is written");
        let (status, line) = told(&["--plan", path.to_str().expect("text")]);
        assert_eq!(status, Some(2), "{line}");
        assert!(line.contains(words) && line.lines().count() == 1, "{line}");
    }
    let _ = std::fs::remove_file(&path);
}
