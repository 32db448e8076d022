/**
 * Divides peers that a suite can do without into those that are there and sentences about the others, with the command that installs
 * them. A peer says what it lacks by `lacking()`: that command, null when it is there.
 */
export function present(peers) {
  const there = peers.filter((peer) => peer.lacking() === null);
  const skipped = peers.filter((peer) => peer.lacking() !== null).map((peer) => `${peer.name} is not installed and left out: ${peer.lacking()}`);
  return { there, skipped };
}
