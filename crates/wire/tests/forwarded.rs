//! Whom to believe, and what they say: RFC 7239, X-Forwarded-*, policy rows G4 to G6.

use std::net::IpAddr;

use wire::{Effective, Event, Family, Http1, Limits, Peer, Policy, Scheme, Shared, Trust, effective};

fn peer(address: &str) -> Peer {
    Peer::Ip(address.parse::<IpAddr>().expect("an address"), 1234)
}

/// What a request with these headers means from a peer at 10.0.0.1; the reason if refused.
fn from_proxy(headers: &str, trusted: &str) -> Result<Option<Effective>, &'static str> {
    let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
    let mut shared = Shared::new(Limits::default(), Policy::default());
    let mut input = bytes.as_bytes();
    let Event::Request(head) = Http1::new(0, 0).advance(&mut input, &mut shared, 0) else {
        panic!("no request: {headers:?}")
    };
    let trust = Trust::parse(trusted).expect("a list");
    effective(&head, &peer("10.0.0.1"), &trust).map_err(|fault| fault.reason)
}

fn client(headers: &str) -> (Option<String>, Option<u16>) {
    let found = from_proxy(headers, "10.0.0.0/8").expect(headers).expect(headers);
    (found.addr.map(|address| address.to_string()), found.port)
}

#[test]
fn networks_begin_and_end_where_they_say() {
    for (list, address, trusted) in [
        ("10.0.0.0/8", "10.255.255.255", true),
        ("10.0.0.0/8", "11.0.0.0", false),
        ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "10.1.2.2", false),
        ("192.168.0.0/31, 172.16.0.0/12", "172.31.255.255", true),
        ("192.168.0.0/31", "192.168.0.2", false),
        ("0.0.0.0/0", "203.0.113.9", true),
        ("0.0.0.0/0", "2001:db8::1", false),
        ("2001:db8::/32", "2001:db8:ffff::1", true),
        ("2001:db8::/32", "2001:db9::", false),
        ("::1", "::1", true),
        ("[::1]", "::1", true),
        ("::/0", "2001:db8::1", true),
        ("127.0.0.1", "::ffff:127.0.0.1", true),
        ("*", "2001:db8::1", true),
        ("", "127.0.0.1", false),
        ("unix", "127.0.0.1", false),
    ] {
        let trust = Trust::parse(list).expect(list);
        assert_eq!(trust.trusts(&peer(address)), trusted, "{address} by '{list}'");
    }
    assert!(Trust::parse("unix").expect("a list").trusts(&Peer::Unix));
    assert!(!Trust::parse("10.0.0.0/8").expect("a list").trusts(&Peer::Unix));
}

#[test]
fn a_list_that_is_no_list_names_its_bad_member() {
    for bad in
        ["10.0.0.0/33", "10.0.0", "10.0.0.0/-1", "10.0.0.0/+8", "::/129", "localhost", "10.0.0.0/", "/8"]
    {
        let error = Trust::parse(&format!("127.0.0.1, {bad}")).expect_err(bad);
        assert!(error.to_string().contains(bad), "{error}");
    }
}

