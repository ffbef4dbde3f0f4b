//! `--variant all`: checks cases with every variant of the GPU's kernels, and counts the cases that cover
//! each variant.

use attache::Report as Figures;
use serde_json::{Value, json};

use super::Mismatch;
use crate::console::Console;
use crate::device::{Device, SOFTWARE};
use crate::failure::Failure;

/// A kernel variant, and the number of cases in which a kernel used it.
struct Seen {
    name: &'static str,
    /// What this device lacks to use the variant, if anything.
    lacks: Option<&'static str>,
    cases: usize,
}

/// All kernel variants, with the number of cases that cover each.
pub(super) struct Coverage(Vec<Seen>);

impl Coverage {
    /// Returns the variants of the device's GPU, with no case counted yet. Without a GPU this is an error.
    pub(super) fn of(device: &Device) -> Result<Self, Failure> {
        let variants = device.variants();
        if variants.is_empty() {
            return Err(Failure::unsupported(format!("--variant is for a GPU, and there is none; {SOFTWARE}")));
        }
        Ok(Self(variants.into_iter().map(|(name, lacks)| Seen { name, lacks, cases: 0 }).collect()))
    }

    /// Checks a case with the default variants, and with each other variant that applies, and counts the
    /// variants that kernels used. Returns all mismatches. `checked` runs the case on a device.
    pub(super) fn check(
        &mut self,
        device: &Device,
        checked: impl Fn(&Device) -> (Vec<Mismatch>, Figures),
    ) -> Vec<Mismatch> {
        let (mut mismatches, figures) = checked(device);
        for seen in &mut self.0 {
            let mut written = figures.variants.contains(seen.name);
            if figures.alternatives.contains(seen.name) {
                let (others, figures) = checked(&device.with_variant(seen.name));
                written |= figures.variants.contains(seen.name);
                let told = |other: Mismatch| Mismatch { message: format!("{}: {}", seen.name, other.message), ..other };
                mismatches.extend(others.into_iter().map(told));
            }
            seen.cases += usize::from(written);
        }
        mismatches
    }

    /// Returns the names of the variants that this device can use and that no case covers.
    pub(super) fn unseen(&self) -> Vec<&'static str> {
        self.0.iter().filter(|seen| seen.cases == 0 && seen.lacks.is_none()).map(|seen| seen.name).collect()
    }

    /// Returns a JSON object with the number of cases of each variant, by the variant's name.
    pub(super) fn cases(&self) -> Value {
        self.0.iter().map(|seen| (seen.name.to_owned(), json!(seen.cases))).collect()
    }

    /// Returns a line of text for each variant.
    pub(super) fn lines(&self, console: &Console) -> Vec<String> {
        let line = |seen: &Seen| match (seen.cases, seen.lacks) {
            (0, Some(lacks)) => format!("{}: no case: it needs {lacks}", seen.name),
            (0, None) => console.red(&format!("{}: no case", seen.name)),
            (1, _) => format!("{}: 1 case", seen.name),
            (cases, _) => format!("{}: {cases} cases", seen.name),
        };
        self.0.iter().map(line).collect()
    }
}
