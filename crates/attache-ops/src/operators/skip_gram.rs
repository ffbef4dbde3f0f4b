//! SKIP_GRAM: the sequences of words of a sentence that leave out at most `max_skip_size` words between any two.
//!
//! Sequences have `ngram_size` words, or at most so many with `include_all_ngrams`. They come in the order of their first
//! words, then of their second words and so on, each after the longer ones that begin with it. A sentence of fewer than
//! `ngram_size` words has none.

use attache_base::{DataType, Shape, strings};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SKIP_GRAM),
    versions: 1..=1,
    inputs: &[input("sentence").of(&[DataType::String])],
    parse,
}];

#[derive(Debug)]
struct SkipGram {
    /// The number of words of a sequence.
    words: usize,
    /// The largest number of words between two of a sequence.
    skipped: usize,
    /// Whether shorter sequences count too.
    shorter: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_skip_gram_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let count = |name: &str, value: i32| {
        usize::try_from(value).map_err(|_| OpError::invalid(format!("{name} is {value}; it must not be negative")))
    };
    Ok(Box::new(SkipGram {
        words: count("ngram_size", options.ngram_size())?,
        skipped: count("max_skip_size", options.max_skip_size())?,
        shorter: options.include_all_ngrams(),
    }))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns the words of a sentence, which white space separates. As in TensorFlow Lite, a first word after white space
/// is none, unless nothing but the end of the sentence follows it, and then has one character of that white space.
fn words(sentence: &[u8]) -> Result<Vec<&[u8]>, OpError> {
    let (mut words, mut start) = (Vec::new(), 0);
    for end in 1..=sentence.len() {
        let is_last = end == sentence.len();
        if is_last || is_space(sentence[end]) {
            if end > start && (is_last || !is_space(sentence[start])) {
                let no_memory =
                    |_| OpError::out_of_memory("no memory for a list of the words; take a shorter sentence");
                words.try_reserve(1).map_err(no_memory)?;
                words.push(&sentence[start..end]);
            }
            start = end + 1;
        }
    }
    Ok(words)
}

impl SkipGram {
    /// Calls `each` with the places of the words of every sequence out of `count` words, in order, until it returns false.
    fn sequences(&self, count: usize, mut each: impl FnMut(&[usize]) -> bool) {
        if self.words == 0 || count < self.words {
            return;
        }
        // A sequence, and after it the place that its next word will have.
        let (mut sequence, mut next) = (Vec::with_capacity(self.words), 0);
        loop {
            if self.goes_on(&sequence, next, count) {
                sequence.push(next);
                next += 1;
                continue;
            }
            let is_one = if self.shorter { !sequence.is_empty() } else { sequence.len() == self.words };
            if is_one && !each(&sequence) {
                return;
            }
            match sequence.pop() {
                Some(last) => next = last + 1,
                None => return,
            }
        }
    }

    /// Whether the word at the place `next` may follow, so that at least one sequence comes of it.
    fn goes_on(&self, sequence: &[usize], next: usize, count: usize) -> bool {
        let missing = self.words - sequence.len();
        let enough = missing > 0 && if self.shorter { next < count } else { count.saturating_sub(next) >= missing };
        enough && sequence.last().is_none_or(|last| next - last - 1 <= self.skipped)
    }
}

impl Operator for SkipGram {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        if let Some(shape) = inputs.fact(0).shape.as_ref().filter(|shape| shape.checked_elements() == Some(0)) {
            return Err(OpError::invalid(format!("its input of shape {shape} has no sentence")));
        }
        Ok(vec![Inferred::unknown(DataType::String)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let words = words(eval.input(0)?.strings()?.get(0))?;
        // The first pass measures the sequences, so that none is kept that exceeds a limit.
        let (mut count, mut size) = (0, strings::least_size(0));
        self.sequences(words.len(), |places| {
            let length = places.iter().map(|place| words[*place].len() + 1).sum::<usize>() - 1;
            (count, size) = (count + 1, size + length + strings::least_size(1) - strings::least_size(0));
            i32::try_from(size).is_ok()
        });
        if i32::try_from(size).is_err() {
            return Err(OpError::limit_exceeded("sequences of more than 2 GiB cannot be addressed"));
        }
        let bytes = eval.host.make_output(0, Shape::from([count]), size)?;
        let mut writer = strings::Writer::new(bytes, count);
        self.sequences(words.len(), |places| {
            for (index, place) in places.iter().enumerate() {
                writer.append(if index > 0 { b" " } else { b"" });
                writer.append(words[*place]);
            }
            writer.end();
            true
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequences(words: usize, skipped: usize, shorter: bool, count: usize) -> Vec<Vec<usize>> {
        let mut made = Vec::new();
        SkipGram { words, skipped, shorter }.sequences(count, |places| {
            made.push(places.to_vec());
            made.len() < 1000
        });
        made
    }

    #[test]
    fn longer_sequences_come_first() {
        assert_eq!(sequences(2, 1, false, 4), [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]);
        let all: [&[usize]; 6] = [&[0, 1], &[0], &[1, 2], &[1], &[2], &[]];
        assert_eq!(sequences(2, 0, true, 3), all[..5]);
        assert_eq!(sequences(1, 5, false, 2), [[0], [1]]);
        assert!(sequences(3, 1, true, 2).is_empty() && sequences(0, 1, true, 2).is_empty());
    }

    #[test]
    fn what_cannot_become_a_sequence_is_not_tried() {
        assert_eq!(sequences(1000, 1000, false, 1000), [(0..1000).collect::<Vec<_>>()]);
    }

    #[test]
    fn white_space_separates_words() {
        let split = |text: &'static str| {
            words(text.as_bytes()).unwrap().into_iter().map(|word| word.escape_ascii().to_string())
        };
        assert!(split("the quick\tbrown\n fox ").eq(["the", "quick", "brown", "fox"]));
        assert!(split(" a b").eq(["b"]) && split(" a").eq([" a"]) && split("").eq([""; 0]));
    }
}
