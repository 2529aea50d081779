//! What every page contains: the style, the libraries, and our drawing code.

/// The style sheet.
pub const STYLE: &str = include_str!("../assets/draw/page.css");

/// The licences of the libraries, which ask to go with every copy.
pub const LICENCES: &str = include_str!("../assets/vendor/licences.txt");

/// D3, then Plot, which expects it.
const LIBRARIES: [&str; 2] =
    [include_str!("../assets/vendor/d3.min.js"), include_str!("../assets/vendor/plot.umd.min.js")];

/// Our code, in the order of its use; one script, so that its names are its own.
const DRAWING: [&str; 6] = [
    include_str!("../assets/draw/rows.js"),
    include_str!("../assets/draw/figure.js"),
    include_str!("../assets/draw/metrics.js"),
    include_str!("../assets/draw/owners.js"),
    include_str!("../assets/draw/verdicts.js"),
    include_str!("../assets/draw/main.js"),
];

/// Returns the scripts in the order in which they must run.
pub fn scripts() -> Vec<String> {
    let own = format!("(() => {{\n\"use strict\";\n{}}})();\n", DRAWING.concat());
    LIBRARIES.into_iter().map(str::to_owned).chain([own]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_script_ends_its_element() {
        for script in scripts() {
            let lower = script.to_ascii_lowercase();
            assert!(!lower.contains("</script") && !lower.contains("<!--"));
        }
        assert!(!STYLE.to_ascii_lowercase().contains("</style"));
    }

    #[test]
    fn the_libraries_are_those_that_the_script_fetches() {
        use sha2::{Digest, Sha256};
        let script = include_str!("../../../scripts/vendor-page.sh");
        for library in LIBRARIES.into_iter().chain([LICENCES]) {
            let sum: String = Sha256::digest(library).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(script.contains(&sum), "{sum}: run scripts/vendor-page.sh");
        }
    }
}
