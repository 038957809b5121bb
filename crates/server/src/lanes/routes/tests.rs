//! What is known of routes by their calls, played.

use super::*;

/// A call from begin to end.
fn call(routes: &mut Routes, path: &str, took_us: Micros, counts: bool) {
    let place = enter(routes, path, 0);
    routes.leave(place, took_us, counts);
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
    call(&mut routes, "/orders/17", 100, true);
    call(&mut routes, "/orders/18", 300, true);
    assert_eq!(mean(&mut routes, "/orders/19"), Some(200));
    assert_eq!(mean(&mut routes, "/orders"), None);
}

#[test]
fn a_path_that_the_application_does_not_know_is_no_route() {
    let mut routes = Routes::default();
    for name in 0..10_000 {
        call(&mut routes, &format!("/{}", "x".repeat(name % 30)), 100, false);
    }
    assert!(routes.len() == 0 && routes.shapes.is_empty());
}

#[test]
fn invented_paths_share_what_is_left_of_them() {
    let mut routes = Routes::default();
    let name = |mut number: usize| {
        let mut letters = String::new();
        while number > 0 {
            letters.push((b'a' + (number % 26) as u8) as char);
            number /= 26;
        }
        letters
    };
    call(&mut routes, "/login", 50, true);
    for number in 1..20_000 {
        call(&mut routes, &format!("/{}/{}", name(number), name(number * 7)), 9_000, true);
    }
    assert!(routes.len() <= MOST + SHAPES + 100, "{} routes", routes.len());
    for number in 1..20_000 {
        call(&mut routes, &format!("/articles/{}", name(number)), 9_000, true);
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
        call(&mut routes, &format!("/articles/{title}"), 100, true);
    }
    assert_eq!(routes.len(), usize::from(A_SHAPE) + 1);
    call(&mut routes, "/reports/yearly", 70_000, true);
    call(&mut routes, "/reports/list", 70, true);
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
            call(&mut routes, &format!("/{folder}/{title}"), 100, true);
        }
    }
    let place = enter(&mut routes, "/f/aabbaabb", FORGOTTEN_US);
    routes.close_window(1, FORGOTTEN_US + 1, &mut Vec::new());
    assert_eq!(routes.len(), 1);
    routes.leave(place, 100, true);
}

#[test]
fn a_place_that_another_route_has_now_is_not_entered() {
    let mut routes = Routes::default();
    call(&mut routes, "/first", 100, true);
    let found = find(&mut routes, "/first");
    routes.remove(0);
    call(&mut routes, "/second", 100, true);
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
    assert_eq!(routes.leave(place, 50_000, true), Some(50_000));
}

#[test]
fn calls_that_take_long_together_outweigh_the_quick_ones_before_them() {
    let mut routes = Routes::default();
    for _ in 0..10_000 {
        call(&mut routes, "/grows", 100, true);
    }
    let places: Vec<u16> = (0..4).map(|_| enter(&mut routes, "/grows", 0)).collect();
    let means: Vec<_> = places.iter().map(|&place| routes.add_long(place, 6_000, 4)).collect();
    assert!(means[2] < Some(110) && means[3] == Some(6_000), "{means:?}");
    routes.forget_long();
    assert!(mean(&mut routes, "/grows") < Some(110));
}

#[test]
fn people_are_told_what_calls_take_and_not_how_old_those_inside_are() {
    let mut routes = Routes::default();
    for _ in 0..100 {
        call(&mut routes, "/report", 50_000, true);
    }
    let places: Vec<u16> = (0..4).map(|_| enter(&mut routes, "/report", 0)).collect();
    places.iter().for_each(|&place| {
        routes.add_long(place, 25_000, 4);
    });
    let report = routes.known(places[0]).expect("it is inside");
    assert_eq!((report.mean_us(), report.told_us()), (Some(25_000), (Some(50_000), false)));
}

#[test]
fn until_a_call_has_ended_that_took_so_long_people_are_told_that_it_is_at_least_that() {
    let mut routes = Routes::default();
    let place = enter(&mut routes, "/report", 0);
    let told = |routes: &Routes| routes.known(place).expect("it is inside").told_us();
    assert_eq!(told(&routes), (None, false));
    routes.add_long(place, 16_000, 9);
    assert_eq!(told(&routes), (Some(16_000), true));
    call(&mut routes, "/report", 100, true);
    assert_eq!(told(&routes), (Some(8_050), true), "one that was quick says nothing of this one");
    routes.forget_long();
    routes.leave(place, 1_000_000, true);
    assert_eq!(told(&routes), (Some(500_050), false));
}

#[test]
fn a_route_that_has_become_quick_is_soon_known_as_such() {
    let mut routes = Routes::default();
    for _ in 0..1000 {
        call(&mut routes, "/report", 400_000, true);
    }
    let mut windows = 0;
    while mean(&mut routes, "/report") > Some(5_000) {
        for _ in 0..100 {
            call(&mut routes, "/report", 100, true);
        }
        routes.close_window(200_000, 0, &mut Vec::new());
        windows += 1;
        assert!(windows < 60, "{:?}", mean(&mut routes, "/report"));
    }
}
