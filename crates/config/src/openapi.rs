//! `[openapi]`, and `doc` of routes

use crate::section::section;

section! {
    /// The OpenAPI document of all routes: what routes with `openapi`, the admin listener and `forebay openapi` give.
    pub struct OpenApi {
        /// The name of the API.
        title: String = "API",
        /// The version of the API.
        version: String = "0.0.0",
        /// The purpose of the API. Markdown (CommonMark), as in all descriptions.
        description: Option<String>,
    }
}

section! {
    /// The documentation of a route in the OpenAPI document.
    pub struct RouteDoc {
        /// One line: what a request does.
        summary: Option<String>,
        /// More than that.
        description: Option<String>,
        /// The groups to which its operations belong.
        tags: Vec<String> = "",
        /// Whether the document leaves the route out, as it does those with `openapi`.
        hidden: bool = "false",
    }
}
