//! The evaluation of a classifier: how often the true class is among the best of each picture.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use attache::{CompiledModel, Interpreter, TensorInfo};

use super::pictures::{self, Preparation};
use super::truth::{Labelled, Pairs};
use super::workers;
use crate::console::Console;
use crate::failure::Failure;
use crate::io::numbers::{largest, numbers};
use crate::measure::timing::milliseconds;

/// The classes of a model: how many scores it gives, and their names as far as they are known.
#[derive(Clone, Debug)]
pub(crate) struct Classes<'a> {
    pub(crate) count: usize,
    pub(crate) names: &'a [String],
    /// Whether true classes are names even if none of them is known, so that numbers mean nothing.
    pub(crate) are_names: bool,
}

/// How true classes are written: as names, or as numbers from 0.
struct Key<'a> {
    count: usize,
    /// The first class of each name; `None` for numbers.
    firsts: Option<BTreeMap<&'a str, usize>>,
    names: &'a [String],
}

impl<'a> Key<'a> {
    /// Returns how the true classes of these labels are written: as names if one of them is the name of a class.
    fn new(classes: &Classes<'a>, labels: &BTreeSet<String>) -> Self {
        let mut firsts = BTreeMap::new();
        for (class, name) in classes.names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            firsts.entry(name.as_str()).or_insert(class);
        }
        let are_names = classes.are_names || labels.iter().any(|label| firsts.contains_key(label.as_str()));
        Self { count: classes.count, firsts: are_names.then_some(firsts), names: classes.names }
    }

    /// Returns the class with this label, the first of its name.
    fn find(&self, label: &str) -> Result<usize, String> {
        let count = self.count;
        let class = match &self.firsts {
            Some(firsts) => firsts.get(label).copied(),
            None => label.parse().ok(),
        };
        match class {
            Some(class) if class < count => Ok(class),
            Some(class) => Err(format!("class {class} is out of range: the model has the classes 0 to {}", count - 1)),
            None => Err(format!("no class has the name \"{label}\"")),
        }
    }

    /// Returns the class that stands for this one: where true classes are names, those of the same name are one.
    fn one(&self, class: usize) -> usize {
        let name = self.names.get(class).map(String::as_str);
        let first = self.firsts.as_ref().zip(name).and_then(|(firsts, name)| firsts.get(name));
        first.copied().unwrap_or(class)
    }
}

impl Classes<'_> {
    /// Returns the name of a class, or its number.
    pub(crate) fn name(&self, class: usize) -> String {
        self.names.get(class).filter(|name| !name.is_empty()).map_or_else(|| class.to_string(), String::clone)
    }
}

/// What came of one picture.
struct Answer {
    /// The best classes, best first.
    best: Vec<usize>,
    preparing: f64,
    running: f64,
}

/// What came of all pictures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classified {
    /// How many pictures were evaluated.
    pub(crate) count: usize,
    /// For each K from 1, how many pictures have the true class among the K best.
    pub(crate) hits: Vec<usize>,
    /// How many pictures of the first class were taken for the second.
    pub(crate) confusion: BTreeMap<(usize, usize), usize>,
    /// Milliseconds for each picture: reading and preparing it, and running the model.
    pub(crate) preparing: Vec<f64>,
    pub(crate) running: Vec<f64>,
    /// What is wrong with pictures that were left out.
    pub(crate) problems: Vec<String>,
}

impl Classified {
    /// Returns the share of pictures with the true class among the K best, for each K from 1.
    pub(crate) fn accuracies(&self) -> Vec<f64> {
        self.hits.iter().map(|hits| *hits as f64 / self.count.max(1) as f64).collect()
    }

    fn add(&mut self, truth: usize, answer: Answer) {
        self.count += 1;
        let place = answer.best.iter().position(|class| *class == truth);
        if let Some(place) = place {
            self.hits[place..].iter_mut().for_each(|hits| *hits += 1);
        }
        if let Some(first) = answer.best.first() {
            *self.confusion.entry((truth, *first)).or_default() += 1;
        }
        self.preparing.push(answer.preparing);
        self.running.push(answer.running);
    }
}

/// Returns how many classes a model has; an error if it is no classifier of pictures.
pub(crate) fn classes(interpreter: &Interpreter, model: &str) -> Result<usize, Failure> {
    let ([input], [output]) = (interpreter.inputs(), interpreter.outputs()) else {
        let counts = format!("{} inputs and {} outputs", interpreter.inputs().len(), interpreter.outputs().len());
        let text = format!("it has {counts}; a classifier has one input and one output");
        return Err(Failure::unsupported(text).at(model));
    };
    pictures::size(input, model)?;
    let TensorInfo { shape, data_type, .. } = output;
    let count = shape.extents().last().copied().unwrap_or(0);
    let is_numeric = numbers(*data_type, &[]).is_some();
    if count < 1 || shape.elements() != count || !is_numeric {
        let text = format!(
            "an output of type {data_type} and shape {shape} has no scores of classes; it must be [1, classes]"
        );
        return Err(Failure::unsupported(text).at(model));
    }
    Ok(count)
}

