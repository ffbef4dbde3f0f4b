//! Interprets the outputs of a run: as scores of classes, detections, key points, or maps of classes, masks
//! and pictures.

use attache::model::Subgraph;
use serde::Serialize;
use serde_json::{Value, json};

use super::detections::{self, DEFAULT_THRESHOLD, Detection, detections};
use super::key_points::{self, Figure, KeyPointOutputs};
use super::maps::{self, ClassMap, MapKind, Mask, Segment};
use super::{Output, OutputForm};
use crate::console::Console;
use crate::failure::Failure;
use crate::io::labels::Labels;
use crate::io::numbers::largest;
use crate::io::picture::Picture;

/// Number of classes to print without `--top`.
const DEFAULT_TOP: usize = 5;

/// One of the classes with the highest scores.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Class {
    pub(super) index: usize,
    pub(super) label: Option<String>,
    pub(super) score: f64,
}

/// What the outputs of a run mean.
pub(super) enum Meaning {
    /// The outputs were not interpreted.
    Nothing,
    /// The classes with the highest scores, highest first.
    Classes(Vec<Class>),
    /// The detections, in the order of the outputs or, with `--top`, highest score first.
    Detections(Vec<Detection>),
    /// The class of each position of the picture.
    Segments(ClassMap),
    /// How much each position of the picture belongs to one class.
    Mask(Mask),
    /// Key points of bodies or faces.
    KeyPoints(Vec<Figure>),
    /// A picture that the model made.
    Picture(Picture),
}

/// The options that determine how outputs are interpreted: labels, `--top`, `--threshold` and whether
/// `--draw` is given.
pub(super) struct Question<'a> {
    pub(super) labels: &'a Labels,
    pub(super) top: Option<usize>,
    pub(super) threshold: Option<f64>,
    pub(super) draw: bool,
}

/// The outputs that are interpreted.
#[derive(Debug, PartialEq)]
pub(super) enum AnswerOutputs {
    /// No output is interpreted, because none is suitable or no option requests it.
    Nowhere,
    /// Index of the output with the scores of classes, and the names of the classes, if there are any.
    Scores(usize, Vec<String>),
    /// Indices of the outputs with boxes, classes, scores and count, and the names of the classes, if there
    /// are any.
    Detections([usize; 4], Vec<String>),
    /// Index of the output that is a map, what it contains, and the names of the classes, if there are any.
    Map(usize, MapKind, Vec<String>),
    /// The outputs with key points.
    KeyPoints(KeyPointOutputs),
}

impl AnswerOutputs {
    /// Whether drawing needs no picture to draw on, because the model makes one.
    pub(super) fn is_picture(&self) -> bool {
        matches!(self, Self::Map(_, MapKind::Picture, _))
    }
}

