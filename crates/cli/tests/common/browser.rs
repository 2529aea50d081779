//! A headless Chromium that opens pages, driven by the DevTools protocol over two pipes: no port, no library, and nothing but
//! JSON with a zero byte after each message.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// How long a browser may take for one answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one tab.
pub struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    last: u64,
    session: Option<String>,
    /// What the console has shown, exceptions included, since the last page was opened.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

/// Returns the first Chromium of `PATH`; `REACH_CHROMIUM` names another.
fn chromium() -> Option<String> {
    if let Ok(path) = std::env::var("REACH_CHROMIUM") {
        return Some(path);
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut all = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    all.find(|path| path.is_file()).and_then(|path| path.to_str().map(str::to_owned))
}

impl Browser {
    /// Starts a browser. `None` where there is none, with a sentence.
    pub fn start() -> Option<Browser> {
        let Some(chromium) = chromium() else {
            eprintln!("skipped: pages were not opened, because there is no Chromium (Debian's package chromium)");
            return None;
        };
        let profile = crate::common::folder();
        // The browser reads commands from descriptor 3, and answers on 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", &chromium])
            .args(["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--mute-audio"])
            // Tests may run as root, and in containers with little shared memory; the pages are our own.
            .args(["--no-sandbox", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(answers).split(0).map_while(Result::ok);
            let messages = messages.filter_map(|message| serde_json::from_slice(&message).ok());
            messages.map_while(|message: Value| sender.send(message).ok()).for_each(drop);
        });
        let (last, session, complaints) = (0, None, Vec::new());
        let mut browser = Browser { process, commands, messages, last, session, complaints, _profile: profile };
        let tab = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": tab, "flatten": true }));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Opens a file in a window of this width, in pixels.
    pub fn open(&mut self, file: &str, width: u32, scheme: &str) {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
        self.complaints.clear();
        let file = std::fs::canonicalize(Path::new(file)).unwrap();
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        while self.next()["method"] != "Page.loadEventFired" {}
        // Figures are drawn when their width is known, before the next picture.
        self.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(true), 50)))");
    }

    /// Returns the value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let options = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", options);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Returns roles and names of everything that a screen reader finds.
    pub fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false);
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// Sends a command, and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut command = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let message = self.next();
            if message["id"] == self.last {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Returns the next message, and keeps what it complains about.
    fn next(&mut self) -> Value {
        let message = self.messages.recv_timeout(PATIENCE).expect("the browser answers");
        let parameters = &message["params"];
        let complains = match message["method"].as_str() {
            Some("Runtime.consoleAPICalled") => parameters["type"] == "error" || parameters["type"] == "warning",
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => parameters["entry"]["level"] != "verbose",
            _ => false,
        };
        if complains {
            self.complaints.push(parameters.to_string());
        }
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
