//! Metrics of the machine: who waits in the kernel's queues to be accepted, and what the server's control group has and was
//! kept from.
//!
//! Knows: names, help, labels. Does not know: where the kernel tells (`reactor/sys/queues.rs`, `groups.rs`). All of it is read
//! when somebody asks, and what the kernel does not tell is left out.

use std::collections::BTreeMap;

use reactor::sys::{Groups, Listening, Queue, listen_overflows, queues};

use super::exposition::Exposition;

/// An address that workers listen at, as a user writes it, and a socket of it, which this process does not have.
pub type Listener = (String, Listening);

pub fn write(text: &mut Exposition, listeners: &[Listener]) {
    let sockets: Vec<Listening> = listeners.iter().map(|one| one.1).collect();
    let found = listeners.iter().map(|one| one.0.as_str()).zip(queues(&sockets));
    backlog(text, found.filter_map(|(address, queue)| Some((address, queue?))));
    if let Some(count) = listen_overflows() {
        text.counter(
            "forehand_listen_overflows_total",
            "How often a connection found the queue of its address full: of all TCP of the network namespace, since it began.",
        );
        text.sample(&[], count);
    }
    if let Some(groups) = Groups::own() {
        group(text, &groups);
    }
}

/// Several sockets at an address (SO_REUSEPORT) have a queue each.
fn backlog<'a>(text: &mut Exposition, found: impl Iterator<Item = (&'a str, Queue)>) {
    let mut addresses: BTreeMap<&str, Queue> = BTreeMap::new();
    for (address, queue) in found {
        let sum = addresses.entry(address).or_insert(Queue { waiting: 0, limit: Some(0) });
        sum.waiting += queue.waiting;
        sum.limit = sum.limit.zip(queue.limit).map(|(one, other)| one + other);
    }
    let limits: Vec<_> = addresses.iter().filter_map(|(address, sum)| Some((*address, sum.limit?))).collect();
    gauges(
        text,
        (
            "forehand_listen_backlog",
            "Connections that the kernel keeps waiting until a worker accepts them, by address.",
        ),
        addresses.iter().map(|(address, sum)| (*address, sum.waiting)),
    );
    gauges(
        text,
        (
            "forehand_listen_backlog_limit",
            "How many it keeps: --backlog, or net.core.somaxconn where that is less.",
        ),
        limits.into_iter(),
    );
}

fn gauges<'a>(
    text: &mut Exposition,
    (name, help): (&str, &str),
    numbers: impl Iterator<Item = (&'a str, u64)>,
) {
    let mut numbers = numbers.peekable();
    if numbers.peek().is_some() {
        text.gauge(name, help);
    }
    for (address, number) in numbers {
        text.sample(&[("address", address)], number);
    }
}

fn group(text: &mut Exposition, groups: &Groups) {
    if let Some(throttled) = groups.throttled() {
        text.counter(
            "forehand_cgroup_cpu_throttled_seconds_total",
            "For how long the control group was kept from processors, because its quota was used up.",
        );
        text.seconds(&[], throttled.time);
        text.counter(
            "forehand_cgroup_cpu_throttled_periods_total",
            "In how many periods of its quota it was.",
        );
        text.sample(&[], throttled.periods);
    }
    if let Some((used, most)) = groups.memory() {
        text.gauge(
            "forehand_cgroup_memory_bytes",
            "Memory of the control group which bounds it, or the server's own; without files that the kernel can drop.",
        );
        text.sample(&[], used);
        if let Some(most) = most {
            text.gauge("forehand_cgroup_memory_limit_bytes", "How much memory that group may have.");
            text.sample(&[], most);
        }
    }
    let pressure = groups.pressure();
    if pressure.is_empty() {
        return;
    }
    text.counter(
        "forehand_pressure_stalled_seconds_total",
        "How long some, or all, that had something to do waited for it: in the control group, or on the machine where only it tells.",
    );
    for one in pressure {
        text.seconds(&[("resource", one.resource), ("kind", one.kind)], one.stalled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::form::Form;

    fn written(found: &[(&str, u64, Option<u64>)]) -> String {
        let mut text = Exposition::new(Form::Prometheus);
        let queue = |waiting, limit| Queue { waiting, limit };
        backlog(&mut text, found.iter().map(|(address, waiting, limit)| (*address, queue(*waiting, *limit))));
        String::from_utf8(text.finish()).expect("text")
    }

    #[test]
    fn several_sockets_at_an_address_add_up() {
        let text = written(&[("a:1", 2, Some(10)), ("unix:/b", 5, Some(7)), ("a:1", 3, Some(10))]);
        for line in [
            "forehand_listen_backlog{address=\"a:1\"} 5\n",
            "forehand_listen_backlog{address=\"unix:/b\"} 5\n",
            "forehand_listen_backlog_limit{address=\"a:1\"} 20\n",
            "forehand_listen_backlog_limit{address=\"unix:/b\"} 7\n",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line}{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_left_out_and_not_zero() {
        assert_eq!(written(&[]), "");
        let text = written(&[("a:1", 2, None)]);
        assert!(text.contains("forehand_listen_backlog{address=\"a:1\"} 2\n"), "{text}");
        assert!(!text.contains("forehand_listen_backlog_limit"), "{text}");
    }
}
