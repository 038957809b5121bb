//! What goes into a ring comes out of it.

use super::super::phase::NOT_MEASURED;
use super::*;

fn words(count: usize) -> Vec<Word> {
    (0..count).map(|_| Word::new(0)).collect()
}

const TOLD: &str = "GET /orders/{number}";
const LINE_TEXT: &str = "GET /orders/17";
const GIVEN: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

fn route() -> Vec<Word> {
    let row = words(16);
    super::super::layout::put_text(&row, TOLD.as_bytes());
    row
}

fn trace() -> Trace {
    Trace { id: 7 << 64 | 8, span: 9, parent: 10, sampled: true, link: Some((11 << 64 | 12, 13)) }
}

fn ended(number: u64, route: &[Word]) -> Ended<'_> {
    Ended {
        ids: [7, 8, 9, 10],
        link: trace().link,
        state: b"",
        first: 14,
        parts: &Parts { receive: 1, queue: 2, gil: 3, app: 4, send: 5, total: 15 },
        upstream: 6,
        cpu: 3,
        answer: Answer { status: 503, ending: 3, version: Version::Http2, https: true },
        number,
        bytes: (16, 17),
        name: Name::Given(GIVEN),
        route,
        line: LINE_TEXT.as_bytes(),
    }
}

fn span(number: u64) -> Span {
    Span {
        trace: trace(),
        state: String::new(),
        began: 1014,
        spans: [6, 1, 2, 3, 4, 3, 1, 5, 15],
        answer: Answer { status: 503, ending: 3, version: Version::Http2, https: true },
        number,
        process: 15,
        sent: 16,
        received: 17,
        id: GIVEN.into(),
        route: TOLD.into(),
        line: LINE_TEXT.into(),
    }
}

/// What comes out of a ring into which this was put.
fn through(ended: &Ended<'_>) -> Span {
    let (counts, ring) = (words(LINE), words(RING));
    assert!(put(&counts, &ring, ended, 15));
    let found = take(&counts, &ring, 9, 1000);
    assert_eq!(take(&counts, &ring, 9, 1000), []);
    assert_eq!(found.len(), 1);
    found.into_iter().next().expect("one")
}

#[test]
fn a_span_comes_out_as_it_went_in() {
    let route = route();
    assert_eq!(through(&ended(1, &route)), span(1));
    let bare = Trace { link: None, ..trace() };
    let found = through(&Ended { link: None, route: &[], name: Name::Nothing, ..ended(2, &route) });
    let expected = Span { trace: bare, route: String::new(), id: String::new(), ..span(2) };
    assert_eq!(found, expected);
    for version in [Version::Http10, Version::Http11] {
        let answer = Answer { version, https: false, ..ended(1, &route).answer };
        assert_eq!(through(&Ended { answer, ..ended(1, &route) }).answer, answer);
    }
    let found = through(&Ended { cpu: NOT_MEASURED, ..ended(3, &route) });
    assert_eq!(found.spans, [6, 1, 2, 3, 4, NOT_MEASURED, NOT_MEASURED, 5, 15]);
}

#[test]
fn a_name_of_our_own_is_that_of_the_trace_and_takes_no_room() {
    let found = through(&Ended { name: Name::Trace, ..ended(1, &[]) });
    assert_eq!(found.id, format!("{:032x}", trace().id));
}

#[test]
fn texts_are_cut_where_their_room_ends_and_none_takes_that_of_another() {
    let long = vec![b'x'; 1000];
    let route = words(64);
    super::super::layout::put_text(&route, &long);
    let name = "y".repeat(128);
    let all = Ended { name: Name::Given(&name), line: &long, ..ended(1, &route) };
    let found = through(&all);
    assert_eq!((found.line, found.route), ("x".repeat(LINE_WORDS * 8), "x".repeat(ROUTE_WORDS * 8)));
    assert_eq!((found.id, found.trace), ("y".repeat(ID_WORDS * 8), trace()));
}

#[test]
fn a_ring_that_is_full_drops_and_counts_and_goes_on_where_there_is_room() {
    let (counts, ring) = (words(LINE), words(RING));
    let put = |number| put(&counts, &ring, &ended(number, &[]), 1);
    for number in 0..ROOM as u64 {
        assert!(put(number));
    }
    assert!(!put(5000) && !put(5001));
    assert_eq!(load(&counts[DROPPED]), 2);
    let first = take(&counts, &ring, 3, 0);
    assert_eq!(first.iter().map(|span| span.number).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(put(6000));
    let rest = take(&counts, &ring, ROOM, 0);
    assert_eq!((rest.len(), rest.last().map(|span| span.number)), (ROOM - 2, Some(6000)));
}

#[test]
fn what_others_say_of_a_trace_is_behind_its_span_and_no_span_is_taken_without_it() {
    let (counts, ring) = (words(LINE), words(RING));
    let longest = "s".repeat(STATE_BYTES);
    let said = |number: u64| match number % 4 {
        0 => "",
        1 => "shop=1",
        2 => &longest[..STATE_BYTES - 1],
        _ => &longest,
    };
    let put =
        |number| put(&counts, &ring, &Ended { state: said(number).as_bytes(), ..ended(number, &[]) }, 1);
    // Each three of four take two places: rounds end at other places each time.
    for round in 0..5_u64 {
        let numbers = || (0..).map(|number| round + number);
        let there = numbers().take_while(|number| put(*number)).count();
        let left = ROOM as u64 - (load(&counts[WRITTEN]) - load(&counts[READ]));
        assert!(left <= 1, "the last one wanted more");
        let mut found = Vec::new();
        while found.len() < there {
            let taken = take(&counts, &ring, 3, 0);
            assert!((1..=3).contains(&taken.len()));
            found.extend(taken);
        }
        assert_eq!(take(&counts, &ring, 3, 0), []);
        for (number, span) in numbers().zip(&found) {
            assert_eq!((span.number, &*span.state), (number, said(number)));
        }
    }
}
