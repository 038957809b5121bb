//! The result as some lines for a person at a terminal. Pure: it reads the JSON that everybody else reads.

use serde_json::Value;

/// What one wants to know first. The whole is in the JSON.
pub fn summary(result: &Value) -> String {
    let (totals, generator) = (&result["totals"], &result["generator"]);
    let mut lines = vec![
        format!(
            "{} s towards {}: {} offered, {} good replies, {} failed",
            rounded(&result["window_s"], 1.0, 1),
            result["address"].as_str().unwrap_or_default(),
            totals["offered"],
            totals["replies"],
            totals["failed"]
        ),
        format!(
            "replies    {} a second (offered {})",
            rounded(&totals["replies_per_s"], 1.0, 1),
            rounded(&totals["offered_per_s"], 1.0, 1)
        ),
    ];
    for name in ["response", "service", "connect", "handshake"] {
        let times = &result["times"][name];
        if times["count"] == 0 && name == "handshake" {
            continue;
        }
        let at = |percentile: &str| rounded(&times["percentiles_us"][percentile], 1e-3, 3);
        let max = rounded(&times["max_us"], 1e-3, 3);
        lines.push(format!(
            "{name:<10} p50 {}  p90 {}  p99 {}  p99.9 {}  max {max} ms",
            at("50"),
            at("90"),
            at("99"),
            at("99.9")
        ));
    }
    lines.push(format!("errors     {}", counted(&result["errors"])));
    lines.push(format!("generator  {}", generator["verdict"].as_str().unwrap_or_default()));
    for reason in generator["reasons"].as_array().into_iter().flatten() {
        lines.push(format!("           {}", reason.as_str().unwrap_or_default()));
    }
    lines.push("--output FILE keeps the whole result as JSON".into());
    lines.join("\n") + "\n"
}

fn rounded(value: &Value, scale: f64, digits: usize) -> String {
    value.as_f64().map_or("-".into(), |number| format!("{:.digits$}", number * scale))
}

fn counted(counts: &Value) -> String {
    let each = counts.as_object().into_iter().flatten().map(|(name, count)| format!("{name} {count}"));
    let each: Vec<String> = each.collect();
    if each.is_empty() { "none".into() } else { each.join(", ") }
}
