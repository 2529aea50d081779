//! The content security policy of a page: the second lock, if a name should ever come through unescaped.

use sha2::{Digest, Sha256};

/// Returns the policy under which exactly `scripts` run. Nothing is fetched; images are made by the page itself, when it saves
/// a figure.
pub fn policy(scripts: &[String]) -> String {
    let hashes = scripts.iter().map(|script| format!(" 'sha256-{}'", base64(&Sha256::digest(script))));
    let hashes: String = hashes.collect();
    // Figures have style attributes, which no hash can allow.
    format!("default-src 'none'; script-src{hashes}; style-src 'unsafe-inline'; img-src blob:")
}

/// Encodes bytes as RFC 4648 does in section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |three: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        let digit = move |at: usize| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
        let used = three.len() + 1;
        (0..4).map(move |at| if at < used { digit(at) } else { '=' })
    };
    bytes.chunks(3).flat_map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in vectors {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    }
}
