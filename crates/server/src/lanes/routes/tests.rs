//! What is known of routes by their calls, played.

use super::Outcome::{Answered, Refused, Unbegun};
use super::*;

/// A call from begin to end.
fn call(routes: &mut Routes, path: &str, took_us: Micros, outcome: Outcome) {
    let place = enter(routes, path, 0);
    routes.leave(place, took_us, outcome);
}

fn find(routes: &mut Routes, path: &str) -> (u64, Option<u16>) {
    let names = routes.names(b"GET", path.as_bytes());
    routes.find(names, (b"GET", path.as_bytes()))
}

fn enter(routes: &mut Routes, path: &str, now_us: Micros) -> u16 {
    let found = find(routes, path);
    routes.enter(found, (b"GET", path.as_bytes()), now_us)
}

fn mean(routes: &mut Routes, path: &str) -> Option<Micros> {
    let place = find(routes, path).1?;
    routes.known(place)?.mean_us()
}

#[test]
fn a_route_is_known_by_its_calls() {
    let mut routes = Routes::default();
    assert_eq!(mean(&mut routes, "/orders/17"), None);
    call(&mut routes, "/orders/17", 100, Answered);
    call(&mut routes, "/orders/18", 300, Answered);
    assert_eq!(mean(&mut routes, "/orders/19"), Some(200));
    assert_eq!(mean(&mut routes, "/orders"), None);
}

/// A name of letters that is another one for each number.
fn name(mut number: usize) -> String {
    let mut letters = String::new();
    while number > 0 {
        letters.push((b'a' + (number % 26) as u8) as char);
        number /= 26;
    }
    letters
}

#[test]
fn paths_that_the_application_refuses_are_known_for_a_while_and_take_no_room() {
    let mut routes = Routes::default();
    for number in 1..=REFUSED {
        call(&mut routes, &format!("/{}", name(number)), 100, Refused);
    }
    assert_eq!(mean(&mut routes, &format!("/{}", name(1))), Some(100), "it finds a thread as others do");
    call(&mut routes, &format!("/{}", name(REFUSED + 1)), 100, Refused);
    assert_eq!(mean(&mut routes, &format!("/{}", name(1))), None);
    for number in 0..10_000 {
        call(&mut routes, &format!("/{}/{}", name(number), name(number)), 100, Refused);
        assert!(routes.len() <= REFUSED && routes.refused.len() <= REFUSED);
    }
    assert!(routes.shapes.is_empty() && routes.named == 0);
}

#[test]
fn who_is_inside_is_not_forgotten_though_others_are_refused_meanwhile() {
    let mut routes = Routes::default();
    let places: Vec<u16> =
        (1..=REFUSED).map(|number| enter(&mut routes, &format!("/{}", name(number)), 0)).collect();
    for &place in &places {
        routes.known(place).expect("it is inside");
        routes.leave(place, 100, Refused);
    }
    let again: Vec<u16> =
        (1..=REFUSED).map(|number| enter(&mut routes, &format!("/{}", name(number)), 0)).collect();
    assert_eq!(places, again);
    for number in 1000..2000 {
        call(&mut routes, &format!("/{}", name(number)), 100, Refused);
    }
    assert!(again.iter().all(|&place| routes.known(place).is_some_and(|route| route.inside == 1)));
    again.iter().for_each(|&place| _ = routes.leave(place, 100, Refused));
    for number in 2000..4000 {
        call(&mut routes, &format!("/{}", name(number)), 100, Refused);
    }
    assert!(routes.len() <= REFUSED && routes.refused.len() <= REFUSED);
}

#[test]
fn what_was_refused_first_and_is_answered_then_is_a_route() {
    let mut routes = Routes::default();
    call(&mut routes, "/login", 100, Refused);
    call(&mut routes, "/login", 300, Answered);
    for number in 0..10_000 {
        call(&mut routes, &format!("/{}", name(number)), 100, Refused);
    }
    assert_eq!((mean(&mut routes, "/login"), routes.named, routes.shapes.len()), (Some(200), 1, 1));
}

#[test]
fn a_call_that_was_not_begun_leaves_nothing() {
    let mut routes = Routes::default();
    call(&mut routes, "/login", 100, Unbegun);
    assert!(routes.len() == 0 && routes.shapes.is_empty());
}

