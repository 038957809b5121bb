//! Which metrics there are: OpenTelemetry's names for what every HTTP server has, `forehand_` before all others.
//!
//! Knows: names, help, labels. Does not know: how they are written (`exposition.rs`), where numbers come from
//! (`statistics`).

use reactor::sys::taken;

use super::condition;
use super::exposition::Exposition;
use super::samples::{Distribution, Labels};
use crate::counters;
use crate::rows::{Field, Page, Rows};
use crate::statistics::histogram::BOUNDS;
use crate::statistics::layout::Meta;
use crate::statistics::phase::{ENDINGS, NAMES, Phase};
use crate::statistics::segment::{Segment, Server};
use crate::statistics::series::Key;
use crate::statistics::snapshot::Snapshot;

/// Why workers end, as far as that is known before one has, by the words of `python/forehand/supervisor/statistics.py`: who
/// looks for what has come since sees nothing of what was not there the last time.
const EXITS: [&str; 16] = [
    "asked",
    "deadline",
    "max_requests",
    "max_worker_age",
    "max_worker_memory",
    "never_began",
    "oom",
    "signal:SIGABRT",
    "signal:SIGBUS",
    "signal:SIGFPE",
    "signal:SIGILL",
    "signal:SIGKILL",
    "signal:SIGSEGV",
    "signal:SIGTERM",
    "status:1",
    "status:4",
];
/// What a worker's short name begins with; its number follows.
const WORKER: &str = "forehand-w";

/// Everything that there is to be said.
pub fn write<P: Page>(
    text: &mut Exposition,
    found: &Snapshot,
    (segment, rows): (&Segment, &Rows<P>),
    build: &[(String, String)],
) {
    requests(text, found);
    phases(text, found);
    routes(text, found);
    load(text, found, rows);
    workers(text, found);
    server(text, segment, build);
    counted(text, found);
}

fn requests(text: &mut Exposition, found: &Snapshot) {
    text.histogram(
        "http_server_request_duration_seconds",
        "How long requests took, from their first byte to the last of the reply.",
    );
    for (place, (key, series)) in &found.series {
        let route = &place.1;
        let status = key.map_or(0, Key::status);
        let error = error_type(*key);
        let status = if status == 0 { String::new() } else { status.to_string() };
        let labels = [
            ("http_request_method", key.map_or("_OTHER", Key::method)),
            ("http_response_status_code", status.as_str()),
            ("url_scheme", key.map_or("", Key::scheme)),
            ("network_protocol_version", key.map_or("", Key::version)),
            ("http_route", route.as_str()),
            ("error_type", error.as_str()),
        ];
        let exemplars = found.exemplars.get(place).map_or(&[][..], |all| all);
        let told =
            Distribution { exemplars, ..Distribution::of_buckets(&BOUNDS, &series.buckets, series.sum) };
        text.distribution(&labels, &told);
    }
    text.histogram(
        "forehand_request_seconds",
        "The same of all requests of which a head was read, in finer buckets where the scraper takes native histograms.",
    );
    text.distribution(&[], &Distribution::of(&found.phases[Phase::Total as usize]));
    text.gauge("http_server_active_requests", "Requests that are inside workers now.");
    text.sample(&[], found.inside());
    for (name, help, what) in [
        (
            "http_server_request_body_size_bytes_total",
            "Content bytes of requests, by their Content-Length.",
            Meta::Received,
        ),
        ("http_server_response_body_size_bytes_total", "Content bytes of replies.", Meta::Sent),
        (
            "forehand_requests_died_inside_total",
            "Requests that were inside a worker when it died.",
            Meta::DiedInside,
        ),
        ("forehand_clock_skew_total", "Requests whose X-Request-Start could not be right.", Meta::ClockSkew),
        ("forehand_trace_spans_total", "Requests whose spans were left for the exporter.", Meta::Spans),
        (
            "forehand_trace_spans_dropped_total",
            "Requests whose spans found no room, as the exporter did not take those before them.",
            Meta::SpansDropped,
        ),
        (
            "forehand_series_overflow_total",
            "Requests that were counted without their labels, as there were too many.",
            Meta::Overflow,
        ),
        (
            "forehand_routes_overflow_total",
            "Requests that were counted without a route, as there was no place for it.",
            Meta::Unplaced,
        ),
    ] {
        text.counter(name, help);
        text.sample(&[], found.meta(what));
    }
}

