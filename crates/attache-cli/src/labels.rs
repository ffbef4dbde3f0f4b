//! Names of classes: from a file, else from the model.

use std::path::Path;

use attache::Model;

use crate::failure::Failure;

/// The lines of a label file. Blank lines at its end don't count.
pub(crate) fn read(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::usage(error.to_string()).at(path.display()))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<String> {
    text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// The labels of the file, else those that the model holds, else none.
pub(crate) fn labels(file: Option<&Path>, model: &Model) -> Result<Vec<String>, Failure> {
    match file {
        Some(path) => read(path),
        None => Ok(model.labels()?.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_lines() {
        assert_eq!(parse("background\r\n\r\ngreat white shark \n\n"), ["background", "", "great white shark"]);
        assert!(parse("").is_empty());
    }
}