#[test]
fn quick_refusals_do_not_make_a_slow_route_quick_and_slow_ones_make_a_quick_one_slow() {
    let mut routes = Routes::default();
    call(&mut routes, "/export/17", 90_000, Answered);
    for number in 0..1000 {
        call(&mut routes, &format!("/export/{number}"), 50, Refused);
    }
    assert_eq!(mean(&mut routes, "/export/17"), Some(90_000));
    call(&mut routes, "/view/17", 100, Answered);
    call(&mut routes, "/view/17", 9_900, Refused);
    assert_eq!(mean(&mut routes, "/view/17"), Some(5_000));
}

#[test]
fn names_of_people_in_the_middle_do_not_make_one_route_of_what_is_behind_them() {
    let mut routes = Routes::default();
    for number in 1..1000 {
        call(&mut routes, &format!("/u/{}/export", name(number)), 90_000, Answered);
        if number > 500 {
            call(&mut routes, &format!("/u/{}/profile/", name(number)), 90, Answered);
            call(&mut routes, &format!("/u/{}/profile", name(number)), 80, Answered);
        }
    }
    let new = name(5000);
    assert_eq!(mean(&mut routes, &format!("/u/{new}/export")), Some(90_000));
    assert_eq!(mean(&mut routes, &format!("/u/{new}/profile")), Some(80));
    assert_eq!(mean(&mut routes, &format!("/u/{new}/profile/")), Some(90));
    let path = format!("/u/{new}/export");
    let place = find(&mut routes, &path).1.and_then(|place| routes.known(place)).map(Route::name);
    assert_eq!(place, Some("GET /u/*/export"));
}

#[test]
fn what_is_known_by_the_last_name_is_known_when_names_have_been_forgotten() {
    let mut routes = Routes::default();
    for number in 1..=usize::from(A_SHAPE) + 1 {
        call(&mut routes, &format!("/u/{}/export", name(number)), 90_000, Answered);
    }
    routes.close_window(1, 0, &mut Vec::new());
    let place = enter(&mut routes, &format!("/u/{}/export", name(500)), CROWDED_OUT_US + 1);
    routes.close_window(1, CROWDED_OUT_US + 1, &mut Vec::new());
    assert_eq!((routes.len(), routes.known(place).map(Route::name)), (1, Some("GET /u/*/export")));
    assert_eq!(mean(&mut routes, &format!("/u/{}/export", name(501))), Some(90_000));
}

#[test]
fn names_in_the_middle_and_at_the_end_share_what_is_left_of_them() {
    let mut routes = Routes::default();
    for number in 1..10_000 {
        call(&mut routes, &format!("/u/{}/{}", name(number), name(number * 7)), 9_000, Answered);
    }
    assert_eq!(routes.len(), 2 * usize::from(A_SHAPE) + 1);
    assert_eq!(mean(&mut routes, "/u/some/body"), Some(9_000));
}

#[test]
fn where_a_shape_is_full_those_that_nobody_asks_for_make_room_sooner() {
    for (more, left) in [(0, usize::from(A_SHAPE) + 1), (1, 1)] {
        let mut routes = Routes::default();
        for number in 1..=usize::from(A_SHAPE) {
            call(&mut routes, &format!("/{}", name(number)), 100, Answered);
        }
        let at = CROWDED_OUT_US + more;
        let place = enter(&mut routes, "/other/path", at);
        routes.leave(place, 100, Answered);
        routes.close_window(1, at, &mut Vec::new());
        assert_eq!(routes.len(), left);
    }
}

#[test]
fn invented_paths_share_what_is_left_of_them() {
    let mut routes = Routes::default();
    call(&mut routes, "/login", 50, Answered);
    for number in 1..20_000 {
        call(&mut routes, &format!("/{}/{}", name(number), name(number * 7)), 9_000, Answered);
    }
    assert!(routes.len() <= MOST + SHAPES + 100, "{} routes", routes.len());
    for number in 1..20_000 {
        call(&mut routes, &format!("/articles/{}", name(number)), 9_000, Answered);
    }
    assert!(routes.len() <= MOST + SHAPES + 100, "{} routes", routes.len());
    assert_eq!(mean(&mut routes, "/login"), Some(50));
    assert_eq!(mean(&mut routes, "/articles/whatever"), Some(9_000));
}

