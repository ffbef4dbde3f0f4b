//! Converts a profile to a trace in Chrome's format for Perfetto and chrome://tracing, with a row for each
//! partition.

use serde_json::{Value, json};

use super::profile::{Dispatch, Profile};

/// Returns the trace of one run of the model named `model` as JSON.
pub(super) fn trace(model: &str, profile: &Profile) -> Value {
    let named = |what: &str, row: usize, name: String| json!({ "ph": "M", "name": what, "pid": 1, "tid": row, "args": { "name": name } });
    let mut events = vec![named("process_name", 0, model.to_owned())];
    let mut rows: Vec<usize> = profile.dispatches.iter().map(|dispatch| dispatch.partition).collect();
    rows.dedup();
    events.extend(rows.into_iter().map(|row| named("thread_name", row, format!("partition {row}"))));
    events.extend(profile.begins().map(event));
    json!({ "traceEvents": events, "displayTimeUnit": "ns" })
}

fn event((begin, dispatch): (f64, &Dispatch)) -> Value {
    json!({
        "ph": "X",
        "name": dispatch.label(),
        "cat": dispatch.kernel,
        "pid": 1,
        "tid": dispatch.partition,
        "ts": begin,
        "dur": dispatch.us,
        "args": {
            "kernel": dispatch.kernel,
            "operators": dispatch.operators,
            "operations": dispatch.operations,
            "bytes_read": dispatch.bytes_read,
            "bytes_written": dispatch.bytes_written,
            "bandwidth_percent": dispatch.bandwidth_percent,
            "arithmetic_percent": dispatch.arithmetic_percent,
            "roofline_percent": dispatch.roofline_percent,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::profile::tests::profile;
    use super::*;

    #[test]
    fn dispatches_are_complete_events() {
        let trace = trace("model", &profile());
        let events = trace["traceEvents"].as_array().unwrap();
        let complete: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        let times: Vec<_> = complete.iter().map(|event| (event["ts"].as_f64(), event["dur"].as_f64())).collect();
        assert_eq!(times, [(Some(0.0), Some(2.0)), (Some(3.0), Some(7.0))]);
        assert_eq!(complete[1]["name"], "3 CONV_2D");
        assert!(events.iter().any(|event| event["name"] == "thread_name" && event["args"]["name"] == "partition 0"));
    }
}
