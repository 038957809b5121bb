//! Every case of `tests/data/h2/hpack.txt`, each block also ended at every place; and budgets at their edges.

use wire::hpack::{Decoder, List, Wrong, field, indexed_status};

#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    allow: Option<usize>,
    fields: Vec<String>,
    table: Option<usize>,
    wrong: Option<String>,
}

fn all() -> Vec<(String, Vec<Block>)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/h2/hpack.txt");
    let text = std::fs::read_to_string(file).expect("the cases");
    let mut cases: Vec<(String, Vec<Block>)> = Vec::new();
    let mut allow = None;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            cases.push((name.into(), Vec::new()));
            continue;
        }
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon in '{line}'"));
        let value = value.trim_start();
        let blocks = &mut cases.last_mut().expect("a case").1;
        if key == "block" {
            blocks.push(Block { bytes: unhex(value), allow: allow.take(), ..Block::default() });
            continue;
        }
        match (key, blocks.last_mut()) {
            ("why", _) => {}
            ("allow", _) => allow = Some(value.parse().expect("a number")),
            ("field", Some(block)) => block.fields.push(value.into()),
            ("table", Some(block)) => block.table = Some(value.parse().expect("a number")),
            ("wrong", Some(block)) => block.wrong = Some(value.into()),
            _ => panic!("'{line}' is no line here"),
        }
    }
    assert!(cases.len() > 25);
    cases
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// A field that enters the table, its strings as they are; the value has 127 bytes or more.
fn indexed(name: &str, value: &[u8]) -> Vec<u8> {
    let mut block = vec![0x40, name.len() as u8];
    block.extend_from_slice(name.as_bytes());
    block.push(0x7f);
    let mut left = value.len() - 127;
    while left >= 128 {
        block.push(left as u8 | 0x80);
        left >>= 7;
    }
    block.push(left as u8);
    block.extend_from_slice(value);
    block
}

fn fields(list: &List) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    list.fields().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
}

#[test]
fn every_case_holds() {
    for (name, blocks) in all() {
        let mut decoder = Decoder::default();
        for block in blocks {
            if let Some(size) = block.allow {
                decoder.allow(size);
            }
            let mut list = List::new(4096);
            let result = decoder.decode(&block.bytes, &mut list);
            assert_eq!(result.err().map(|wrong| format!("{wrong:?}")), block.wrong, "{name}");
            if block.wrong.is_none() {
                assert_eq!(fields(&list), block.fields, "{name}");
            }
            if let Some(size) = block.table {
                assert_eq!(decoder.table_size(), size, "{name}");
            }
        }
    }
}

#[test]
fn a_block_that_ends_early_is_short_or_has_fewer_fields() {
    for (name, blocks) in all() {
        for (place, block) in blocks.iter().enumerate().filter(|(_, block)| block.wrong.is_none()) {
            for end in 0..block.bytes.len() {
                let mut decoder = Decoder::default();
                for before in &blocks[..place] {
                    if let Some(size) = before.allow {
                        decoder.allow(size);
                    }
                    decoder.decode(&before.bytes, &mut List::new(0)).expect("a block");
                }
                if let Some(size) = block.allow {
                    decoder.allow(size);
                }
                let mut list = List::new(4096);
                match decoder.decode(&block.bytes[..end], &mut list) {
                    Ok(()) => assert!(block.fields.starts_with(&fields(&list)), "{name}"),
                    Err(wrong) => assert_eq!(wrong, Wrong::Short, "{name}"),
                }
            }
        }
    }
}

#[test]
fn a_list_takes_as_much_as_it_has_room_for() {
    let mut block = Vec::new();
    field(b"name", b"value of twenty byte", &mut block);
    field(b"x", b"", &mut block);
    for (room, count) in [(55, 0), (56, 1), (88, 1), (89, 2), (90, 2)] {
        let mut list = List::new(room);
        Decoder::default().decode(&block, &mut list).expect("a block");
        assert_eq!((list.fields().count(), list.is_over()), (count, count < 2), "{room}");
    }
}

#[test]
fn what_is_over_the_budget_still_changes_the_table() {
    // One that the list has no room for, one that the table may have none for either, and one more.
    let first = [b'1'; 200];
    for (large, kept) in [(1000, 2), (10_000, 1)] {
        let mut decoder = Decoder::default();
        let mut list = List::new(100);
        let blocks = [indexed("a", &first), indexed("b", &vec![b'x'; large]), indexed("c", &first)].concat();
        decoder.decode(&blocks, &mut list).expect("blocks");
        assert_eq!((list.is_over(), list.len()), (true, 0));
        let mut list = List::new(4096);
        decoder.decode(&[0xbe], &mut list).expect("the newest");
        assert_eq!(list.fields().next().map(|field| field.0.to_vec()), Some(b"c".to_vec()));
        let oldest = decoder.decode(&[0xbe + kept], &mut List::new(0));
        assert_eq!(oldest.is_ok(), large == 1000, "{large}: the table follows");
    }
}

#[test]
fn a_byte_that_stands_for_much_brings_no_more_than_the_budget() {
    // CVE-2016-6581: a large field, then itself again and again.
    let mut decoder = Decoder::default();
    let mut bomb = indexed("a", &[b'x'; 4096 - 32 - 1]);
    bomb.extend_from_slice(&vec![0xbe; 60_000]);
    let mut list = List::new(64 * 1024);
    decoder.decode(&bomb, &mut list).expect("a block");
    assert!(list.is_over());
    assert_eq!((list.fields().count(), list.len()), (16, 16 * 4064), "16 times 4 KiB, and not 60,000");
    assert_eq!(decoder.table_size(), 4096);
}

#[test]
fn what_is_encoded_is_decoded_and_enters_no_table() {
    let mut block = Vec::new();
    for status in ["200", "204", "206", "304", "400", "404", "500"] {
        assert!(indexed_status(status.as_bytes(), &mut block));
    }
    assert!(!indexed_status(b"201", &mut block));
    let sent =
        [("date", "Mon"), ("x-own", "\u{ff}\0\r"), ("set-cookie", "a=b"), ("a", ""), ("via", "~~~~~~~~")];
    for (name, value) in sent {
        field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    let (mut decoder, mut list) = (Decoder::default(), List::new(4096));
    decoder.decode(&block, &mut list).expect("a block");
    let found: Vec<_> = list.fields().skip(7).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    assert_eq!(found, sent.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())));
    assert_eq!((list.fields().count(), decoder.table_size(), decoder.changes()), (12, 0, 0));
}