#[test]
fn names_below_one_folder_take_no_room_from_others() {
    let mut routes = Routes::default();
    for number in 0..u32::from(A_SHAPE) + 10 {
        let title: String = (0..8).map(|bit| if number >> bit & 1 == 1 { 'a' } else { 'b' }).collect();
        call(&mut routes, &format!("/articles/{title}"), 100, Answered);
    }
    assert_eq!(routes.len(), usize::from(A_SHAPE) + 1);
    call(&mut routes, "/reports/yearly", 70_000, Answered);
    call(&mut routes, "/reports/list", 70, Answered);
    assert_eq!(mean(&mut routes, "/reports/yearly"), Some(70_000));
}

#[test]
fn those_that_nobody_asks_for_make_room() {
    let mut routes = Routes::default();
    let folders = (MOST / 2 + 1).div_ceil(usize::from(A_SHAPE));
    for folder in 0..folders {
        for number in 0..u32::from(A_SHAPE) {
            let title: String = (0..8).map(|bit| if number >> bit & 1 == 1 { 'a' } else { 'b' }).collect();
            let folder: String = (0..=folder).map(|_| 'f').collect();
            call(&mut routes, &format!("/{folder}/{title}"), 100, Answered);
        }
    }
    let place = enter(&mut routes, "/f/aabbaabb", FORGOTTEN_US);
    routes.close_window(1, FORGOTTEN_US + 1, &mut Vec::new());
    assert_eq!(routes.len(), 1);
    routes.leave(place, 100, Answered);
}

#[test]
fn a_place_that_another_route_has_now_is_not_entered() {
    let mut routes = Routes::default();
    call(&mut routes, "/first", 100, Answered);
    let found = find(&mut routes, "/first");
    routes.remove(0);
    call(&mut routes, "/second", 100, Answered);
    let place = routes.enter(found, (b"GET", b"/first"), 0);
    assert_eq!((found.1, routes.known(place).map(Route::name)), (Some(0), Some("GET /first")));
}

#[test]
fn calls_that_take_long_count_before_they_end() {
    let mut routes = Routes::default();
    let place = enter(&mut routes, "/slow", 0);
    assert_eq!(mean(&mut routes, "/slow"), None);
    assert_eq!(routes.add_long(place, 7_000, 9), Some(7_000));
    routes.forget_long();
    assert_eq!(mean(&mut routes, "/slow"), None);
    assert_eq!(routes.add_long(place, 9_000, 9), Some(9_000));
    routes.forget_long();
    assert_eq!(routes.leave(place, 50_000, Answered), Some(50_000));
}

#[test]
fn calls_that_take_long_together_outweigh_the_quick_ones_before_them() {
    let mut routes = Routes::default();
    for _ in 0..10_000 {
        call(&mut routes, "/grows", 100, Answered);
    }
    let places: Vec<u16> = (0..4).map(|_| enter(&mut routes, "/grows", 0)).collect();
    let means: Vec<_> = places.iter().map(|&place| routes.add_long(place, 6_000, 4)).collect();
    assert!(means[2] < Some(110) && means[3] == Some(6_000), "{means:?}");
    routes.forget_long();
    assert!(mean(&mut routes, "/grows") < Some(110));
}

#[test]
fn calls_take_as_long_as_those_that_have_ended_however_young_those_inside_are() {
    let mut routes = Routes::default();
    for _ in 0..100 {
        call(&mut routes, "/report", 50_000, Answered);
    }
    let places: Vec<u16> = (0..4).map(|_| enter(&mut routes, "/report", 0)).collect();
    places.iter().for_each(|&place| {
        routes.add_long(place, 25_000, 4);
    });
    let report = routes.known(places[0]).expect("it is inside");
    assert_eq!((report.mean_us(), report.told_us()), (Some(50_000), (Some(50_000), false)));
}

#[test]
fn until_a_call_has_ended_that_took_so_long_people_are_told_that_it_is_at_least_that() {
    let mut routes = Routes::default();
    let place = enter(&mut routes, "/report", 0);
    let told = |routes: &Routes| routes.known(place).expect("it is inside").told_us();
    assert_eq!(told(&routes), (None, false));
    routes.add_long(place, 16_000, 9);
    assert_eq!(told(&routes), (Some(16_000), true));
    call(&mut routes, "/report", 100, Answered);
    assert_eq!(told(&routes), (Some(8_050), true), "one that was quick says nothing of this one");
    routes.forget_long();
    routes.leave(place, 1_000_000, Answered);
    assert_eq!(told(&routes), (Some(500_050), false));
}