impl Question<'_> {
    /// Whether an option on the command line requests an interpretation.
    fn is_asked(&self) -> bool {
        self.draw || self.labels.are_asked_for() || self.top.is_some() || self.threshold.is_some()
    }

    /// Determines which outputs of the subgraph are interpreted. It is an error if the command line requests
    /// them and no output is suitable. If the model's own labels do not fit, the command warns and continues
    /// without them.
    pub(super) fn answer_outputs(
        &self,
        console: &Console,
        graph: &Subgraph,
        forms: &[OutputForm],
    ) -> Result<AnswerOutputs, Failure> {
        match self.found(graph, forms) {
            Err(text) if self.labels.are_asked_for() || self.labels.is_empty() => Err(Failure::usage(text)),
            Err(text) => {
                console.warn(&format!("classes have no names: {text}"));
                Question { labels: &Labels::default(), ..*self }.answer_outputs(console, graph, forms)
            }
            Ok(found) => Ok(found),
        }
    }

    fn found(&self, graph: &Subgraph, forms: &[OutputForm]) -> Result<AnswerOutputs, String> {
        let plain: Vec<_> = forms.iter().map(|(data_type, shape, _)| (*data_type, shape.clone())).collect();
        let Some(indices) = detections::outputs(graph, &plain) else { return self.positions(forms) };
        self.check_detector(detections::classes(graph))?;
        Ok(AnswerOutputs::Detections(indices, self.labels.of_detections().to_vec()))
    }

    /// Finds key points and maps, which are only looked for on behalf of `--draw` or of labels that name the
    /// classes of a map. Else finds scores.
    fn positions(&self, forms: &[OutputForm]) -> Result<AnswerOutputs, String> {
        let key_points = if self.draw { key_points::find(forms) } else { None };
        if let Some(found) = key_points {
            return Ok(AnswerOutputs::KeyPoints(found));
        }
        let has_named_scores =
            forms.iter().any(|form| self.is_vector(form) && self.labels.of(form.1.elements()).is_some());
        let must_be_named = self.labels.are_asked_for();
        match maps::find(forms, self.labels, !self.draw) {
            Some((index, kind, names)) if !has_named_scores && (!must_be_named || !names.is_empty()) => {
                Ok(AnswerOutputs::Map(index, kind, names))
            }
            _ => self.scores(forms),
        }
    }

    /// Whether an output has more than one element along one dimension only.
    fn is_vector(&self, form: &OutputForm) -> bool {
        form.1.iter().filter(|extent| **extent != 1).count() == 1
    }

    /// Returns an error unless there are no labels or as many as a detector has classes, with or without the
    /// background.
    fn check_detector(&self, classes: Option<usize>) -> Result<(), String> {
        let Some(all) = classes else { return Ok(()) };
        let count = self.labels.of_detections().len();
        match self.labels.is_empty() || count == all || count + 1 == all {
            true => Ok(()),
            false => Err(self.labels.mismatch(all - 1, "what the detector tells apart")),
        }
    }

    /// Finds the output with scores of classes: the first with one element for each label, else the first
    /// vector.
    fn scores(&self, forms: &[OutputForm]) -> Result<AnswerOutputs, String> {
        if self.labels.is_empty() && !self.is_asked() {
            return Ok(AnswerOutputs::Nowhere);
        }
        let fitting =
            forms.iter().enumerate().find_map(|(index, form)| Some((index, self.labels.of(form.1.elements())?)));
        if let Some((index, names)) = fitting {
            return Ok(AnswerOutputs::Scores(index, names.to_vec()));
        }
        match forms.iter().enumerate().find(|(_, form)| self.is_vector(form)) {
            Some((index, _)) if self.labels.is_empty() => Ok(AnswerOutputs::Scores(index, Vec::new())),
            Some((index, (_, shape, name))) => {
                let output = format!("output {index} (\"{}\", {shape})", Console::plain().name(name));
                Err(self.labels.mismatch(shape.elements(), &output))
            }
            None if !self.is_asked() => Ok(AnswerOutputs::Nowhere),
            None if self.draw && self.labels.are_asked_for() => Err(self.unnamed_map(forms)),
            None => {
                let shapes: Vec<_> = forms.iter().map(|(_, shape, _)| shape.to_string()).collect();
                let shapes = shapes.join(", ");
                Err(match self.draw {
                    true => format!(
                        "there is nothing to draw: the outputs (of shapes {shapes}) are neither detections, key points, a \
                        map of classes, a picture nor scores of classes; leave out {}; --out DIR writes them as .npy files",
                        self.asked()
                    ),
                    false => format!(
                        "no output has one score for each class (their shapes are {shapes}); leave out {}",
                        self.asked()
                    ),
                })
            }
        }
    }

    /// Returns the error that the labels do not fit the channels of a map.
    fn unnamed_map(&self, forms: &[OutputForm]) -> String {
        match maps::find(forms, &Labels::default(), false) {
            Some((index, MapKind::Classes, _)) => {
                let (_, shape, name) = &forms[index];
                let output = format!("output {index} (\"{}\", {shape})", Console::plain().name(name));
                let channels = shape.extents().last().copied().unwrap_or_default();
                self.labels.mismatch(channels, &output)
            }
            _ => "no output has classes to name; leave out --labels".to_owned(),
        }
    }

    fn asked(&self) -> String {
        let options = [
            ("--draw", self.draw),
            ("--labels", self.labels.are_asked_for()),
            ("--top", self.top.is_some()),
            ("--threshold", self.threshold.is_some()),
        ];
        let given: Vec<_> = options.iter().filter(|(_, is_given)| *is_given).map(|(option, _)| *option).collect();
        given.join(", ")
    }

    /// Reads the outputs that `found` names. `input` is the height and width of the input that is a picture.
    pub(super) fn answer(&self, found: AnswerOutputs, outputs: &[Output], input: [usize; 2]) -> Meaning {
        match found {
            AnswerOutputs::Nowhere => Meaning::Nothing,
            AnswerOutputs::KeyPoints(found) => Meaning::KeyPoints(found.read(outputs, input, self.threshold)),
            AnswerOutputs::Map(index, kind, names) => {
                let output = &outputs[index];
                let meaning = match kind {
                    MapKind::Classes => ClassMap::of(output, names).map(Meaning::Segments),
                    MapKind::Mask => Mask::of(output).map(Meaning::Mask),
                    MapKind::Picture => maps::picture(output).map(Meaning::Picture),
                };
                meaning.unwrap_or(Meaning::Nothing)
            }
            AnswerOutputs::Scores(index, names) => Meaning::Classes(self.classes(&outputs[index], &names)),
            AnswerOutputs::Detections(indices, names) => {
                let values = indices.map(|index| outputs[index].values.as_slice());
                let threshold = self.threshold.unwrap_or(DEFAULT_THRESHOLD);
                let mut found = detections(values, &names, threshold);
                if let Some(top) = self.top {
                    found.sort_by(|one, other| other.score.total_cmp(&one.score));
                    found.truncate(top);
                }
                Meaning::Detections(found)
            }
        }
    }

    /// Returns the classes with the highest scores of an output, dequantized and with at least the score of
    /// `--threshold`.
    fn classes(&self, output: &Output, names: &[String]) -> Vec<Class> {
        let scores = maps::reals(output);
        let class = |index: usize| Class { index, label: names.get(index).cloned(), score: scores[index] };
        let is_enough = |class: &Class| self.threshold.is_none_or(|threshold| class.score >= threshold);
        largest(&scores, self.top.unwrap_or(DEFAULT_TOP)).into_iter().map(class).filter(is_enough).collect()
    }
}