/// Why it failed, where it did: a word of ours, or its status.
fn error_type(key: Option<Key>) -> String {
    let Some(key) = key else { return "overflow".into() };
    match ENDINGS.get(usize::from(key.ending())).copied().unwrap_or_default() {
        "" if key.status() >= 500 => key.status().to_string(),
        word => word.into(),
    }
}

fn phases(text: &mut Exposition, found: &Snapshot) {
    text.histogram(
        "forehand_request_phase_seconds",
        "Where requests spent their time; cpu and off are parts of app, known of a part of all requests.",
    );
    for (name, histogram) in NAMES.iter().zip(&found.phases).take(Phase::Total as usize) {
        text.distribution(&[("phase", name)], &Distribution::of(histogram));
    }
}

fn routes(text: &mut Exposition, found: &Snapshot) {
    let mut family =
        |name, help, value: &dyn Fn(&mut Exposition, Labels<'_>, &crate::statistics::routes::Route)| {
            text.counter(name, help);
            for (route, counted) in &found.routes {
                value(text, &[("route", route)], counted);
            }
        };
    family("forehand_route_requests_total", "Requests by route.", &|text, labels, route| {
        text.sample(labels, route.requests);
    });
    family("forehand_route_errors_total", "Requests that failed, by route.", &|text, labels, route| {
        text.sample(labels, route.errors);
    });
    family(
        "forehand_route_seconds_total",
        "Time inside the application, by route: who uses the threads.",
        &|text, labels, route| {
            text.seconds(labels, route.app);
        },
    );
    family(
        "forehand_route_cpu_seconds_total",
        "Of that, what was used of a processor, in requests whose thread's clock was read.",
        &|text, labels, route| {
            text.seconds(labels, route.cpu);
        },
    );
    family(
        "forehand_route_cpu_requests_total",
        "Requests whose thread's clock was read, by route.",
        &|text, labels, route| {
            text.sample(labels, route.measured);
        },
    );
    family(
        "forehand_route_memory_requests_total",
        "Requests by route that were alone in their worker, and before and after which its memory was looked at.",
        &|text, labels, route| {
            text.sample(labels, route.weighed);
        },
    );
    // It may shrink, so that it is no counter.
    text.gauge(
        "forehand_route_memory_growth_bytes",
        "Memory by which requests have made workers grow: those that were looked at stand for all of their route.",
    );
    for (route, counted) in found.routes.iter().filter(|(_, counted)| counted.weighed > 0) {
        text.signed(&[("route", route)], counted.growth());
    }
}

fn load<P: Page>(text: &mut Exposition, found: &Snapshot, rows: &Rows<P>) {
    let sum = |field| found.workers.iter().map(|worker| rows.of(worker.row, field)).sum::<u64>();
    let (busy, most) = (sum(Field::Busy), sum(Field::Threads));
    text.gauge(
        "forehand_threads",
        "Threads, greenlets or tasks: inside the application, and how many more may be.",
    );
    text.sample(&[("state", "busy")], busy);
    text.sample(&[("state", "free")], most.saturating_sub(busy));
    text.gauge("forehand_queue_length", "Requests that wait for a thread.");
    text.sample(&[], found.workers.iter().map(|worker| rows.queued_of(worker.row).0).sum::<u64>());
    condition::queue(text, found);
    text.gauge("forehand_connections", "Open connections.");
    text.sample(&[], sum(Field::Connections));
}

