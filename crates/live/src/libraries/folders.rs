//! The folders in which the GNU dynamic loader looks for libraries (ld.so(8)).

use std::env;
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// What the loader's search depends on, besides the files.
#[derive(Debug)]
pub struct Rules {
    /// Folders that are searched last.
    pub defaults: Vec<PathBuf>,
    /// Whether the loader has `/etc/ld.so.cache`.
    pub cached: bool,
    /// Subfolders of `glibc-hwcaps` that this processor can use, best first.
    pub hwcaps: Vec<&'static str>,
    /// Value of `LD_LIBRARY_PATH`.
    environment: Option<OsString>,
    /// Value of `$LIB`.
    lib: &'static str,
    /// Value of `$PLATFORM`.
    platform: OsString,
    /// Whether the program runs with more rights than its user has, so that the loader ignores what the user could choose.
    pub secure: bool,
}

/// Folders of the C library on systems that follow the file system hierarchy. Debian's lie in a folder for the processor,
/// those of others in `lib64`; on no system are both in use.
const DEFAULTS: [&str; 6] = if cfg!(target_arch = "aarch64") {
    ["/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"]
} else {
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"]
};

impl Rules {
    /// Returns the rules of the loader at `loader`, for a program that is `secure` (setuid, setgid or with capabilities).
    /// `LD_LIBRARY_PATH` is this process's.
    pub fn of(loader: Option<&Path>, secure: bool) -> Rules {
        let hierarchy = |loader: &&Path| !DEFAULTS.iter().any(|folder| loader.starts_with(folder));
        // A loader elsewhere, as in /nix/store, has the C library beside it, and no cache.
        let elsewhere = loader.filter(hierarchy).and_then(Path::parent);
        Rules {
            defaults: elsewhere.map_or_else(|| DEFAULTS.map(PathBuf::from).to_vec(), |folder| vec![folder.into()]),
            cached: elsewhere.is_none(),
            hwcaps: hwcaps(),
            environment: env::var_os("LD_LIBRARY_PATH").filter(|_| !secure),
            lib: match Path::new(DEFAULTS[0]).is_dir() {
                true => &DEFAULTS[0][1..],
                false => "lib64",
            },
            platform: platform(),
            secure,
        }
    }

    /// Returns the folders of `LD_LIBRARY_PATH`, for a program in the folder `origin`.
    pub fn environment(&self, origin: &Path) -> Vec<PathBuf> {
        self.environment.as_ref().map_or_else(Vec::new, |list| self.list(list, b":;", origin))
    }

    /// Returns the folders of a `DT_RPATH` or `DT_RUNPATH` in a file of the folder `origin`.
    pub fn folders(&self, list: &OsStr, origin: &Path) -> Vec<PathBuf> {
        self.list(list, b":", origin)
    }

    fn list(&self, list: &OsStr, separators: &[u8], origin: &Path) -> Vec<PathBuf> {
        let parts = list.as_bytes().split(|byte| separators.contains(byte)).take(MAX_FOLDERS);
        let folders = parts.map(|part| self.expand(OsStr::from_bytes(part), origin));
        // An empty part is the current folder.
        folders.flatten().map(|folder| if folder.as_os_str().is_empty() { ".".into() } else { folder }).collect()
    }

    /// Replaces `$ORIGIN`, `$LIB` and `$PLATFORM`, with or without braces. `None` if a secure program names its own folder,
    /// and is not led to a default folder.
    pub fn expand(&self, text: &OsStr, origin: &Path) -> Option<PathBuf> {
        let tokens =
            [("ORIGIN", origin.as_os_str()), ("LIB", OsStr::new(self.lib)), ("PLATFORM", self.platform.as_os_str())];
        let (mut expanded, mut rest, mut has_origin) = (Vec::new(), text.as_bytes(), false);
        while let Some((&byte, after)) = rest.split_first() {
            let token =
                (byte == b'$').then(|| tokens.iter().find_map(|token| Some((token, token_end(after, token.0)?))));
            match token.flatten() {
                Some(((name, value), end)) => {
                    has_origin |= *name == "ORIGIN";
                    expanded.extend(value.as_bytes());
                    rest = &after[end..];
                }
                None => {
                    expanded.push(byte);
                    rest = after;
                }
            }
        }
        let path = PathBuf::from(OsString::from_vec(expanded));
        let plain = |path: &Path| !path.components().any(|part| part == Component::ParentDir);
        let default = || plain(&path) && self.defaults.iter().any(|folder| path.starts_with(folder));
        (!(self.secure && has_origin) || default()).then_some(path)
    }
}

