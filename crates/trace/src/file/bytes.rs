//! Little-endian numbers and LEB128 variable-length integers. Reading checks every length.

use super::error::Damage;

/// Appends `n` in base 128, low digits first, with the top bit set on all digits but the last.
pub(super) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a signed difference, so that small ones of either sign are short (zigzag).
pub(super) fn put_signed(out: &mut Vec<u8>, n: i64) {
    put_varint(out, ((n << 1) ^ (n >> 63)) as u64);
}

/// Appends the length of `text` in bytes, and the text.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads from the front of a slice.
pub(super) struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Damage> {
        let (front, rest) = self.0.split_at_checked(n).ok_or(Damage("a list that ends too early"))?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        Ok(self.take(N)?.try_into().expect("N bytes were taken"))
    }

    pub fn u8(&mut self) -> Result<u8, Damage> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, Damage> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Damage> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Damage> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn varint(&mut self) -> Result<u64, Damage> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let digit = self.u8()?;
            if shift == 63 && digit > 1 {
                break;
            }
            n |= ((digit & 0x7f) as u64) << shift;
            if digit < 0x80 {
                return Ok(n);
            }
        }
        Err(Damage("a number that is too long"))
    }

    /// Reads a variable-length integer, which must fit the type `T`.
    pub fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Damage> {
        T::try_from(self.varint()?).map_err(|_| Damage("a number out of range"))
    }

    pub fn signed(&mut self) -> Result<i64, Damage> {
        let n = self.varint()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    pub fn text(&mut self) -> Result<String, Damage> {
        let len = self.narrow::<usize>()?;
        let bytes = self.take(len)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Damage("text that is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decoding_reverses_encoding(n: u64, s: i64, t: String) {
            let mut out = Vec::new();
            put_varint(&mut out, n);
            put_signed(&mut out, s);
            put_text(&mut out, &t);
            let mut cursor = Cursor(&out);
            prop_assert_eq!((cursor.varint().unwrap(), cursor.signed().unwrap(), cursor.text().unwrap()), (n, s, t));
            prop_assert!(cursor.is_empty());
        }
    }

    #[test]
    fn overlong_numbers_are_refused() {
        assert!(Cursor(&[0xff; 10]).varint().is_err());
        assert!(Cursor(&[0x80]).varint().is_err());
        assert!(Cursor(&[0xff, 0xff, 0x04]).narrow::<u16>().is_err());
    }
}