/// Evaluates a classifier on pictures whose classes are known, on so many threads. `most` is the largest K.
pub(crate) fn evaluate(
    console: &Console,
    runner: (&CompiledModel, usize),
    classes: &Classes<'_>,
    preparation: &Preparation,
    (pairs, most): (Pairs, usize),
) -> Result<Classified, Failure> {
    let mut all = Classified { hits: vec![0; most], problems: pairs.problems, ..Classified::default() };
    let mut items: Vec<(Labelled, usize)> = Vec::new();
    let key = Key::new(classes, &pairs.labels);
    for labelled in pairs.labelled {
        match key.find(&labelled.label) {
            Ok(class) => items.push((labelled, class)),
            Err(reason) => {
                let name = pictures::name(&labelled.picture);
                all.problems.push(format!("{name} (line {} of the labels): {reason}", labelled.line));
            }
        }
    }
    let work = |interpreter: &mut Interpreter, item: &(Labelled, usize)| {
        answer(interpreter, preparation, item, most.min(classes.count))
    };
    let answers = workers::for_each(console, runner, &items, work)?;
    for ((_, class), answer) in items.iter().zip(answers) {
        match answer {
            Ok(mut answer) => {
                answer.best.iter_mut().for_each(|class| *class = key.one(*class));
                all.add(*class, answer);
            }
            Err(failure) if failure.kind == crate::failure::Kind::Usage => all.problems.push(failure.message),
            // Anything but a bad picture is wrong with all of them.
            Err(failure) => return Err(failure),
        }
    }
    // With fewer classes than K, all of them are among the K best.
    all.hits.iter_mut().skip(classes.count).for_each(|hits| *hits = all.count);
    Ok(all)
}

fn answer(
    interpreter: &mut Interpreter,
    preparation: &Preparation,
    (labelled, _): &(Labelled, usize),
    most: usize,
) -> Result<Answer, Failure> {
    let start = Instant::now();
    let prepared = preparation.input(&labelled.picture, &interpreter.inputs()[0])?;
    let preparing = milliseconds(start);
    interpreter.write_bytes(0, &prepared.array.bytes)?;
    // Every picture finds the model as new, so that results do not depend on threads.
    interpreter.reset_variables();
    let start = Instant::now();
    interpreter.invoke()?;
    let bytes = interpreter.read_bytes(0)?;
    let running = milliseconds(start);
    let scores = numbers(interpreter.outputs()[0].data_type, bytes).unwrap_or_default();
    Ok(Answer { best: largest(&scores, most), preparing, running })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_names_or_numbers() {
        let names = ["cat", "dog", "7"].map(str::to_owned);
        let classes = Classes { count: 3, names: &names, are_names: false };
        let key = |labels: &[&str]| Key::new(&classes, &labels.iter().map(|label| (*label).to_owned()).collect());
        let named = key(&["0", "7"]);
        assert_eq!((named.find("dog"), named.find("7")), (Ok(1), Ok(2)));
        for label in ["0", "3", "bird"] {
            assert!(named.find(label).unwrap_err().contains(&format!("no class has the name \"{label}\"")));
        }
        let numbered = key(&["0", "2", "3"]);
        assert_eq!((numbered.find("0"), numbered.find("2")), (Ok(0), Ok(2)));
        assert!(numbered.find("3").unwrap_err().contains("class 3 is out of range: the model has the classes 0 to 2"));
        assert!(numbered.find("bird").unwrap_err().contains("no class has the name \"bird\""));
        let alone = Classes { are_names: true, ..classes.clone() };
        assert!(Key::new(&alone, &BTreeSet::new()).find("0").is_err());
        assert_eq!((classes.name(1), classes.name(9)), ("dog".to_owned(), "9".to_owned()));
    }

    #[test]
    fn classes_of_one_name_are_one() {
        let names = ["crane", "dog", "", "crane", ""].map(str::to_owned);
        let classes = Classes { count: 5, names: &names, are_names: false };
        let key = |label: &str| Key::new(&classes, &BTreeSet::from([label.to_owned()]));
        let ones = |key: Key<'_>| [0, 1, 2, 3, 4, 9].map(|class| key.one(class));
        assert_eq!(ones(key("crane")), [0, 1, 2, 0, 4, 9]);
        assert_eq!(ones(key("3")), [0, 1, 2, 3, 4, 9], "numbers tell classes of one name apart");
    }

    #[test]
    fn hits_are_cumulative() {
        let mut all = Classified { hits: vec![0; 3], ..Classified::default() };
        let answer = |best: &[usize]| Answer { best: best.to_vec(), preparing: 1.0, running: 2.0 };
        all.add(4, answer(&[4, 1, 2]));
        all.add(4, answer(&[1, 2, 4]));
        all.add(0, answer(&[1, 2, 3]));
        assert_eq!((all.hits.clone(), all.count), (vec![1, 1, 2], 3));
        assert_eq!(all.accuracies()[2], 2.0 / 3.0);
        assert_eq!(all.confusion, BTreeMap::from([((4, 4), 1), ((4, 1), 1), ((0, 1), 1)]));
    }
}