/// Greatest number of folders that are taken from one list.
const MAX_FOLDERS: usize = 1024;

/// Returns the length of the token `name` at the start of `text`, which follows a dollar. `None` if another follows.
fn token_end(text: &[u8], name: &str) -> Option<usize> {
    if let Some(braced) = text.strip_prefix(b"{") {
        return braced.strip_prefix(name.as_bytes())?.starts_with(b"}").then_some(name.len() + 2);
    }
    let rest = text.strip_prefix(name.as_bytes())?;
    let longer = rest.first().is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (!longer).then_some(name.len())
}

/// Returns the kernel's name of this processor (`AT_PLATFORM`).
fn platform() -> OsString {
    // SAFETY: the kernel's answer is 0 or the address of a terminated string that lives as long as the process.
    let name = unsafe {
        let name = libc::getauxval(libc::AT_PLATFORM) as *const libc::c_char;
        (!name.is_null()).then(|| CStr::from_ptr(name))
    };
    name.map_or_else(OsString::new, |name| OsStr::from_bytes(name.to_bytes()).to_owned())
}

/// Returns the levels of the x86-64 instruction set that this processor has, best first (System V ABI, table 3.1).
#[cfg(target_arch = "x86_64")]
fn hwcaps() -> Vec<&'static str> {
    macro_rules! has {
        ($($feature:tt)*) => { true $(&& is_x86_feature_detected!($feature))* };
    }
    let v2 = has!("sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "cmpxchg16b");
    let v3 = v2 && has!("avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe");
    let v4 = v3 && has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl");
    let levels = [(v4, "x86-64-v4"), (v3, "x86-64-v3"), (v2, "x86-64-v2")];
    levels.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}

/// glibc defines no levels for other processors.
#[cfg(not(target_arch = "x86_64"))]
fn hwcaps() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(secure: bool) -> Rules {
        Rules {
            environment: (!secure).then(|| "/env;$ORIGIN/env:".into()),
            lib: "lib/x86_64-linux-gnu",
            platform: "x86_64".into(),
            ..Rules::of(None, secure)
        }
    }

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn tokens_are_replaced_with_and_without_braces() {
        let folders = |list: &str| rules(false).folders(OsStr::new(list), Path::new("/opt/bin"));
        assert_eq!(
            folders("$ORIGIN/../lib:${ORIGIN}x:/$LIB"),
            paths(&["/opt/bin/../lib", "/opt/binx", "/lib/x86_64-linux-gnu"])
        );
        assert_eq!(folders("/${PLATFORM}/$PLATFORM"), paths(&["/x86_64/x86_64"]));
        // A name that goes on, or an open brace, is no token.
        assert_eq!(folders("$ORIGINAL:${ORIGIN:$LIB_:$"), paths(&["$ORIGINAL", "${ORIGIN", "$LIB_", "$"]));
        assert_eq!(folders("a::b;c"), paths(&["a", ".", "b;c"]), "only LD_LIBRARY_PATH knows semicolons");
        assert_eq!(rules(false).environment(Path::new("/o")), paths(&["/env", "/o/env", "."]));
    }

    #[test]
    fn secure_programs_choose_no_folder_by_their_own_place_nor_by_the_environment() {
        let folders = |list: &str, origin: &str| rules(true).folders(OsStr::new(list), Path::new(origin));
        assert_eq!(folders("$ORIGIN/lib:/fixed", "/home/eve"), paths(&["/fixed"]));
        assert_eq!(folders("$ORIGIN/x", "/usr/lib"), paths(&["/usr/lib/x"]));
        assert_eq!(folders("$ORIGIN/../../home", "/usr/lib"), paths(&[]));
        assert_eq!(rules(true).environment(Path::new("/home/eve")), paths(&[]));
    }

    #[test]
    fn loaders_outside_of_the_hierarchy_bring_their_own_folder() {
        let nix = Rules::of(Some(Path::new("/nix/store/x-glibc/lib/ld-linux-x86-64.so.2")), false);
        assert_eq!((nix.defaults, nix.cached), (paths(&["/nix/store/x-glibc/lib"]), false));
        assert!(Rules::of(Some(Path::new("/lib64/ld-linux-x86-64.so.2")), false).cached);
    }
}
