//! The application's own metrics: what `prometheus_client` has counted in all workers, as one.
//!
//! Knows: what keys mean, and what becomes of histograms. Does not know: files' bytes (`files.rs`), or formats.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use super::exposition::Exposition;
use super::files::{Entry, Merge, Name, entries};
use super::samples::Kind;

/// A sample's name and labels.
type Place = (String, Pairs);
/// Names and values of labels.
type Pairs = Vec<(String, String)>;

/// What has one name.
#[derive(Debug)]
struct Family {
    kind: Kind,
    help: String,
    samples: BTreeMap<Place, Entry>,
}

/// All that the application counts.
#[derive(Debug, Default)]
pub struct Application {
    families: BTreeMap<String, Family>,
}

impl Application {
    /// Reads a folder. What cannot be read is left out: a process may be making it, or have ended.
    pub fn read(folder: &Path) -> Self {
        let mut all = Self::default();
        let Ok(files) = fs::read_dir(folder) else { return all };
        for file in files.flatten() {
            let file_name = file.file_name();
            let (Some(name), Ok(bytes)) = (file_name.to_str().and_then(Name::parse), fs::read(file.path()))
            else {
                continue;
            };
            for (key, entry) in entries(&bytes) {
                all.add(&name, key, entry);
            }
        }
        all.families
            .values_mut()
            .filter(|family| family.kind == Kind::Histogram)
            .for_each(Family::accumulate);
        all
    }

    fn add(&mut self, name: &Name<'_>, key: &[u8], entry: Entry) {
        let (Some(kind), Some((metric, sample, mut labels, help))) =
            (Kind::named(name.kind), Json(key).key())
        else {
            return;
        };
        let (metric, sample) = (plain(metric, b":"), plain(sample, b":"));
        labels.iter_mut().for_each(|(name, _)| *name = plain(std::mem::take(name), b""));
        if name.merge == Merge::Apart {
            labels.push(("pid".into(), name.process.into()));
        }
        labels.sort();
        let new = || Family { kind, help: String::new(), samples: BTreeMap::new() };
        let family = self.families.entry(metric).or_insert_with(new);
        (family.kind, family.help) = (kind, help);
        match family.samples.entry((sample, labels)) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(entry);
            }
            std::collections::btree_map::Entry::Occupied(mut known) => {
                known.get_mut().merge(entry, name.merge)
            }
        }
    }

    /// The names of all families.
    pub fn names(&self) -> HashSet<String> {
        self.families.keys().cloned().collect()
    }

    /// Writes them all.
    pub fn write(&self, text: &mut Exposition) {
        for (name, family) in &self.families {
            text.family(name, family.kind, &family.help);
            let mut samples: Vec<_> = family.samples.iter().collect();
            // Buckets of one histogram stand together, in the order of their bounds. There may be tens of thousands: what
            // they are sorted by is made once of each.
            samples.sort_by_cached_key(|(place, _)| {
                let (sample, labels) = *place;
                let bare: Vec<&(String, String)> = labels.iter().filter(|(name, _)| name != "le").collect();
                (bare, sample.ends_with("_sum"), sample.ends_with("_count"), Bound(bound(labels)))
            });
            for ((sample, labels), entry) in samples {
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                text.named(sample, &labels, entry.value);
            }
        }
    }
}

/// A name with `_` in place of what the formats do not have in names, as `prometheus_client` itself tells `shop.orders`:
/// one name that a scraper does not understand would cost it everything. `more`: what there may be beside letters and digits.
fn plain(name: String, more: &[u8]) -> String {
    let fits = |at: usize, sign: u8| {
        sign.is_ascii_alphabetic() || sign == b'_' || more.contains(&sign) || at > 0 && sign.is_ascii_digit()
    };
    if !name.is_empty() && name.bytes().enumerate().all(|(at, sign)| fits(at, sign)) {
        return name;
    }
    let each = name.chars().enumerate();
    each.map(|(at, sign)| if u8::try_from(sign).is_ok_and(|byte| fits(at, byte)) { sign } else { '_' })
        .collect()
}

/// A bucket's bound, which has an order.
struct Bound(f64);

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Bound {}

fn without_le(labels: &[(String, String)]) -> Pairs {
    labels.iter().filter(|(name, _)| name != "le").cloned().collect()
}

/// The bound of a bucket; what is none comes behind all buckets.
fn bound(labels: &[(String, String)]) -> f64 {
    let bound = labels.iter().find(|(name, _)| name == "le").map(|(_, bound)| bound.as_str());
    match bound {
        Some("+Inf") => f64::INFINITY,
        Some(bound) => bound.parse().unwrap_or(f64::INFINITY),
        None => f64::NAN,
    }
}

