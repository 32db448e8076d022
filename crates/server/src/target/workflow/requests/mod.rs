//! What requests are, and how they are answered: by the name in the path, as Rengine's, and as other systems send them.

pub(super) mod custom;
pub(super) mod named;
pub(super) mod scenes;
pub(super) mod template;
mod xml;