impl Meaning {
    /// Adds the lists of what was found to the JSON object: the top classes, and what else the outputs mean.
    pub(super) fn add_to(&self, object: &mut Value) {
        object["top"] = json!([]);
        object["detections"] = Value::Null;
        match self {
            Self::Nothing | Self::Picture(_) => {}
            Self::Classes(classes) => object["top"] = json!(classes),
            Self::Detections(detections) => object["detections"] = json!(detections),
            Self::Segments(map) => object["segments"] = json!(map.segments()),
            Self::Mask(mask) => object["mask_percent"] = json!(mask.percent()),
            Self::KeyPoints(figures) => object["key_points"] = json!(figures),
        }
    }

    pub(super) fn text(&self, console: &Console) -> Option<String> {
        let label = |label: &Option<String>| label.as_ref().map_or(String::new(), |label| console.name(label));
        let row = |class: usize, score: f64, name: &Option<String>| {
            vec![class.to_string(), format!("{score:.6}"), label(name)]
        };
        match self {
            Self::Nothing | Self::Picture(_) => None,
            Self::Classes(classes) if classes.is_empty() => Some("no class has such a score".to_owned()),
            Self::Classes(classes) => {
                let rows: Vec<_> = classes.iter().map(|it| row(it.index, it.score, &it.label)).collect();
                Some(console.table(&["class", "score", "label"], &rows))
            }
            Self::Detections(detections) if detections.is_empty() => Some("nothing is detected".to_owned()),
            Self::Detections(detections) => {
                let rounded = |edges: [f64; 4]| edges.map(|edge| format!("{edge:.3}"));
                let row = |it: &Detection| [row(it.class, it.score, &it.label), rounded(it.edges).to_vec()].concat();
                let rows: Vec<_> = detections.iter().map(row).collect();
                Some(console.table(&["class", "score", "label", "top", "left", "bottom", "right"], &rows))
            }
            Self::Segments(map) => {
                let row = |it: &Segment| vec![it.class.to_string(), format!("{:.1}", it.percent), label(&it.label)];
                let rows: Vec<_> = map.segments().iter().map(row).collect();
                Some(console.table(&["class", "% pixels", "label"], &rows))
            }
            Self::Mask(mask) => Some(format!("the mask covers {:.1} % of the picture", mask.percent())),
            Self::KeyPoints(figures) => Some(key_points::text(console, figures)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use attache::{DataType, Quantization, Shape, TensorInfo};

    use super::*;
    use crate::io::array::Array;
    use crate::io::numbers::{Summary, numbers};

    fn output(values: &[u8], quantization: Option<Quantization>) -> Output {
        let (data_type, shape) = (DataType::UInt8, Shape::from([1, values.len()]));
        let array = Array { data_type, shape: shape.clone(), bytes: values.to_vec() };
        let mut info = TensorInfo::new("y", data_type, shape);
        info.quantization = quantization;
        let values = numbers(data_type, values).unwrap();
        Output { info, array, summary: Summary::of(&values), values }
    }

    /// Returns an output of floats.
    pub(crate) fn floats(shape: &[usize], values: &[f32]) -> Output {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let (data_type, shape) = (DataType::Float32, Shape::from(shape));
        let info = TensorInfo::new("y", data_type, shape.clone());
        let values = numbers(data_type, &bytes).unwrap();
        let array = Array { data_type, shape, bytes };
        Output { info, array, summary: Summary::of(&values), values }
    }

    fn form(shape: &[usize]) -> OutputForm {
        (DataType::UInt8, shape.into(), "y".to_owned())
    }

    fn ask<T>(labels: &Labels, top: Option<usize>, threshold: Option<f64>, of: impl FnOnce(Question<'_>) -> T) -> T {
        of(Question { labels, top, threshold, draw: false })
    }

    #[test]
    fn classes_come_from_the_output_that_fits_the_labels() {
        let quantization = Quantization { scale: vec![0.5], zero_point: vec![2], axis: 0 };
        let outputs = [output(&[9, 9, 9], None), output(&[4, 8], Some(quantization))];
        let forms = [form(&[1, 3]), form(&[1, 2])];
        let labels = Labels::of_names(&["cat", "dog"]);
        let found = ask(&labels, None, None, |question| question.scores(&forms)).unwrap();
        let AnswerOutputs::Scores(1, names) = found else { panic!("{found:?}") };
        let dog = || Class { index: 1, label: Some("dog".into()), score: 3.0 };
        let cat = Class { index: 0, label: Some("cat".into()), score: 1.0 };
        let classes = |threshold| ask(&labels, None, threshold, |question| question.classes(&outputs[1], &names));
        assert_eq!(classes(None), [dog(), cat]);
        assert_eq!(classes(Some(2.0)), [dog()]);
        assert_eq!(classes(Some(4.0)), []);
        let none = Labels::default();
        let first = ask(&none, Some(1), None, |question| question.classes(&outputs[0], &[]));
        assert_eq!(first, [Class { index: 0, label: None, score: 9.0 }]);
    }

    #[test]
    fn labels_must_fit_an_output() {
        let (two, none) = (Labels::of_names(&["cat", "dog"]), Labels::default());
        let text = ask(&two, None, None, |question| question.scores(&[form(&[1, 4])])).unwrap_err();
        assert!(text.contains("labels.txt: 2 labels for the 4 classes of output 0"), "{text}");
        let text = ask(&none, Some(3), None, |question| question.scores(&[form(&[1, 9, 9, 2])])).unwrap_err();
        assert!(text.contains("[1, 9, 9, 2]") && text.ends_with("leave out --top"), "{text}");
        assert_eq!(
            ask(&none, None, None, |question| question.scores(&[form(&[1, 9, 9, 2])])),
            Ok(AnswerOutputs::Nowhere)
        );
        assert_eq!(
            ask(&none, None, Some(0.5), |question| question.scores(&[form(&[7])])),
            Ok(AnswerOutputs::Scores(0, vec![]))
        );
    }

    #[test]
    fn a_detectors_labels_leave_out_the_background_or_not() {
        let check = |names: &[&str], classes| {
            ask(&Labels::of_names(names), None, None, |question| question.check_detector(classes))
        };
        assert_eq!(check(&["cat", "dog"], Some(3)), Ok(()));
        assert_eq!(check(&["???", "cat", "dog"], Some(3)), Ok(()));
        assert_eq!(check(&["cat"], None), Ok(()));
        assert!(check(&["cat"], Some(3)).unwrap_err().contains("1 label for the 2 classes"));
    }

    #[test]
    fn what_is_drawn_depends_on_the_outputs() {
        let forms = |shape: &[usize]| [(DataType::Float32, Shape::from(shape), "y".to_owned())];
        let found = |labels: &Labels, shape: &[usize], draw: bool| {
            Question { labels, top: None, threshold: None, draw }.positions(&forms(shape))
        };
        let (none, two) = (Labels::default(), Labels::of_names(&["road", "car"]));
        let segments = |names: &[&str]| {
            let names = names.iter().map(|name| name.to_string()).collect();
            Ok(AnswerOutputs::Map(0, MapKind::Classes, names))
        };
        assert_eq!(found(&none, &[1, 8, 8, 2], true), segments(&[]));
        assert_eq!(found(&none, &[1, 8, 8, 2], false), Ok(AnswerOutputs::Nowhere));
        assert_eq!(found(&two, &[1, 8, 8, 2], false), segments(&["road", "car"]));
        assert_eq!(found(&none, &[1, 7], true), Ok(AnswerOutputs::Scores(0, vec![])));
        assert!(found(&none, &[1, 8, 8, 3], true).unwrap().is_picture());
        assert!(found(&two, &[1, 8, 8, 5], true).unwrap_err().contains("2 labels for the 5 classes of output 0"));
        assert!(found(&two, &[1, 8, 8, 1], true).unwrap_err().contains("leave out --labels"));
        let text = found(&none, &[3, 8, 8, 5], true).unwrap_err();
        assert!(text.contains("nothing to draw") && text.contains("[3, 8, 8, 5]"), "{text}");
    }
}