#[test]
fn the_client_is_the_right_most_that_is_no_proxy() {
    for (headers, address, port) in [
        ("X-Forwarded-For: 9.9.9.9, 203.0.113.7\r\n", "203.0.113.7", None),
        ("X-Forwarded-For: 9.9.9.9, 203.0.113.7, 10.9.9.9\r\n", "203.0.113.7", None),
        ("X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7", None),
        ("X-Forwarded-For: 203.0.113.7:80\r\n", "203.0.113.7", Some(80)),
        ("X-Forwarded-For: 2001:db8::1\r\n", "2001:db8::1", None),
        ("X-Forwarded-For: [2001:db8::1]:80\r\n", "2001:db8::1", Some(80)),
        ("X-Forwarded-For: [2001:db8::1]\r\n", "2001:db8::1", None),
        // All are proxies: the one that is farthest away.
        ("X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n", "10.0.0.3", None),
        // What is no address ends the chain.
        ("X-Forwarded-For: 203.0.113.7, unknown, 10.0.0.2\r\n", "10.0.0.2", None),
        ("Forwarded: for=9.9.9.9, for=203.0.113.7\r\n", "203.0.113.7", None),
        ("Forwarded: for=\"[2001:db8::1]:47011\"\r\n", "2001:db8::1", Some(47011)),
        ("Forwarded: FOR=\"203.0.113.7\";by=x , for=10.0.0.2\r\n", "203.0.113.7", None),
        ("Forwarded: for=203.0.113.7\r\nForwarded: for=10.0.0.2\r\n", "203.0.113.7", None),
        ("Forwarded: for=203.0.113.7\r\nX-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7", None),
        ("Forwarded: for=\"203.0.113\\.7\"\r\n", "203.0.113.7", None),
        ("Forwarded: , for=203.0.113.7;;, ,\r\n", "203.0.113.7", None),
    ] {
        assert_eq!(client(headers), (Some(address.to_string()), port), "{headers:?}");
    }
}

#[test]
fn a_name_that_hides_the_client_leaves_the_proxys_address() {
    for headers in [
        "X-Forwarded-For: unknown\r\n",
        "X-Forwarded-For: \r\n",
        "X-Forwarded-For: evil<script>\r\n",
        "X-Forwarded-For: 1.2.3.4.5\r\n",
        "Forwarded: for=_hidden\r\n",
        "Forwarded: for=unknown;proto=https\r\n",
        "Forwarded: proto=https\r\n",
    ] {
        assert_eq!(client(headers), (None, None), "{headers:?}");
    }
}

#[test]
fn scheme_host_port_and_prefix_are_what_the_nearest_proxy_says() {
    let found = from_proxy(
        "X-Forwarded-Proto: http, https\r\nX-Forwarded-Host: evil, b:81\r\nX-Forwarded-Port: 81\r\n\
         X-Forwarded-Prefix: /shop/\r\nX-Forwarded-Ssl: on\r\n",
        "10.0.0.1",
    );
    let expected = Effective {
        scheme: Some(Scheme::Https),
        host: Some(b"b:81".to_vec()),
        server_port: Some(81),
        prefix: Some(b"/shop".to_vec()),
        ..Effective::default()
    };
    assert_eq!(found, Ok(Some(expected)));
    // An empty member behind the last is none, and must not hide it.
    let found = from_proxy("Forwarded: for=1.1.1.1;proto=https;host=\"b:81\",\r\n", "10.0.0.1");
    let found = found.expect("believed").expect("said");
    assert_eq!((found.scheme, found.host), (Some(Scheme::Https), Some(b"b:81".to_vec())));
}

#[test]
fn nobody_else_is_believed() {
    for trusted in ["", "192.0.2.0/24", "unix", "10.0.0.2"] {
        let headers = "X-Forwarded-For: 1.1.1.1\r\nForwarded: for=2.2.2.2\r\nX-Forwarded-Proto: gopher\r\n";
        assert_eq!(from_proxy(headers, trusted), Ok(None), "trusted: '{trusted}'");
    }
    assert_eq!(from_proxy("X-Other: 1\r\n", "*"), Ok(None), "nothing is said");
}

