//! What a report holds: the data that its page shows, and that lies in the page for later comparisons.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::commands::advise::options::Snippet;
use crate::commands::advise::study::{Measured, Skipped, Study};
use crate::console::visible;
use crate::failure::Failure;

/// The version of the data's format. Others are refused.
pub(super) const FORMAT: u32 = 2;
/// Most elements of a list in a report, of which no measurement makes as many.
const MOST: usize = 100_000;
/// Most configurations of a model.
const MOST_CONFIGURATIONS: usize = 1000;
/// Longest duration in milliseconds: eleven days.
const LONGEST: f64 = 1e9;

/// A report of several models on one machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Data {
    pub(super) format: u32,
    /// The version of the command that measured.
    pub(super) version: String,
    /// Date and time in UTC.
    pub(super) made: String,
    pub(super) machine: Machine,
    pub(super) models: Vec<ModelData>,
    pub(super) failures: Vec<FailureData>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) system: String,
    pub(super) cpu: String,
    pub(super) threads: usize,
    /// The adapters that were measured, with their drivers.
    pub(super) adapters: Vec<String>,
}

/// A model that could not be measured, and why.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FailureData {
    pub(super) model: String,
    pub(super) message: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ModelData {
    /// The model's file name without its folder.
    pub(super) title: String,
    pub(super) bytes: usize,
    /// A hash of the file's content, by which comparisons tell whether models are the same.
    pub(super) hash: String,
    pub(super) operators: usize,
    /// Each input and output with type and shape.
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) study: Study,
    pub(super) headline: String,
    pub(super) remarks: Vec<String>,
    pub(super) snippets: Vec<Snippet>,
    /// The name of the configuration whose placement is shown.
    pub(super) placed: String,
    pub(super) placement: Vec<Placed>,
    pub(super) profiles: Vec<ProfileData>,
    /// Configurations whose profile is missing, and why.
    pub(super) unprofiled: Vec<Skipped>,
}

/// An operator and where it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Placed {
    pub(super) operator: String,
    pub(super) place: Place,
    /// Why it is there, or what became of it.
    pub(super) note: String,
    /// Whether it reads constants alone.
    pub(super) is_constant: bool,
    /// Indices of the operators whose outputs it reads.
    pub(super) reads: Vec<usize>,
}

/// Where an operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    Cpu,
    Gpu,
    /// Nowhere: it was computed in advance or removed.
    Folded,
}

impl Place {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
            Self::Folded => "folded",
        }
    }
}

/// Where the time of a configuration goes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProfileData {
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) shares: Vec<Share>,
}

/// The operators of one name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) operators: String,
    pub(super) place: Place,
    pub(super) count: usize,
    pub(super) us: f64,
}

impl Data {
    /// Reads the JSON of a report, which may be of any origin. Characters in texts that a terminal or page would obey are
    /// replaced.
    pub(super) fn read(json: &str) -> Result<Self, Failure> {
        let wrong = |reason: String| {
            let remedy = "`attache report MODEL --out DIR` makes one";
            Failure::usage(format!("this is no report, as a page or as JSON: {reason}; {remedy}"))
        };
        let mut value: Value = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
        // The format comes first: other formats have other fields.
        match value.get("format").and_then(Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                let made = value.get("version").and_then(Value::as_str).map(visible).unwrap_or_default();
                let remedy = "measure anew, or read it with the version of Attaché that wrote it";
                let text = format!("this report has format {format} (Attaché {made}), and this command reads {FORMAT}");
                return Err(Failure::usage(format!("{text}; {remedy}")));
            }
            None => return Err(wrong("it has no number of a format".to_owned())),
        }
        clean(&mut value);
        let data: Self = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        data.check().map_err(wrong)?;
        Ok(data)
    }

    /// Returns what no measurement says, if there is such a thing.
    fn check(&self) -> Result<(), String> {
        if self.models.len() > MOST || self.failures.len() > MOST || self.machine.adapters.len() > MOST {
            return Err(format!("it has more than {MOST} entries of a kind"));
        }
        self.models.iter().try_for_each(|model| model.check().map_err(|reason| format!("{}: {reason}", model.title)))
    }
}

