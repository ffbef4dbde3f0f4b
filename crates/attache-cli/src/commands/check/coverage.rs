//! `--variant all`: coverage of the variants of the GPU's kernels by cases.

use attache::Report as Figures;
use serde_json::{Value, json};

use super::Mismatch;
use crate::console::Console;
use crate::device::Device;
use crate::failure::Failure;

/// A variant, and the number of cases in which it wrote a kernel.
struct Seen {
    name: &'static str,
    /// What this device lacks to use the variant, if anything.
    lacks: Option<&'static str>,
    cases: usize,
}

/// The coverage of all variants.
pub(super) struct Coverage(Vec<Seen>);

impl Coverage {
    /// The variants of a GPU, without any cases.
    pub(super) fn of(device: &Device) -> Result<Self, Failure> {
        let variants = device.variants();
        if variants.is_empty() {
            return Err(Failure::unsupported(
                "variants are the GPU's; --delegate gpu takes a software adapter as well",
            ));
        }
        Ok(Self(variants.into_iter().map(|(name, lacks)| Seen { name, lacks, cases: 0 }).collect()))
    }

    /// The mismatches of a case with the default variants, and with each other variant that applies.
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

    /// The variants that this device can use and that no case covers.
    pub(super) fn unseen(&self) -> Vec<&'static str> {
        self.0.iter().filter(|seen| seen.cases == 0 && seen.lacks.is_none()).map(|seen| seen.name).collect()
    }

    /// The number of cases of each variant, by name.
    pub(super) fn cases(&self) -> Value {
        self.0.iter().map(|seen| (seen.name.to_owned(), json!(seen.cases))).collect()
    }

    /// A line for each variant.
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
