//! Formats numbers, sizes and times for people.

use std::io;
use std::time::Duration;

/// Formats a count with separators: `31,402`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with three significant digits and a decimal prefix: `1.12 G`, `512 M`, `17`.
pub fn short(n: f64) -> String {
    let mut n = n;
    let mut prefix = "";
    for next in [" K", " M", " G", " T", " P"] {
        if n < 999.5 {
            break;
        }
        n /= 1000.0;
        prefix = next;
    }
    let decimals = match n {
        _ if prefix.is_empty() && n.fract() == 0.0 => 0,
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{n:.decimals$}{prefix}")
}

/// Formats bytes in powers of 1024, under the names usual for memory: `86 MB`, `1.5 GB`.
pub fn memory(bytes: u64) -> String {
    let mut n = bytes as f64;
    let mut unit = "B";
    for next in ["KB", "MB", "GB", "TB", "PB"] {
        if n < 1023.5 {
            break;
        }
        n /= 1024.0;
        unit = next;
    }
    let decimals = usize::from(n < 9.95 && unit != "B" && unit != "KB");
    format!("{n:.decimals$} {unit}")
}

/// Formats a share from 0 to 1 as a percentage: `9.8 %`; exactly zero as `0 %`.
pub fn percent(share: f64) -> String {
    if share == 0.0 { "0 %".into() } else { format!("{:.1} %", 100.0 * share) }
}

/// Formats a number with `decimals` decimals; exactly zero as `0`.
pub fn decimal(x: f64, decimals: usize) -> String {
    if x == 0.0 { "0".into() } else { format!("{x:.decimals$}") }
}

/// Formats a number with its error, the half-width of a 95 % confidence interval: `3.21 ±0.08`. `None` omits the error.
pub fn decimal_within(x: f64, error: Option<f64>, decimals: usize) -> String {
    match error {
        Some(error) if x != 0.0 => format!("{x:.decimals$} ±{error:.decimals$}"),
        _ => decimal(x, decimals),
    }
}

/// Formats a share with its error as a percentage: `9.8 ±0.3 %`. `None` omits the error.
pub fn percent_within(share: f64, error: Option<f64>) -> String {
    match error {
        Some(error) if share != 0.0 => format!("{:.1} ±{:.1} %", 100.0 * share, 100.0 * error),
        _ => percent(share),
    }
}

/// Formats a duration: `7 ms`, `0.42 s`, `14.2 s`, `3 min 20 s`.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.0005 => "<1 ms".into(),
        s if s < 0.0995 => format!("{:.0} ms", 1000.0 * s),
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 99.95 => format!("{s:.1} s"),
        s => format!("{} min {} s", s as u64 / 60, s as u64 % 60),
    }
}

/// Formats the microseconds that something stopped a program: `8.1 µs`, `1,204 µs`.
pub fn stop(micros: f64) -> String {
    if micros < 9.95 { format!("{micros:.1} µs") } else { format!("{} µs", grouped(micros.round() as u64)) }
}

/// Formats a count with its noun: `1 process`, `3 processes`.
pub fn plural(n: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { singular } else { plural })
}

/// Returns the operating system's message for `error`, without the error number.
pub fn message(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sizes_and_times_have_few_digits_and_a_unit() {
        assert_eq!([0, 999, 1000, 31402, 1234567].map(grouped), ["0", "999", "1,000", "31,402", "1,234,567"]);
        assert_eq!(
            [0.0, 17.0, 999.0, 999.7, 1.12e9, 67.4e6, 999.6e6].map(short),
            ["0", "17", "999", "1.00 K", "1.12 G", "67.4 M", "1.00 G"]
        );
        assert_eq!(
            [0, 512, 4096, 86 << 20, 3 << 19, 1 << 40].map(memory),
            ["0 B", "512 B", "4 KB", "86 MB", "1.5 MB", "1.0 TB"]
        );
        assert_eq!([0.0, 0.098, 1.0].map(percent), ["0 %", "9.8 %", "100.0 %"]);
        assert_eq!(
            [0.0, 0.007, 0.4, 14.23, 200.0].map(|s| time(Duration::from_secs_f64(s))),
            ["<1 ms", "7 ms", "0.40 s", "14.2 s", "3 min 20 s"]
        );
        assert_eq!(plural(1, "process", "processes"), "1 process");
    }
}