impl ModelData {
    fn check(&self) -> Result<(), String> {
        let Study { configurations, default, choice, .. } = &self.study;
        if configurations.len() > MOST_CONFIGURATIONS {
            return Err(format!("{} configurations are more than {MOST_CONFIGURATIONS}", configurations.len()));
        }
        for (name, index) in [("default", *default), ("choice", *choice)] {
            if index >= configurations.len() {
                return Err(format!("{name} is {index}, and there are {} configurations", configurations.len()));
            }
        }
        let durations = |measured: &Measured| {
            let times = measured.e2e_ms.map_or([0.0; 2], |times| [times.p5, times.p95]);
            let own = [measured.device_ms, measured.init_ms, measured.first_ms, measured.run_ms.unwrap_or(0.0)];
            [own.as_slice(), times.as_slice()].concat()
        };
        let mut all = configurations.iter().flat_map(durations);
        let shares = self.profiles.iter().flat_map(|profile| &profile.shares).map(|share| share.us / 1e3);
        match all.find(|ms| !is_duration(*ms)).or_else(|| shares.into_iter().find(|ms| !is_duration(*ms))) {
            Some(ms) => Err(format!("{ms} ms is no duration of a run")),
            None => Ok(()),
        }
    }
}

fn is_duration(ms: f64) -> bool {
    (0.0..=LONGEST).contains(&ms)
}

/// Replaces the characters of all texts that a terminal or page would obey instead of showing. Lines stay.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.split('\n').map(visible).collect::<Vec<_>>().join("\n"),
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the hash of a model's content: 64-bit FNV-1a (Fowler, Noll and Vo), with the length.
pub(super) fn hash(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}-{}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step), bytes.len())
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::advise::study::tests::{on_cpu, study};

    /// Returns a report of models with these titles and hashes, each of which takes this long.
    pub(in crate::commands::report) fn data(models: &[(&str, &str, f64)]) -> Data {
        let model = |(title, hash, ms): &(&str, &str, f64)| ModelData {
            title: (*title).to_owned(),
            bytes: 10,
            hash: (*hash).to_owned(),
            operators: 1,
            inputs: vec!["x float32[1]".to_owned()],
            outputs: vec!["y float32[1]".to_owned()],
            study: study(vec![on_cpu(4, Some(*ms)), on_cpu(1, Some(2.0 * ms))]),
            headline: "use it".to_owned(),
            remarks: Vec::new(),
            snippets: Vec::new(),
            placed: "CPU, 4 threads".to_owned(),
            placement: Vec::new(),
            profiles: Vec::new(),
            unprofiled: Vec::new(),
        };
        Data {
            format: FORMAT,
            version: "1".to_owned(),
            made: "2026".to_owned(),
            machine: Machine { system: "s".to_owned(), cpu: "c".to_owned(), threads: 4, adapters: Vec::new() },
            models: models.iter().map(model).collect(),
            failures: Vec::new(),
        }
    }

    #[test]
    fn what_no_measurement_says_is_refused() {
        let good = || json!(data(&[("m", "1", 5.0)]));
        assert!(Data::read(&good().to_string()).is_ok());
        let refused = |change: &dyn Fn(&mut Value), text: &str| {
            let mut value = good();
            change(&mut value);
            let message = Data::read(&value.to_string()).unwrap_err().message;
            assert!(message.contains(text), "{text}: {message}");
        };
        let study = |value: &mut Value, name: &str, to: Value| value["models"][0]["study"][name] = to;
        refused(&|value| study(value, "choice", json!(99)), "choice is 99");
        refused(&|value| study(value, "default", json!(2)), "default is 2");
        let ms = |value: &mut Value, to: Value| value["models"][0]["study"]["configurations"][0]["run_ms"] = to;
        refused(&|value| ms(value, json!(-5.0)), "-5 ms is no duration");
        refused(&|value| ms(value, json!(1e308)), "is no duration");
        let many = json!(vec![json!(on_cpu(1, Some(1.0))); MOST_CONFIGURATIONS + 1]);
        refused(&|value| study(value, "configurations", many.clone()), "are more than");
        refused(&|value| value["format"] = json!(1), "has format 1 (Attaché 1), and this command reads 2");
        refused(&|value| value["format"] = json!("x"), "no number of a format");
        assert!(Data::read("{\"format\": 99}").unwrap_err().message.contains("format 99"), "the format is read first");
        assert!(Data::read("[1]").is_err() && Data::read("").is_err());
    }

    #[test]
    fn texts_of_others_obey_nothing() {
        let data = Data::read(&json!(data(&[("a\u{1b}[2J\u{202e}<b>", "1", 5.0)])).to_string()).unwrap();
        assert_eq!(data.models[0].title, "a\u{fffd}[2J\u{fffd}<b>");
    }

    #[test]
    fn content_has_a_hash() {
        assert_eq!(hash(b""), "cbf29ce484222325-0");
        assert_eq!(hash(b"a"), "af63dc4c8601ec8c-1");
    }
}
