//! What requests are, and how they are answered: by the name in the path, as Rengine's, as other systems send them, and so that they are kept.

pub(super) mod custom;
pub(super) mod kept;
pub(super) mod named;
pub(super) mod scenes;
pub(super) mod template;
mod xml;