#[test]
fn a_route_that_has_become_quick_is_soon_known_as_such() {
    let mut routes = Routes::default();
    for _ in 0..1000 {
        call(&mut routes, "/report", 400_000, Answered);
    }
    let mut windows = 0;
    while mean(&mut routes, "/report") > Some(5_000) {
        for _ in 0..100 {
            call(&mut routes, "/report", 100, Answered);
        }
        routes.close_window(200_000, 0, &mut Vec::new());
        windows += 1;
        assert!(windows < 60, "{:?}", mean(&mut routes, "/report"));
    }
}

/// For how long calls of a route compute that have used so much.
fn computes_us(used_us: &[Micros]) -> u32 {
    let mut routes = Routes::default();
    call(&mut routes, "/report", 100_000, Answered);
    let place = find(&mut routes, "/report").1.expect("it is known");
    used_us.iter().for_each(|&used_us| routes.used_cpu(place, used_us, false));
    match routes.known(place).expect("it is known").computes() {
        Computes::For(us) => us,
        Computes::No => 0,
        Computes::Long(us) => panic!("nobody has waited for it: {us}"),
    }
}

#[test]
fn calls_burn_that_use_more_and_have_held_up_others() {
    for (used_us, held_up, found) in [
        ([250_001; 2], [true; 2], Computes::Long(250_001)),
        ([250_001; 2], [false, true], Computes::Long(250_001)),
        ([250_001; 2], [false; 2], Computes::No),
        ([250_000; 2], [true; 2], Computes::For(250_000)),
        // It was one of the others that had to be waited for.
        ([400_000, 200_000], [false, true], Computes::No),
    ] {
        let mut used = Used::default();
        used_us.into_iter().zip(held_up).for_each(|(used_us, held_up)| used.add(used_us, held_up));
        assert_eq!(used.computes(), found, "{used_us:?} {held_up:?}");
    }
}

#[test]
fn calls_compute_that_use_five_to_two_hundred_and_fifty_milliseconds_of_a_processor() {
    assert_eq!(computes_us(&[]), 0, "nobody has measured");
    for (used_us, computes) in [(4_999, false), (5_000, true), (250_000, true), (250_001, false)] {
        let found = computes_us(&[used_us; 3]);
        assert_eq!(found, if computes { used_us as u32 } else { 0 }, "{used_us}");
    }
}

#[test]
fn what_is_quick_by_a_parameter_does_not_count_as_computing() {
    for (light, heavy, computes) in [(1, 7, true), (2, 14, true), (1, 6, false), (2, 13, false)] {
        let used = [vec![100; light], vec![90_000; heavy]].concat();
        assert_eq!(computes_us(&used) > 0, computes, "{light} of {}", light + heavy);
    }
}

#[test]
fn what_was_used_long_ago_makes_room() {
    let found = computes_us(&[[40_000; 60], [80_000; 60]].concat());
    assert!((70_000..80_000).contains(&found), "it takes longer by now: {found}");
    let used = [[100; 200], [40_000; 200]].concat();
    assert!(computes_us(&used) > 0, "it was quick once");
}

#[test]
fn what_other_workers_have_found_of_calls_holds_until_one_was_measured_here() {
    for (told_us, computes) in [
        (4_999, Computes::No),
        (5_000, Computes::For(5_000)),
        (250_000, Computes::For(250_000)),
        (250_001, Computes::Long(250_001)),
    ] {
        let mut routes = Routes::default();
        routes.learn_used("GET /orders/{number}", told_us, 0);
        let place = find(&mut routes, "/orders/17").1.expect("it is known");
        let route = |routes: &Routes| {
            let route = routes.known(place).expect("it is known");
            (route.computes(), route.mean_us())
        };
        assert_eq!(route(&routes), (computes, None), "how long its calls take nobody has said");
        routes.used_cpu(place, 300_000, false);
        assert_eq!(route(&routes).0, Computes::No, "it has held up nobody here");
        assert_eq!(routes.take_news(), None);
        routes.used_cpu(place, 300_000, true);
        assert_eq!(route(&routes).0, Computes::Long(300_000));
        assert_eq!(routes.take_news(), Some(("GET /orders/*".into(), 300_000)), "others shall know");
        routes.used_cpu(place, 300_000, true);
        assert_eq!(routes.take_news(), None, "they do");
        routes.learn_used("GET /orders/*", 5_000, 0);
        assert_eq!(route(&routes).0, Computes::Long(300_000), "what was found here counts");
    }
}
