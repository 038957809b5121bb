//! Where slow requests were found while they ran: the newest of such texts.
//!
//! Knows: a ring of texts, each with what names its request. Does not know: what they say. Whoever writes the record of a
//! request writes its text before, so that who sees the record finds it; whose text was overwritten has none.

use super::layout::{self, Meta, STOOD_COUNT, STOOD_WIDTH, Word, add, change, load, put_text, store};

/// Where what is, behind the sequence number.
const NUMBER: usize = 0;
const WALL: usize = 1;
const TEXT: usize = 2;
/// Bytes of a text: what is left behind its length.
const LONGEST: usize = (STOOD_WIDTH - 1 - TEXT - 1) * 8;
const CUT: &str = "…";

/// What names a request: its number within its worker, and when it has ended, as workers that are dead share a ring.
pub type Name = (u64, u64);

fn row(words: &[Word], place: usize) -> &[Word] {
    let from = layout::STOOD + place * STOOD_WIDTH;
    words.get(from..from + STOOD_WIDTH).unwrap_or_default()
}

/// As much of it as there is room for, in one line: names of files may have anything in them.
fn bounded(text: &str) -> String {
    let mut kept = text.replace(char::is_control, " ");
    if kept.len() > LONGEST {
        let end = (0..=LONGEST - CUT.len()).rev().find(|at| kept.is_char_boundary(*at));
        kept.truncate(end.unwrap_or(0));
        kept.push_str(CUT);
    }
    kept
}

/// Writes a text over the oldest one.
#[cold]
pub fn put(words: &[Word], (number, wall): Name, text: &str) {
    let written = &words[layout::META + Meta::Stood as usize];
    change(row(words, load(written) as usize % STOOD_COUNT), |row| {
        store(&row[NUMBER], number);
        store(&row[WALL], wall);
        put_text(&row[TEXT..], bounded(text).as_bytes());
    });
    add(written, 1);
}

/// All that are whole.
pub fn read(words: &[Word]) -> Vec<(Name, String)> {
    // What was never written is not looked at, so that it takes no memory.
    let written = load(&words[layout::META + Meta::Stood as usize]) as usize;
    (0..written.min(STOOD_COUNT))
        .filter_map(|place| {
            layout::read_unchanged(row(words, place), |row| {
                let text = String::from_utf8_lossy(&layout::text(&row[TEXT..])).into_owned();
                ((load(&row[NUMBER]), load(&row[WALL])), text)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::played::words;

    #[test]
    fn a_text_is_cut_at_the_end_of_a_character_and_stays_in_its_line() {
        let words = words();
        let long = "x".repeat(LONGEST);
        for (given, kept) in [
            ("app.py:5 in view".to_owned(), "app.py:5 in view".to_owned()),
            (long.clone(), long.clone()),
            (long.clone() + "y", long[3..].to_owned() + CUT),
            // Of two bytes each, the last of which would end in the middle.
            ("é".repeat(LONGEST), "é".repeat((LONGEST - 3) / 2) + CUT),
            ("a\n\u{1b}[2Jb".to_owned(), "a  [2Jb".to_owned()),
        ] {
            put(&words, (1, 2), &given);
            assert_eq!(read(&words).pop(), Some(((1, 2), kept)), "{given}");
        }
        let behind = layout::STOOD + 5 * STOOD_WIDTH;
        assert!(words[behind..].iter().all(|word| load(word) == 0), "nothing is written behind them");
    }

    #[test]
    fn the_newest_are_kept_and_what_is_being_written_is_not_read() {
        let words = words();
        assert!(read(&words).is_empty());
        let all = STOOD_COUNT as u64 + 3;
        (0..all).for_each(|number| put(&words, (number, number + 7), &format!("at {number}")));
        let mut found = read(&words);
        found.sort();
        let expected = (3..all).map(|number| ((number, number + 7), format!("at {number}")));
        assert_eq!(found, expected.collect::<Vec<_>>());
        change(row(&words, 0), |_| assert_eq!(read(&words).len(), STOOD_COUNT - 1));
    }
}
