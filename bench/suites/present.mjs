/**
 * Splits optional peers into those that are installed and sentences about the others, with the command that installs
 * them. `lacking()` of a peer returns that command, or null if it is installed.
 */
export function present(peers) {
  const there = peers.filter((peer) => peer.lacking() === null);
  const skipped = peers.filter((peer) => peer.lacking() !== null).map((peer) => `${peer.name} is not installed and left out: ${peer.lacking()}`);
  return { there, skipped };
}