impl Family {
    /// In files each bucket has its own; outside it has those before it, too, and the last is the count.
    fn accumulate(&mut self) {
        let mut series: BTreeMap<Pairs, Vec<Place>> = BTreeMap::new();
        for place in self.samples.keys().filter(|place| place.0.ends_with("_bucket")) {
            series.entry(without_le(&place.1)).or_default().push(place.clone());
        }
        for (labels, mut buckets) in series {
            buckets.sort_by(|a, b| bound(&a.1).total_cmp(&bound(&b.1)));
            let mut sum = 0.0;
            for place in &buckets {
                if let Some(entry) = self.samples.get_mut(place) {
                    sum += entry.value;
                    entry.value = sum;
                }
            }
            let Some(name) = buckets.first().and_then(|place| place.0.strip_suffix("_bucket")) else {
                continue;
            };
            self.samples.insert((format!("{name}_count"), labels), Entry { value: sum, at: 0.0 });
        }
    }
}

/// What is left of a text in JSON. Keys are arrays of texts and one object of texts, and nothing else is understood.
struct Json<'a>(&'a [u8]);

impl Json<'_> {
    /// `[metric, sample, {label: value}, help]`
    fn key(&mut self) -> Option<(String, String, Pairs, String)> {
        self.sign(b'[')?;
        let metric = self.text()?;
        self.sign(b',')?;
        let sample = self.text()?;
        self.sign(b',')?;
        let labels = self.object()?;
        self.sign(b',')?;
        let help = self.text()?;
        self.sign(b']')?;
        Some((metric, sample, labels, help))
    }

    fn sign(&mut self, sign: u8) -> Option<()> {
        self.0 = self.0.trim_ascii_start().strip_prefix(&[sign])?;
        Some(())
    }

    fn object(&mut self) -> Option<Pairs> {
        self.sign(b'{')?;
        let mut members = Vec::new();
        while self.sign(b'}').is_none() {
            if !members.is_empty() {
                self.sign(b',')?;
            }
            let name = self.text()?;
            self.sign(b':')?;
            members.push((name, self.text()?));
        }
        Some(members)
    }

    fn text(&mut self) -> Option<String> {
        self.sign(b'"')?;
        let mut units: Vec<u8> = Vec::new();
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            match byte {
                b'"' => return String::from_utf8(units).ok(),
                b'\\' => {
                    let mut room = [0; 4];
                    units.extend_from_slice(self.escaped()?.encode_utf8(&mut room).as_bytes());
                }
                byte => units.push(byte),
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let (&sign, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(match sign {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let first = self.unit()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                self.0 = self.0.strip_prefix(b"\\u")?;
                let second = self.unit()?.checked_sub(0xdc00)?;
                return char::from_u32(0x10000 + ((first - 0xd800) << 10) + second);
            }
            other => char::from(other),
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let (digits, rest) = self.0.split_at_checked(4)?;
        self.0 = rest;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_nothing_that_formats_do_not_have_in_names() {
        for (name, metric, label) in [
            ("shop_orders_total", "shop_orders_total", "shop_orders_total"),
            ("shop:orders", "shop:orders", "shop_orders"),
            ("shop.order\u{e4} 2", "shop_order__2", "shop_order__2"),
            ("2nd", "_nd", "_nd"),
        ] {
            assert_eq!(plain(name.into(), b":"), metric);
            assert_eq!(plain(name.into(), b""), label);
        }
    }

    #[test]
    fn a_key_is_understood_with_all_that_json_can_have_in_it() {
        let key = br#"["m", "m_total", {"a": "\"x\\\n\u00e4\ud83d\ude00", "b": ""}, "what it \u2013 is"]"#;
        let (metric, sample, labels, help) = Json(key).key().expect("a key");
        assert_eq!(
            (metric.as_str(), sample.as_str(), help.as_str()),
            ("m", "m_total", "what it \u{2013} is")
        );
        assert_eq!(labels, [("a".into(), "\"x\\\n\u{e4}\u{1f600}".into()), ("b".into(), String::new())]);
        for broken in [
            &br#"["m", "s", {}, 5]"#[..],
            b"",
            b"[",
            br#"["m", "s", {"a" "b"}, "h"]"#,
            br#"["\ud83d", "s", {}, "h"]"#,
        ] {
            assert!(Json(broken).key().is_none(), "{broken:?}");
        }
    }
}
