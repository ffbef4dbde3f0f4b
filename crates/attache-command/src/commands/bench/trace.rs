//! Converts a profile to a trace in Chrome's format for Perfetto and chrome://tracing, with a row for each
//! partition and one for the CPU.

use serde_json::{Value, json};

use super::operators;
use super::profile::{Dispatch, Profiles};

/// The number of the CPU's row, which no partition has.
const CPU: usize = usize::MAX >> 32;

/// Returns the trace of one run of the model named `model` as JSON.
pub(super) fn trace(model: &str, profiles: &Profiles) -> Value {
    let named = |what: &str, row: usize, name: String| json!({ "ph": "M", "name": what, "pid": 1, "tid": row, "args": { "name": name } });
    let mut events = vec![named("process_name", 0, model.to_owned())];
    if let Some(profile) = &profiles.gpu {
        let mut rows: Vec<usize> = profile.dispatches.iter().map(|dispatch| dispatch.partition).collect();
        rows.dedup();
        events.extend(rows.into_iter().map(|row| named("thread_name", row, format!("partition {row}"))));
        events.extend(profile.begins().map(event));
    }
    if let Some(profile) = &profiles.cpu {
        events.push(named("thread_name", CPU, "CPU".to_owned()));
        events.extend(profile.begins().map(step));
    }
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

fn step((begin, step): (f64, &operators::Step)) -> Value {
    json!({
        "ph": "X",
        "name": step.label(),
        "cat": "cpu",
        "pid": 1,
        "tid": CPU,
        "ts": begin,
        "dur": step.us,
        "args": { "operators": step.operators },
    })
}

#[cfg(test)]
mod tests {
    use super::super::profile::tests::profiles;
    use super::*;

    #[test]
    fn dispatches_are_complete_events() {
        let trace = trace("model", &profiles());
        let events = trace["traceEvents"].as_array().unwrap();
        let complete: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        let times: Vec<_> = complete.iter().map(|event| (event["ts"].as_f64(), event["dur"].as_f64())).collect();
        assert_eq!(times[..2], [(Some(0.0), Some(2.0)), (Some(3.0), Some(7.0))]);
        assert_eq!(times[2..], [(0.0, 1.0), (1.0, 4.0), (5.0, 3.0)].map(|(begin, us)| (Some(begin), Some(us))));
        assert_eq!(complete[1]["name"], "3 CONV_2D");
        assert!(events.iter().any(|event| event["name"] == "thread_name" && event["args"]["name"] == "partition 0"));
    }
}
