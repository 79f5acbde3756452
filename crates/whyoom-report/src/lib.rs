//! Presenters over one explanation: text and JSON.