#[test]
fn what_contradicts_itself_or_is_malformed_is_refused() {
    for headers in [
        "X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off\r\n",
        "X-Forwarded-Proto: https\r\nX-Forwarded-Scheme: http\r\n",
        "X-Forwarded-Proto: https\r\nForwarded: proto=http\r\n",
        "X-Forwarded-Host: a\r\nForwarded: host=b\r\n",
        "X-Forwarded-For: 1.1.1.1\r\nForwarded: for=2.2.2.2\r\n",
        "X-Forwarded-Proto: gopher\r\n",
        "X-Forwarded-Host: a/b\r\n",
        "X-Forwarded-Host: u@b\r\n",
        "X-Forwarded-Port: 65536\r\n",
        "X-Forwarded-Port: +80\r\n",
        "X-Forwarded-Prefix: //evil\r\n",
        "X-Forwarded-Prefix: shop\r\n",
        "X-Forwarded-Prefix: /a b\r\n",
        "Forwarded: for=1.1.1.1;for=2.2.2.2\r\n",
        "Forwarded: for=\"1.1.1.1\r\n",
        "Forwarded: for=\"1.1.1.1\\\r\n",
        "Forwarded: for\r\n",
        "Forwarded: =1.1.1.1\r\n",
        "Forwarded: for=\r\n",
        "Forwarded: for =1.1.1.1\r\n",
        "Forwarded: for=1.1.1.1 proto=https\r\n",
        "Forwarded: host=\"\"\r\n",
    ] {
        assert_eq!(from_proxy(headers, "10.0.0.1"), Err("forwarded"), "{headers:?}");
    }
}

#[test]
fn every_forwarding_header_is_known_by_its_name_in_any_case() {
    let trust = Trust::parse("10.0.0.1").expect("a list");
    for name in ["Forwarded", "x-forwarded-FOR", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Real-IP"] {
        assert!(!trust.lets_through(name.as_bytes(), false), "{name}");
        let headers = format!("{name}: x\r\n");
        assert_ne!(from_proxy(&headers, "10.0.0.1"), Ok(None), "{name} is noticed");
    }
    for name in ["X-Forwarded", "Forwarded-For", "Fowarded", "X-Request-Id", ""] {
        assert!(trust.lets_through(name.as_bytes(), false), "{name}");
    }
}

#[test]
fn the_family_that_proxies_do_not_set_is_the_clients_and_is_not_heeded() {
    let both = "X-Forwarded-Proto: https\r\nForwarded: for=6.6.6.6;host=evil\r\n";
    let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{both}\r\n");
    let mut shared = Shared::new(Limits::default(), Policy::default());
    let mut input = bytes.as_bytes();
    let Event::Request(head) = Http1::new(0, 0).advance(&mut input, &mut shared, 0) else {
        panic!("no request")
    };
    let trust = Trust::parse("10.0.0.0/8").expect("a list");
    let meant = |trust: &Trust| effective(&head, &peer("10.0.0.1"), trust).expect("agrees").expect("is said");
    let named = Some(IpAddr::from([6, 6, 6, 6]));
    assert_eq!(meant(&trust).addr, named);
    let only = trust.clone().only(Family::XForwarded);
    assert_eq!(
        (meant(&only).addr, meant(&only).scheme, meant(&only).host),
        (None, Some(Scheme::Https), None)
    );
    assert!(only.lets_through(b"X-Forwarded-Proto", true) && !only.lets_through(b"Forwarded", true));
    let other = trust.only(Family::Forwarded);
    assert_eq!((meant(&other).addr, meant(&other).scheme), (named, None));
    assert!(Trust::none().only(Family::Forwarded).lets_through(b"X-Real-IP", false), "nobody is trusted");
}

#[test]
fn of_several_lines_the_last_is_the_nearest_proxys() {
    let lines =
        "X-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 2.2.2.2, 10.0.0.7\r\nX-FORWARDED-FOR: 10.0.0.8\r\n";
    assert_eq!(client(lines), (Some("2.2.2.2".into()), None));
    let lines = "X-Forwarded-Proto: https\r\nX-Forwarded-For: 3.3.3.3\r\nX-Forwarded-Proto: http\r\n";
    let found = from_proxy(lines, "10.0.0.0/8").expect("believed").expect("said");
    assert_eq!((found.addr, found.scheme), (Some(IpAddr::from([3, 3, 3, 3])), Some(Scheme::Http)));
    let empty = from_proxy("X-Forwarded-Proto: https\r\nX-Forwarded-Proto:\r\n", "10.0.0.0/8");
    assert_eq!(empty.map(|found| found.and_then(|found| found.scheme)), Ok(None), "it says nothing");
}
