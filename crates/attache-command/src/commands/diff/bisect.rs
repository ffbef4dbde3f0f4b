//! Searches for the first operator whose output differs on the delegate, and writes it as a golden case.

use std::path::{Path, PathBuf};

use attache::diff::{Array as Made, Case, Difference, FirstDivergence, Tolerance, Trace};
use serde_json::{Value, json};

use super::{Delegates, Hybrid};
use crate::failure::Failure;
use crate::io::array::Array;
use crate::io::files;
use crate::io::golden::model_file;
use crate::io::npy;

/// The result of the search: the first operator that diverges, if there is one, and the folder of its golden
/// case, if one was written.
pub(super) struct Bisection {
    divergence: Option<FirstDivergence>,
    case: Option<PathBuf>,
}

impl Bisection {
    /// Searches for the operator and writes its case. Also returns why the case could not be written, if so.
    pub(super) fn search(
        trace: &Trace,
        delegates: &Delegates,
        tolerance: &Tolerance,
        folder: Option<&Path>,
    ) -> Result<(Self, Option<Failure>), Failure> {
        let divergence = trace.first_divergence(delegates, tolerance)?;
        let (mut case, mut failure) = (None, None);
        if let (Some(divergence), Some(folder)) = (&divergence, folder) {
            failure = write(folder, trace.case(divergence.node)?).err();
            case = Some(folder.to_owned()).filter(|_| failure.is_none());
        }
        Ok((Self { divergence, case }, failure))
    }

    pub(super) fn passes(&self) -> bool {
        self.divergence.is_none()
    }

    pub(super) fn text(&self, hybrid: &Hybrid) -> String {
        let Some(FirstDivergence { operator, name, tensor, difference, .. }) = &self.divergence else {
            return "no operator diverges".to_owned();
        };
        let far = difference.as_ref().map_or("has another shape".to_owned(), |difference| {
            format!("is off by {:.3e} ({:.3e} of the largest)", difference.largest, difference.relative())
        });
        let case = self.case.as_ref().map_or(String::new(), |folder| format!("; case in {}", folder.display()));
        let kind = if hybrid.contains(*operator) { ", with dynamic range quantization" } else { "" };
        format!("the first to diverge is operator {operator} ({name}{kind}): tensor \"{tensor}\" {far}{case}")
    }

    pub(super) fn json(&self) -> Value {
        let Some(FirstDivergence { operator, name, tensor, difference, .. }) = &self.divergence else {
            return Value::Null;
        };
        json!({
            "index": operator,
            "operator": name,
            "tensor": tensor,
            "largest": difference.as_ref().map(|difference| difference.largest),
            "relative": difference.as_ref().map(Difference::relative),
            "nonfinite_reference": difference.as_ref().map(|difference| difference.nonfinite_reference),
            "nonfinite_test": difference.as_ref().map(|difference| difference.nonfinite_test),
            "case": self.case.as_deref().map(files::json),
        })
    }
}

/// Writes a golden case in the form that `attache check` reads: all of its files or none.
fn write(folder: &Path, case: Case) -> Result<(), Failure> {
    let notes = json!({ "op": case.name }).to_string().into_bytes();
    let mut all = vec![(model_file(folder), case.model), (folder.join("case.json"), notes)];
    for (stem, arrays) in [("in", case.inputs), ("out", case.outputs)] {
        for (index, Made { data_type, shape, bytes }) in arrays.into_iter().enumerate() {
            let path = folder.join(format!("{stem}_{index}.npy"));
            let bytes = npy::encode(&path, &Array { data_type, shape, bytes })?;
            all.push((path, bytes));
        }
    }
    let all: Vec<(&Path, &[u8])> = all.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice())).collect();
    files::write_all_in(Some(folder), &all)
}
