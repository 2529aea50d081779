//! Text and JSON inside HTML.

use reach_core::shown_lines;

/// Returns `text` as the content of an element or of an attribute in double quotes. What would order the text around it anew is
/// escaped, as in a terminal.
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in shown_lines(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            _ => out.push(c),
        }
    }
    out
}

/// Returns `json` as the content of a script element. Outside of strings, JSON has no `<`; inside, an escape means the same.
pub fn json_in_html(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_with_a_meaning_is_escaped() {
        assert_eq!(text("<a href='x'>&\"\u{202e}\n"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\\u{202e}\n");
    }

    #[test]
    fn escaped_json_means_the_same() {
        let name = "</script><!-- <script>";
        let escaped = json_in_html(&serde_json::to_string(name).unwrap());
        assert!(!escaped.contains('<'));
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), name);
    }
}
