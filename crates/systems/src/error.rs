//! Errors of system names, of their options, and of systems that a machine cannot run.

/// An error in what a user wrote for a system, or a machine that cannot run it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SystemError {
    /// No system has this name.
    #[error("there is no system {name:?}{near}; `reach system list` shows all")]
    Name {
        /// The name as the user wrote it.
        name: String,
        /// `: did you mean …?`, or empty where no known name is near.
        near: String,
    },
    /// The system has no such option.
    #[error("system {system} has no option {option:?}{near}; {known}")]
    Option {
        /// The system's name.
        system: String,
        /// The option as the user wrote it.
        option: String,
        /// `: did you mean …?`, or empty where no known option is near.
        near: String,
        /// The options that the system has, as a clause: `it has zero_page`.
        known: String,
    },
    /// The option has another name today.
    #[error("system {system}: option {old:?} is now {new:?}; write {system}:{new}={value}")]
    Renamed {
        /// The system's name.
        system: String,
        /// The option as the user wrote it.
        old: String,
        /// The option's name today.
        new: &'static str,
        /// The value as the user wrote it.
        value: String,
    },
    /// The option does not take this value.
    #[error("{system}: {option}={value}: expected {accepts}{hint}")]
    Value {
        /// The system's name.
        system: String,
        /// The option's name.
        option: String,
        /// The value as the user wrote it.
        value: String,
        /// The values that the option takes.
        accepts: String,
        /// `; write …`, or empty where the value resembles none that the option takes.
        hint: String,
    },
    /// An option is not of the form `key=value`.
    #[error("{system}: {text:?} is not of the form key=value; write {system}:key=value,key=value")]
    Form {
        /// The system's name.
        system: String,
        /// The text as the user wrote it.
        text: String,
    },
    /// The machine lacks hardware that the system needs.
    #[error("{system} cannot run on this machine: {what}")]
    Machine {
        /// The system's name.
        system: String,
        /// The missing hardware, and what to do.
        what: String,
    },
    /// An option has a value that the system or another option excludes.
    #[error("{system}: {what}")]
    Options {
        /// The system's name.
        system: String,
        /// The options, and what to give instead.
        what: String,
    },
}