/// What each worker has of the machine, as the kernel says.
fn workers(text: &mut Exposition, found: &Snapshot) {
    let all = found.workers.iter().filter_map(|worker| {
        let taken = taken(worker.pid)?;
        // An application may have given its process another name.
        let number = taken.name.strip_prefix(WORKER).unwrap_or_default().to_owned();
        Some((number, worker.pid.to_string(), taken))
    });
    let all: Vec<_> = all.collect();
    text.gauge(
        "forehand_worker_memory_bytes",
        "Memory of each worker that is resident, shared pages included.",
    );
    for (number, pid, taken) in &all {
        text.sample(&[("worker", number), ("pid", pid)], taken.resident);
    }
    text.counter("forehand_worker_cpu_seconds_total", "What each worker has used of processors.");
    for (number, pid, taken) in &all {
        text.seconds(&[("worker", number), ("pid", pid)], taken.processor);
    }
    condition::loops(text, found, |of| {
        let named = all.iter().find(|(_, pid, _)| *pid == of);
        named.map_or("", |(number, ..)| number)
    });
    condition::collections(text, found);
}

fn server(text: &mut Exposition, segment: &Segment, build: &[(String, String)]) {
    let say = |what| segment.server(what);
    text.gauge(
        "forehand_workers",
        "Worker processes: that serve, that are starting or leaving, and that are wanted.",
    );
    text.sample(&[("state", "ready")], say(Server::Ready));
    text.sample(&[("state", "other")], say(Server::Workers).saturating_sub(say(Server::Ready)));
    text.sample(&[("state", "wanted")], say(Server::Wanted));
    text.gauge("forehand_generation", "Grows with each reload that succeeds.");
    text.sample(&[], say(Server::Generation));
    text.gauge("process_start_time_seconds", "When the server was started, in seconds since 1970.");
    text.sample(&[], say(Server::Started));
    text.counter("forehand_worker_starts_total", "Workers that were started.");
    text.sample(&[], say(Server::Starts));
    text.counter("forehand_worker_exits_total", "Workers that have ended, by the reason.");
    let exits = segment.exits();
    for reason in EXITS.iter().filter(|known| exits.iter().all(|(reason, _)| reason != **known)) {
        text.sample(&[("reason", reason)], 0);
    }
    for (reason, count) in exits {
        text.sample(&[("reason", &reason)], count);
    }
    text.counter("forehand_reloads_total", "Reloads and upgrades that have ended.");
    text.sample(&[("outcome", "done")], say(Server::ReloadsDone));
    text.sample(&[("outcome", "given_up")], say(Server::ReloadsFailed));
    text.gauge("forehand_build_info", "What is running, in labels.");
    let labels: Vec<(&str, &str)> =
        build.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    text.sample(&labels, 1);
}

/// Every counter of the engine under its own name.
fn counted(text: &mut Exposition, found: &Snapshot) {
    for ((name, help), count) in counters::TABLE.iter().zip(&found.counters) {
        // Prometheus wants times in seconds, and under that name.
        if let Some(bare) = name.strip_suffix("_ms") {
            text.counter(&format!("forehand_{bare}_seconds_total"), help);
            text.seconds(&[], count.saturating_mul(1_000_000));
            continue;
        }
        let bare = name.strip_suffix("_total").unwrap_or(name);
        text.counter(&format!("forehand_{bare}_total"), help);
        text.sample(&[], *count);
    }
    text.counter(
        "forehand_http_parse_errors_total",
        "What was refused because it was no request as the RFCs have them.",
    );
    let (refusals, faults) = found
        .counters
        .get(counters::TABLE.len()..)
        .unwrap_or_default()
        .split_at_checked(wire::REASONS.len())
        .unwrap_or_default();
    by_reason(text, wire::REASONS, refusals);
    text.counter("forehand_h2_faults_total", "What was wrong with frames and streams of HTTP/2.");
    by_reason(text, wire::h2::H2_REASONS, faults);
}

/// Those that have happened.
fn by_reason(text: &mut Exposition, reasons: &[&str], counts: &[u64]) {
    for (reason, count) in reasons.iter().zip(counts) {
        if *count > 0 {
            text.sample(&[("reason", reason)], *count);
        }
    }
}
